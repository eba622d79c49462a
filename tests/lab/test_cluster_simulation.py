"""What is printed of large clusters, for small ones: real processes, which check their own sums."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMMAND = (sys.executable, "-m", "trilane.cluster.simulation")


def printed(*words: str) -> list[list[str]]:
    """The cells of each row."""
    done = subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_the_reports_of_one_worker_are_added_up_as_those_of_many() -> None:
    rows = printed("gather", "--workers", "2", "130")
    assert [row[0] for row in rows] == ["2", "130"]
    # The plan of each worker: 200 requests/s for five seconds.
    assert [row[3] for row in rows] == ["2,000", "130,000"]


def test_a_scheduler_passes_on_every_frame_of_every_worker() -> None:
    ((workers, *_, frames, _size),) = printed("scheduler", "--workers", "3")
    assert workers == "3"
    # Each said that it began, five seconds, and its report, at least.
    assert int(frames) >= 3 * 7


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["stop"], "stop: there is no such part: choose from start, gather, scheduler"),
        (["--workers", "0"], "--workers 0: takes 1 to 1024"),
        (["--workers", "5000"], "--workers 5000: takes 1 to 1024"),
        (["--runs", "0"], "--runs 0: at least one run is simulated"),
    ],
)
def test_what_cannot_be_simulated_is_refused(words: list[str], told: str) -> None:
    done = subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert told in done.stderr
