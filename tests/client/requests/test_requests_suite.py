"""Requests' own tests with the adapter mounted, against a table of what differs."""

from __future__ import annotations

import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from client.environments import LIMIT_S, Outcome, is_listed, suite
from others import others

HERE = Path(__file__).resolve().parent
VERSIONS = ["h1", "h2", "h3"]
# Of Requests 2.34.2; over TLS it is `test_requests.py` alone.
PASSES = {"few": 70, "h1": 600, "h2": 310, "h3": 310}
# How many responses have the version: the others come from servers of the cases' own.
RESPONSES = {"few": ("11", 120), "h1": ("11", 250), "h2": ("20", 230), "h3": ("30", 230)}


@pytest.mark.timeout(LIMIT_S)
def test_a_few_cases_of_requests(tmp_path: Path) -> None:
    _compare("few", suite(HERE / "suite.py", tmp_path, "requests", "--few"))


# One test: the runs would be made again by each process that has another one.
@others
@pytest.mark.timeout(LIMIT_S)
def test_what_differs_under_requests_is_in_the_table(tmp_path: Path) -> None:
    def run(version: str) -> Outcome:
        return suite(HERE / "suite.py", tmp_path, "requests", "--over", version)

    # Two at a time, as most cases sleep.
    with ThreadPoolExecutor(2) as pool:
        for version, outcome in zip(VERSIONS, pool.map(run, VERSIONS), strict=True):
            _compare(version, outcome)


def _compare(what: str, outcome: Outcome) -> None:
    """`what` was run: a version, or `few`."""
    tables = tomllib.loads((HERE / "differences.toml").read_text(encoding="utf-8"))
    table = tables["tls" if what in {"h2", "h3"} else "h1"]
    failed = outcome.those("failed")
    new = [
        f"{what}: {case}\n{why}"
        for case, why in failed.items()
        if case not in table and not is_listed(case, tables["names"])
    ]
    assert not new, "\n\n".join(new)
    wanted = table.keys() & outcome.cases.keys() if what == "few" else table.keys()
    assert wanted - failed.keys() == set()
    # Only what Requests skips is skipped, and all of it was run over that version.
    skipped = {case.split("[")[0] for case in outcome.those("skipped")}
    assert skipped <= tables["skipped"].keys()
    assert len(outcome.those("passed")) >= PASSES[what]
    number, least = RESPONSES[what]
    assert outcome.versions[number] >= least
