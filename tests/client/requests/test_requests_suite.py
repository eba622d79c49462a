"""Requests' own tests with the adapter mounted, against a table of what differs."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from repository import ROOT
from trilane.lab.clients import environments

HERE = Path(__file__).resolve().parent
LIMIT_S = 600
VERSIONS = ["h1", "h2", "h3"]
# Of Requests 2.34.2; over TLS it is `test_requests.py` alone.
PASSES = {"h1": 600, "h2": 310, "h3": 310}
# How many responses have the version: the others come from servers of the cases' own.
RESPONSES = {"h1": ("11", 250), "h2": ("20", 230), "h3": ("30", 230)}


@dataclass(frozen=True)
class Outcome:
    """How the cases went, by their ids, and the versions of the responses."""

    cases: dict[str, tuple[str, str]]
    versions: dict[str, int]

    def those(self, outcome: str) -> dict[str, str]:
        """The cases with that outcome, and why."""
        return {case: why for case, (found, why) in self.cases.items() if found == outcome}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Outcome]]]:
    """The three runs, two at a time, as most cases sleep."""
    script = HERE / "suite.py"
    try:
        python = environments.interpreter(script)
    except environments.EnvironmentFailed as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("suite")
    cache = environments.cache_folder() / "requests"

    def run(version: str) -> Outcome:
        report = folder / f"{version}.json"
        done = subprocess.run(
            [python, script, "--cache", cache, "--over", version, "--outcomes", report],
            env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return Outcome(**json.loads(report.read_text()))

    with ThreadPoolExecutor(2) as pool:
        yield {version: pool.submit(run, version) for version in VERSIONS}


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def outcome(running: dict[str, Future[Outcome]], version: str) -> Outcome:
    return running[version].result()


@pytest.fixture
def table(version: str) -> dict[str, str]:
    """The cases that differ."""
    return _table()["h1" if version == "h1" else "tls"]


def _table() -> dict[str, dict[str, str]]:
    return tomllib.loads((HERE / "differences.toml").read_text(encoding="utf-8"))


def test_what_fails_is_in_the_table(outcome: Outcome, table: dict[str, str]) -> None:
    new = [f"{case}\n{why}" for case, why in outcome.those("failed").items() if case not in table]
    assert not new, "\n\n".join(new)


def test_what_is_in_the_table_fails(outcome: Outcome, table: dict[str, str]) -> None:
    assert table.keys() - outcome.those("failed").keys() == set()


def test_only_what_requests_skips_is_skipped(outcome: Outcome) -> None:
    skipped = {case.split("[")[0] for case in outcome.those("skipped")}
    assert skipped <= _table()["skipped"].keys()


def test_all_of_it_was_run_over_that_version(outcome: Outcome, version: str) -> None:
    assert len(outcome.those("passed")) >= PASSES[version]
    number, least = RESPONSES[version]
    assert outcome.versions[number] >= least
