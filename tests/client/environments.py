"""Environments of the scripts that run in one of their own."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from repository import ROOT
from trilane.lab.programs import environments
from trilane.lab.storage import store

LIMIT_S = 900
"""For a test that may have to make an environment first."""


def interpreter(script: Path) -> Path:
    """The interpreter of a script's environment; a skip with its reason where it cannot be made."""
    try:
        return environments.interpreter(script)
    except environments.EnvironmentFailed as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


@dataclass(frozen=True)
class Outcome:
    """How the cases of a suite went, by their ids, and how many responses had which version."""

    cases: dict[str, tuple[str, str]]
    """`passed`, `failed` or `skipped`, and why."""
    versions: dict[str, int]

    def those(self, outcome: str) -> dict[str, str]:
        """The cases with that outcome, and why."""
        return {case: why for case, (found, why) in self.cases.items() if found == outcome}


def suite(script: Path, folder: Path, name: str, *arguments: str) -> Outcome:
    """Run the script of a suite of somebody else's (`client.suites`), whose sources have a name."""
    report = folder / f"{'-'.join((script.stem, *arguments))}.json"
    options = ("--cache", str(store.cache_folder() / name), "--outcomes", str(report))
    done = subprocess.run(
        [interpreter(script), script, *options, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join((f"{ROOT}/python", f"{ROOT}/tests"))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Outcome(**json.loads(report.read_text()))


def is_listed(case: str, *tables: dict[str, str]) -> bool:
    """Whether the case is in a table, by its id, or by its id without parameters."""
    return any(case in table or case.partition("[")[0] in table for table in tables)


def check_against(table: dict[str, dict[str, str]], outcome: Outcome, *, few: bool) -> None:
    """Whether exactly those cases fail that are in a table of a suite.

    Those of `with any transport` may fail, and those of `with ours, by chance`; the cases of `with
    ours` have to, where not only a `few` were run.
    """
    failed = outcome.those("failed")
    new = [f"{case}\n{why}" for case, why in failed.items() if not is_listed(case, *table.values())]
    assert not new, "\n\n".join(new)
    wanted = {case for case in table["with ours"] if not few or case in outcome.cases}
    names = {case.partition("[")[0] for case in failed} | set(failed)
    assert wanted - names == set(), "they pass now"
