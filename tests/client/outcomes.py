"""A plugin for pytest under other projects' own tests: how the cases went goes to a file.

SUITE_OUTCOMES gets {"cases": {"id": ["passed" | "failed" | "skipped", "why"]}, "versions": {"20":
how many responses had that version}}.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

VERSIONS: Counter[str] = Counter()
"""Whoever sees responses counts them here."""

_LINES = 12
_CASES: dict[str, tuple[str, str]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep how a case went: a failure of its fixtures is a failure of the case."""
    if report.when != "call" and report.passed:
        return
    why = "" if report.passed else str(report.longreprtext).strip()
    if report.skipped and isinstance(report.longrepr, tuple):
        why = report.longrepr[2]
    if _CASES.get(report.nodeid, ("passed",))[0] != "failed":
        _CASES[report.nodeid] = report.outcome, "\n".join(why.splitlines()[-_LINES:])


def pytest_sessionfinish() -> None:
    """Write what was kept."""
    found = {"cases": _CASES, "versions": VERSIONS}
    Path(os.environ["SUITE_OUTCOMES"]).write_text(json.dumps(found))
