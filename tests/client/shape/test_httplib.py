"""CPython's cases: those that are not in the table hold, those that are in it do not."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import warnings
from pathlib import Path

import pytest

if importlib.util.find_spec("test.support") is None:
    MISSING = "the standard library's `test` package is not installed (libpython3-testsuite)"
    if os.environ.get("CI") == "true":
        pytest.fail(MISSING, pytrace=False)
    pytest.skip(MISSING, allow_module_level=True)

from client.interpreters import interpreter
from client.shape import httplib, table
from others import others
from peers.running import absent
from repository import ROOT

CASES = httplib.cases()


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        # CPython's cases leave sockets of their own to the collector.
        warnings.simplefilter("ignore", ResourceWarning)
        found, trace = httplib.outcome(CASES[name])
    difference = httplib.listed().get(name)
    if difference is None:
        assert found == "passed", trace
    elif difference.skipped:
        assert found == "skipped", trace
    else:
        assert found == "failed", f"{name} holds now: take it out of differences.toml"


@others
@pytest.mark.parametrize("version", sorted(set(httplib.SOURCES) - {httplib.RUNNING}))
def test_cases_of_other_versions(version: str) -> None:
    """The module is built once for all versions of Python (abi3)."""
    program = interpreter(version, "test.test_httplib")
    if program is None:
        absent(f"no CPython {version} with its test package is here")
    done = subprocess.run(
        [program, "-m", "client.shape.httplib"],
        env={"PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{ROOT / 'python'}"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout.splitlines()[-1])
    listed = httplib.listed(version)
    wrong = {}
    for name, (found, trace) in outcomes.items():
        difference = listed.get(name)
        expected = "passed" if difference is None else "failed"
        if difference is not None and difference.skipped:
            expected = "skipped"
        if found != expected:
            wrong[name] = (found, expected, trace)
    assert not wrong, "\n".join(f"{name}: {told}" for name, told in wrong.items())
    assert len(outcomes) > 100


def test_the_table_names_cases_that_exist_once() -> None:
    everywhere = [one for one in httplib.differences() if not one.versions]
    named = [case for one in everywhere for case in one.cases]
    assert sorted(set(named)) == sorted(named)
    for version in httplib.SOURCES:
        listed = [
            case
            for one in httplib.differences()
            if not one.versions or version in one.versions
            for case in one.cases
        ]
        assert sorted(set(listed)) == sorted(listed)
    assert {case for case in httplib.listed() if case not in CASES} == set()


def test_the_documentation_has_the_table() -> None:
    page = table.PAGE.read_text(encoding="utf-8")
    assert table.filled(page) == page, "run `python -m client.shape.table` in tests"
