"""Requests' own tests with the adapter mounted, against a table of what differs."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from trilane.lab.clients import environments

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LIMIT_S = 600
# Of Requests 2.34.2 on a machine without Windows.
LEAST_PASSED = 600


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """How each case went, and why."""
    script = HERE / "suite.py"
    try:
        python = environments.interpreter(script)
    except environments.EnvironmentFailed as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    report = tmp_path_factory.mktemp("suite") / "outcomes.json"
    cache = environments.cache_folder() / "requests"
    run = subprocess.run(
        [python, script, "--cache", cache, "--outcomes", report],
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    found: dict[str, tuple[str, str]] = json.loads(report.read_text())
    return found


@pytest.fixture(scope="module")
def table() -> dict[str, dict[str, str]]:
    return tomllib.loads((HERE / "differences.toml").read_text(encoding="utf-8"))


def test_what_fails_is_in_the_table(
    outcomes: dict[str, tuple[str, str]], table: dict[str, dict[str, str]]
) -> None:
    failed = {case: why for case, (outcome, why) in outcomes.items() if outcome == "failed"}
    new = [f"{case}\n{why}" for case, why in failed.items() if case not in table["fails"]]
    assert not new, "\n\n".join(new)


def test_what_is_in_the_table_fails(
    outcomes: dict[str, tuple[str, str]], table: dict[str, dict[str, str]]
) -> None:
    assert {case: outcomes.get(case, ("missing",))[0] for case in table["fails"]} == dict.fromkeys(
        table["fails"], "failed"
    )


def test_only_what_requests_skips_is_skipped(
    outcomes: dict[str, tuple[str, str]], table: dict[str, dict[str, str]]
) -> None:
    skipped = {
        case.split("[")[0] for case, (outcome, _) in outcomes.items() if outcome == "skipped"
    }
    assert skipped <= table["skipped"].keys()
    assert sum(outcome == "passed" for outcome, _ in outcomes.values()) >= LEAST_PASSED
