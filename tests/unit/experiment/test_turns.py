"""Forms whose runs take turns: how a file says it, and where it means nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trilane.lab import measuring
from trilane.lab.asked import Entry
from trilane.lab.experiment import describe, experiment_file
from trilane.lab.experiment.bad_experiment import BadExperiment
from trilane.lab.experiment.experiment import Experiment

TEXT = """\
schema = "trilane.experiment/1"
name = "turns"
title = "In turn"
question = "Which costs less?"

[forms.fair]
baseline = "one"
rank = "server_cpu_us_per_request"
measures = ["server_cpu_us_per_request"]
turn = "20ms"
[forms.fair.workload]
duration = "1s"
warmup = "0s"
[[forms.fair.arms]]
name = "one"
client = "engine"
version = "h1"
strategy = "load"
connections = 8
[[forms.fair.arms]]
name = "two"
client = "engine"
version = "h2c"
strategy = "load"
connections = 1
streams = 8
"""


def read(text: str) -> Experiment:
    return experiment_file.parse(text.encode(), Path("experiments/turns.toml"))


def test_a_form_says_how_long_a_turn_is() -> None:
    made = read(TEXT)
    form = made.forms["fair"]
    assert form.turn_s == pytest.approx(0.02)
    assert Experiment.from_dict(made.to_dict()) == replace(made, path=None)
    assert describe.statistics(form).endswith("in turns of 20 ms")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('turn = "20ms"', 'turn = "0.5ms"', "0.0005 s is no length of a turn: take 1ms to 10s"),
        ('duration = "1s"\nwarmup = "0s"', "count = 100", "its workload has no duration"),
        ('warmup = "0s"', 'rate = "50"', "one has a rate"),
        ("streams = 8", 'streams = 8\nnetwork = "rtt=40ms"', "two is on an emulated network"),
        (
            "streams = 8",
            'streams = 8\nserver = "http://127.0.0.1:1"',
            "two has a server that is not started here",
        ),
        (
            'strategy = "load"\nconnections = 1\nstreams = 8',
            'strategy = "serial"',
            "two is not of client = 'engine' with strategy = 'load'",
        ),
    ],
)
def test_what_does_not_send_as_much_as_it_can_for_a_time_has_no_turns(
    old: str, new: str, told: str
) -> None:
    with pytest.raises(BadExperiment) as refused:
        read(TEXT.replace(old, new))
    assert "forms.fair.turn: " in str(refused.value)
    assert told in str(refused.value)


def test_the_runs_of_a_block_go_on_at_a_time() -> None:
    form = read(TEXT).forms["fair"]
    entries = [Entry(0, block, 0, arm, 0) for block in (0, 1) for arm in ("one", "two")]
    in_turn = list(measuring.together(entries, [form]))
    assert in_turn == [entries[:2], entries[2:]]
    alone = list(measuring.together(entries, [replace(form, turn_s=None)]))
    assert alone == [[entry] for entry in entries]
