"""Each program of this folder once, in small, so that it goes on running beside the package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from peers.running import absent
from research import __main__ as research
from research.ab import answers, proof
from research.cluster import recorded
from research.comparisons import recorded_noise, simulation
from synthetic import folders
from trilane.lab import ab
from trilane.lab.processes.launch import find_program


def rows(printed: str) -> list[list[str]]:
    """The cells of all tables, without their heads and rules."""
    lines = [line for line in printed.splitlines() if line.startswith("|")]
    rules = [number for number, line in enumerate(lines) if not set(line) - set("|-: ")]
    left_out = {each for number in rules for each in (number - 1, number)}
    kept = [line.strip("|") for number, line in enumerate(lines) if number not in left_out]
    return [[cell.strip() for cell in line.split("|")] for line in kept]


def test_comparisons_are_simulated_on_the_noise_of_a_race_that_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(simulation, "SHAPES", [(2, 6)])
    monkeypatch.setattr(simulation, "UNTIL_DECIDED", [(2, 8)])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folders.race(tmp_path / "trilane", "20261120-100000", {"h1": 1.0, "h2": 1.5, "h3": 0.6})
    kept = str(tmp_path / "noise.json")
    assert research.main(["comparisons", "--recorded", "latest", "--keep", kept]) == 0
    # Neither the arms, which lie far apart, nor the blocks are in what is left.
    assert np.abs(recorded_noise.of_file(Path(kept)).table.mean(axis=0)).max() < 1e-4
    assert research.main(["comparisons", "--tables", "1", "--recorded", kept, research.NOISE]) == 0
    told = rows(capsys.readouterr().out)
    # Four tables have a row for each noise, and that of budgets six.
    assert len(told) == 2 * (4 + 6)
    assert {row[0].partition(",")[0] for row in told} == {
        "20261120-100000-race",
        recorded_noise.of_file(Path(research.NOISE)).title.partition(",")[0],
    }


def test_a_cluster_of_a_few_workers_is_simulated_and_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recorded, "LENGTH_S", 1)
    assert research.main(["cluster", "--workers", "3", "--runs", "2"]) == 0
    *starts, gathered, scheduled = rows(capsys.readouterr().out)
    # No worker is farther off than it says.
    assert {row[6] for row in starts} == {"100 %"}
    # The plan of each worker: 200 requests/s for a second.
    assert (gathered[0], gathered[3]) == ("3", "600")
    # Each said that it began, a second, and its report, at least.
    assert scheduled[0] == "3"
    assert int(scheduled[-2]) >= 3 * 3


def test_the_proof_of_ab_goes_on_with_its_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if find_program("git") is None:
        absent("git is not installed on this machine")
    monkeypatch.setattr(ab, "LEAST_BLOCKS", 2)
    monkeypatch.setattr(proof, "CALIBRATING_BLOCKS", 2)
    command = ["ab", "1", "--blocks", "2", "-d", "0.1", "--state", str(tmp_path)]
    # How often it is right at so few blocks of so short runs is the machine's affair.
    assert research.main(command) in (0, 3)
    printed = capsys.readouterr()
    assert "calibrating" in printed.err
    assert "+8 % CPU is caught: " in printed.out
    there = answers.read(tmp_path / proof.FOLDER / "answers.jsonl")
    assert there is not None
    assert [answer.kind for answer in there[1]] == ["unchanged", "costlier"]
    # Each run tells its CPU; one revision runs twice in each block.
    assert [len(answer.noise) for answer in there[1]] == [6, 6]
    assert research.main(command) in (0, 3)
    again = capsys.readouterr()
    assert again.err == "going on: 2 comparisons were made before\n"
    assert again.out == printed.out
