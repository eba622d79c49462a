"""urllib3's own tests on `trilane.client.http`, against a table of what differs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from client.environments import LIMIT_S, suite
from client.urllib3.table import PAGE, filled
from others import others

HERE = Path(__file__).resolve().parent
# Of urllib3 2.8.0, whose suite skips 350 cases on a machine like ours.
LEAST_PASSED = {"few": 40, "all": 2100}
# The others are made by hand.
LEAST_RESPONSES = {"few": 50, "all": 500}


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("cases", ["few", pytest.param("all", marks=others)])
def test_what_differs_under_urllib3_is_in_the_table(tmp_path: Path, cases: str) -> None:
    rows = tomllib.loads((HERE / "differences.toml").read_text(encoding="utf-8"))["difference"]
    listed = {case for row in rows for case in row["cases"]}
    assert len(listed) == sum(len(row["cases"]) for row in rows)
    outcome = suite(HERE / "suite.py", tmp_path, "urllib3", *(["--few"] if cases == "few" else []))
    failed = outcome.those("failed")
    new = [f"{case}\n{why}" for case, why in failed.items() if not names(case) & listed]
    assert not new, "\n\n".join(new)
    found = {name for case in failed for name in names(case)}
    certain = {case for row in rows if row.get("certain", True) for case in row["cases"]}
    if cases == "few":
        certain &= {name for case in outcome.cases for name in names(case)}
    assert certain - found == set(), "they pass now"
    assert len(outcome.those("passed")) >= LEAST_PASSED[cases]
    assert outcome.versions["11"] > LEAST_RESPONSES[cases]


def names(case: str) -> set[str]:
    """What stands for a case in the table: its id, without parameters, and of all beside it."""
    plain = case.partition("[")[0]
    return {case, plain, plain.rpartition("::")[0] + "::*", plain.partition("::")[0] + "::*"}


def test_the_documentation_has_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page, "run `python -m client.urllib3.table` in tests"
