"""Where the time of a run goes, by folder and by file: shown at its end and kept in build/."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from repository import ROOT

KEPT = ROOT / "build" / "took-python"
_FEWEST_TO_TELL = 1000
_SLOWEST = 15


class Took:
    """Adds up the seconds of tests with their set-up and teardown, of all processes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        """By file, relative to tests/."""
        self.tests = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0].removeprefix("tests/")
        self.seconds[file] += report.duration
        self.tests += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show where a run of the whole suite was slowest; nobody waits for a few tests."""
        if self.tests < _FEWEST_TO_TELL:
            return
        folders = self.folders()
        rows = [
            *(f"{seconds:7.1f} s  {name}/" for name, seconds in _slowest_first(folders)),
            *(f"{seconds:7.1f} s  {name}" for name, seconds in _slowest_first(self.seconds)),
        ]
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text("".join(f"{row}\n" for row in rows))
        terminalreporter.section("seconds by folder and by file, summed over processes")
        for row in rows[: len(folders) + _SLOWEST]:
            terminalreporter.write_line(row)
        terminalreporter.write_line(f"all: {KEPT.relative_to(ROOT)}")

    def folders(self) -> dict[str, float]:
        folders: dict[str, float] = defaultdict(float)
        for file, seconds in self.seconds.items():
            folders[str(Path(file).parent)] += seconds
        return folders


def _slowest_first(seconds: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda row: -row[1])
