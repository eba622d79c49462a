"""Requests' own tests with the adapter mounted, against a table of what differs."""

from __future__ import annotations

import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from client.environments import LIMIT_S, Outcome, is_listed, suite

HERE = Path(__file__).resolve().parent
VERSIONS = ["h1", "h2", "h3"]
# Of Requests 2.34.2; over TLS it is `test_requests.py` alone.
PASSES = {"h1": 600, "h2": 310, "h3": 310}
# How many responses have the version: the others come from servers of the cases' own.
RESPONSES = {"h1": ("11", 250), "h2": ("20", 230), "h3": ("30", 230)}


# One test: the runs would be made again by each process that has another one.
@pytest.mark.timeout(LIMIT_S)
def test_what_differs_under_requests_is_in_the_table(tmp_path: Path) -> None:
    def run(version: str) -> Outcome:
        return suite(HERE / "suite.py", tmp_path, "requests", "--over", version)

    # Two at a time, as most cases sleep.
    with ThreadPoolExecutor(2) as pool:
        for version, outcome in zip(VERSIONS, pool.map(run, VERSIONS), strict=True):
            _compare(version, outcome)


def _compare(version: str, outcome: Outcome) -> None:
    tables = tomllib.loads((HERE / "differences.toml").read_text(encoding="utf-8"))
    table = tables["h1" if version == "h1" else "tls"]
    failed = outcome.those("failed")
    new = [
        f"{version}: {case}\n{why}"
        for case, why in failed.items()
        if case not in table and not is_listed(case, tables["names"])
    ]
    assert not new, "\n\n".join(new)
    assert table.keys() - failed.keys() == set()
    # Only what Requests skips is skipped, and all of it was run over that version.
    skipped = {case.split("[")[0] for case in outcome.those("skipped")}
    assert skipped <= tables["skipped"].keys()
    assert len(outcome.those("passed")) >= PASSES[version]
    number, least = RESPONSES[version]
    assert outcome.versions[number] >= least
