"""What the proof of `trilane ab` makes of its answers; the comparisons themselves: tests/lab."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from scipy import stats as scipy_stats

from synthetic import races
from trilane.cli import run as command
from trilane.lab import ab_proof, ab_proof_answers
from trilane.lab.ab_proof import ProofFailed
from trilane.lab.ab_proof_answers import Answer, BadAnswers, Kind, Plan
from trilane.lab.analysis import paired, recorded_noise
from trilane.lab.model.measures import SERVER_CPU

PLAN = Plan(
    schema="trilane.ab-proof/1",
    started_at="2026-11-26T12:00:00Z",
    budget=0.03,
    planted=0.08,
    blocks=30,
    window_s=0.25,
    turns=30_000,
    costlier_turns=33_000,
    loop=0.8,
)


NOISE = np.random.default_rng(1).normal(0, 0.02, 30)


def answer(kind: Kind, met: bool | None, ratio: float | None, blocks: int = 10) -> Answer:
    return Answer(kind=kind, met=met, ratio=ratio, blocks=blocks, took_s=10.0, noise=NOISE.tolist())


@pytest.mark.parametrize(
    ("kind", "met", "ratio", "right"),
    [
        ("unchanged", True, 1.0, True),
        ("unchanged", None, 1.02, True),
        ("unchanged", False, 1.05, False),
        ("unchanged", None, None, False),
        ("costlier", False, 1.08, True),
        ("costlier", None, 1.05, False),
        ("costlier", True, 1.0, False),
        ("costlier", None, None, False),
    ],
)
def test_an_answer_is_right_where_the_command_ends_as_it_should(
    kind: Kind, met: bool | None, ratio: float | None, right: bool
) -> None:
    assert answer(kind, met, ratio).right is right


def test_the_report_counts_and_simulates() -> None:
    answers = [answer("unchanged", True, 1.0)] * 49 + [answer("unchanged", False, 1.06)]
    answers += [answer("costlier", False, 1.08)] * 45 + [answer("costlier", None, 1.05, 30)] * 5
    head, noise, unchanged, of_it, costlier, of_that = ab_proof_answers.report(PLAN, answers)
    assert head == "cpu +3 %, runs of 0.25 s, at most 30 blocks, until it is decided"
    spread = f"{100 * NOISE.std():.1f} %"
    assert noise == f"CPU per request differs from run to run by {spread} (one deviation)"
    low, high = scipy_stats.binomtest(49, 50).proportion_ci(method="exact")
    assert unchanged.startswith(
        f"an unchanged revision passes: 49 of 50 times (95 % interval {100 * low:.1f}–"
        f"{100 * high:.1f} %; simulated "
    )
    assert of_it.startswith("  49 met, 1 breached, 0 undecided; measured in the middle: +0 %")
    assert costlier.startswith("+8 % CPU is caught: 45 of 50 times (")
    assert of_that.startswith("  0 met, 45 breached, 5 undecided; measured in the middle: +8 %")
    assert ab_proof_answers.holds(answers)
    assert not ab_proof_answers.holds([*answers, answer("costlier", True, 1.0)])
    assert not ab_proof_answers.holds([*answers, answer("unchanged", False, 1.1)])
    assert not ab_proof_answers.holds(answers[:50])


def test_answers_are_read_but_for_a_line_that_was_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    assert ab_proof_answers.read(file) is None
    file.write_bytes(b'{"schema": "trilane.ab-pr')
    assert ab_proof_answers.read(file) is None
    made = answer("costlier", False, 1.08)
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in (PLAN, made, made))
    file.write_bytes(lines[:-5])
    assert ab_proof_answers.read(file) == (PLAN, [made])
    file.write_bytes(b"{}\n")
    with pytest.raises(BadAnswers, match="holds no answers"):
        ab_proof_answers.read(file)


def test_what_is_left_is_made_in_turn() -> None:
    assert list(ab_proof._left([], 2)) == ["unchanged", "costlier"] * 2
    made = [answer("unchanged", True, 1.0)] * 2 + [answer("costlier", False, 1.08)]
    assert list(ab_proof._left(made, 3)) == ["costlier", "unchanged", "costlier"]
    assert list(ab_proof._left(made, 1)) == []


def test_other_flags_do_not_go_on_with_the_answers_there(tmp_path: Path) -> None:
    folder = tmp_path / ab_proof.FOLDER
    folder.mkdir()
    (folder / "answers.jsonl").write_bytes(msgspec.json.encode(PLAN) + b"\n")
    with pytest.raises(ProofFailed, match=r"are of 30 blocks, runs of 0\.25 s, .*--new"):
        ab_proof.prove(tmp_path, 1, blocks=20, window_s=0.25, fresh=False, say=lambda _told: None)


def test_the_noise_of_a_comparison_is_that_of_its_runs() -> None:
    made = paired.compare(races.race({"h1": 1.0, "h2": 1.5}, blocks=40, noise=0.03))
    [noise] = recorded_noise.deviations(made, (SERVER_CPU,)).T
    assert np.std(noise) == pytest.approx(0.03, rel=0.2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--prove", "0"], "--prove"),
        (["--prove", "1", "--blocks", "6"], "--blocks 6: give at least 7"),
        (["--prove", "1", "-d", "0s"], "-d"),
        (["--prove", "1", "--serve", "./app {port}"], "--serve"),
        (["--prove", "1", "--budget", "cpu +5%"], "--prove makes its own"),
    ],
)
def test_wrong_usage_is_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["ab", *arguments]) == 2
    assert said in capsys.readouterr().err
