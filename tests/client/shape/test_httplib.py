"""CPython's cases: those that are not in the table hold, those that are in it do not."""

from __future__ import annotations

import importlib.util
import os
import warnings
from pathlib import Path

import pytest

if importlib.util.find_spec("test.support") is None:
    MISSING = "the standard library's `test` package is not installed (libpython3-testsuite)"
    if os.environ.get("CI") == "true":
        pytest.fail(MISSING, pytrace=False)
    pytest.skip(MISSING, allow_module_level=True)

from client.shape import httplib, table

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


def test_the_table_names_cases_that_exist_once() -> None:
    named = [case for one in httplib.differences() for case in one.cases]
    assert sorted(set(named)) == sorted(named)
    assert set(named) <= CASES.keys()


def test_the_documentation_has_the_table() -> None:
    page = table.PAGE.read_text(encoding="utf-8")
    assert table.filled(page) == page, "run `python -m client.shape.table` in tests"
