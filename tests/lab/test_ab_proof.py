"""The proof of `trilane ab`: calibrated, interrupted, gone on with, for a few comparisons."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from peers.running import absent
from trilane.lab import ab_proof, ab_proof_answers
from trilane.lab.processes.launch import find_program

LIMIT_S = 600


def command(state: Path, *flags: str) -> subprocess.Popen[str]:
    if find_program("git") is None:
        absent("git is not installed on this machine")
    return subprocess.Popen(
        [sys.executable, "-m", "trilane", "ab", "--state", str(state), *flags],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_it_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    quick = ("--prove", "1", "--blocks", "7", "-d", "100ms")
    with command(tmp_path, *quick) as first:
        assert first.stderr is not None
        lines = []
        for line in first.stderr:
            lines.append(line)
            if line.startswith("1 of 2: unchanged"):
                first.send_signal(signal.SIGINT)
                break
        out, err = first.communicate(timeout=LIMIT_S)
        assert first.returncode == 130, "".join(lines) + err
    assert "calibrating" in lines[0]
    assert "an unchanged revision passes: " in out
    assert "type the same command again" in err
    with command(tmp_path, *quick) as again:
        out, err = again.communicate(timeout=LIMIT_S)
        # How often it is right at so few blocks of so short runs is the machine's affair.
        assert again.returncode in (0, 3), err
    assert err.startswith("going on: 1 comparisons were made before")
    assert "calibrating" not in err
    assert "2 of 2: costlier" in err
    assert "+8 % CPU is caught: " in out
    there = ab_proof_answers.read(tmp_path / ab_proof.FOLDER / "answers.jsonl")
    assert there is not None
    plan, answers = there
    assert [answer.kind for answer in answers] == ["unchanged", "costlier"]
    assert 0 < plan.loop < 1.5
    assert plan.costlier_turns > plan.turns
    assert all(answer.blocks == 7 for answer in answers)
    # Each run tells its CPU; one revision runs twice in each block.
    assert [len(answer.noise) for answer in answers] == [21, 21]
