"""Arms that keep a rate: how a file writes it, who can, and what the engine is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trilane.cli import units
from trilane.cli.units import Usage
from trilane.lab.clients.engine_run import EnginePlan
from trilane.lab.clients.executor import Setting
from trilane.lab.clock import expected_s
from trilane.lab.experiment import describe, experiment_file
from trilane.lab.experiment.bad_experiment import BadExperiment
from trilane.lab.experiment.experiment import Experiment
from trilane.quantity import per_second

TEXT = """\
schema = "trilane.experiment/1"
name = "paced"
title = "At a rate"
question = "Which is sooner?"

[forms.fair]
baseline = "one"
rank = "p50"
measures = ["p50"]
[forms.fair.workload]
duration = "1s"
warmup = "0s"
rate = "1.5k"
[[forms.fair.arms]]
name = "one"
client = "engine"
version = "h1"
strategy = "load"
connections = 8
[[forms.fair.arms]]
name = "two"
client = "engine"
version = "h2"
strategy = "load"
connections = 1
streams = 8
rate = "50"
"""


def read(text: str) -> Experiment:
    return experiment_file.parse(text.encode(), Path("experiments/paced.toml"))


def test_a_rate_is_the_workloads_or_the_arms_own() -> None:
    form = read(TEXT).forms["fair"]
    assert [arm.rate for arm in form.arms] == [1500.0, 50.0]
    assert Experiment.from_dict(read(TEXT).to_dict()) == replace(read(TEXT), path=None)
    columns, rows, _ = describe.arms(form)
    assert [row[columns.index("rate")] for row in rows] == ["1,500/s", "50/s"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('rate = "50"', 'rate = "0"', "arms[1].rate: '0' is not a rate: write requests per second"),
        ('rate = "50"', "rate = 50", "arms[1].rate: takes requests per second as text"),
        ('rate = "50"', 'rate = "50/s"', "'50/s' is not a rate"),
        (
            'strategy = "load"\nconnections = 8',
            'strategy = "serial"',
            'arms[0].rate: a rate is kept with strategy = "load" alone',
        ),
    ],
)
def test_a_rate_that_nobody_keeps_is_refused(old: str, new: str, told: str) -> None:
    assert old in TEXT
    with pytest.raises(BadExperiment) as caught:
        read(TEXT.replace(old, new, 1))
    assert told in str(caught.value)


def test_the_engine_is_told_the_rate() -> None:
    form = read(TEXT).forms["fair"]
    plan = EnginePlan(form.arms[0], form.workload, ["/hello"], Setting("https://x"))
    command = plan.command(Path("run.json"), None)
    assert command[command.index("-R") :][:2] == ["-R", "1500"]
    unpaced = replace(plan, arm=replace(form.arms[0], rate=None))
    assert "-R" not in unpaced.command(Path("run.json"), None)


def test_a_run_of_a_count_at_a_rate_is_expected_to_take_its_time() -> None:
    form = read(TEXT).forms["fair"]
    counted = replace(form.workload, duration_s=None, count=3000)
    assert expected_s(form.arms[0], counted) - expected_s(
        replace(form.arms[0], rate=3000.0), counted
    ) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "rate"), [("50", 50.0), ("2.5k", 2500.0), ("1m", 1e6), ("0", None), ("k", None)]
)
def test_rates_are_written_as_for_trilane_load(text: str, rate: float | None) -> None:
    assert per_second(text) == rate
    if rate is not None:
        assert units.rate("-R", text) == rate
        return
    with pytest.raises(Usage, match="-R takes requests per second"):
        units.rate("-R", text)
