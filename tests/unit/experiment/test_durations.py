"""`trilane lab list` tells how long experiments take: as they took, else by an estimate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from synthetic.experiments import sample
from trilane.cli import run as command
from trilane.lab import asked
from trilane.lab.clock import expected_s, whole_s
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.machine.facts import facts
from trilane.lab.model.manifest import SCHEMA, Manifest, Status
from trilane.lab.storage import store


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").mkdir()
    return sample(tmp_path / "experiments")


def test_the_estimate_is_of_every_run_of_every_block(experiment: Experiment) -> None:
    wanted = asked.Wanted(experiment, "fair")
    form = asked.chosen(wanted)
    once = sum(expected_s(arm, point.workload) for _, point in form.points() for arm in point.arms)
    assert whole_s(wanted) == pytest.approx(form.stats.blocks * once)
    assert whole_s(asked.Wanted(experiment, "fair", quick=True)) < whole_s(wanted)


def kept(
    state: Path,
    experiment: Experiment,
    number: int,
    took_s: float | None,
    *,
    quick: bool = False,
    blocks: int | None = None,
    status: Status = "complete",
    machine: dict[str, Any] | None = None,
) -> None:
    """A run of the sample."""
    form = asked.chosen(asked.Wanted(experiment, "fair", quick=quick, blocks=blocks))
    folder = state / "runs" / f"2026112{number}-120000-sample-fair"
    folder.mkdir(parents=True)
    manifest = Manifest(
        schema=SCHEMA,
        kind="lab",
        status=status,
        command="trilane lab run sample",
        started_at=f"2026-11-2{number}T12:00:00Z",
        seed=1,
        machine=facts() if machine is None else machine,
        fingerprint=asked.fingerprint(experiment, form),
        took_s=took_s,
    )
    store.write_json(folder / "manifest.json", manifest)


def test_runs_of_the_same_plan_here_say_how_long_it_takes(
    experiment: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    for number, took_s in enumerate((100.0, 500.0, 130.0)):
        kept(state, experiment, number, took_s)
    # These say nothing of it.
    kept(state, experiment, 3, 9000.0, blocks=9)
    kept(state, experiment, 4, 9000.0, status="interrupted")
    kept(state, experiment, 5, 9000.0, machine={"cpu": "another"})
    kept(state, experiment, 6, None, quick=True)
    assert command(["lab", "list", "--state", str(state), "--format", "json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    durations = rows["sample"]["durations"]
    assert durations["full"] == {"seconds": 130.0, "runs": 3}
    assert durations["quick"]["runs"] == 0
    assert durations["quick"]["seconds"] > 0
    assert command(["lab", "list", "--state", str(state)]) == 0
    told = capsys.readouterr().out
    assert "2 min 10 s" in told
    assert "≈ is an estimate" in told
