"""Runs that take turns: what the engine is told, who is suspect, and the order of commands."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import cast

import pytest

from synthetic import records
from synthetic.records import altered
from trilane.lab.clients import command_run, turns
from trilane.lab.clients.command_run import Series
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.clients.turns import Turns
from trilane.lab.model.run import Run

RUN = records.run("h1")


def test_the_engine_is_told_its_turns_and_a_run_lasts_as_long_as_those_of_all() -> None:
    told = Turns(start_ns=7, length_s=0.02, of=3, index=1, seed=9)
    flag, value = told.flags
    assert flag == "--in-turn"
    assert json.loads(value) == {"start_ns": 7, "length_s": 0.02, "of": 3, "index": 1, "seed": 9}
    # The engine's own test has the same: a tenth of a turn is a pause.
    assert told.takes_s(1.0) == pytest.approx(3.3)


def test_requests_that_reach_into_the_turns_of_others_make_a_run_suspect() -> None:
    service = RUN.latency.service
    assert service is not None
    assert service.p50 is not None
    good = turns.judged(RUN, 4 * service.p50)
    assert good.validity == RUN.validity
    [*others, told] = turns.judged(RUN, 3.9 * service.p50).validity.reasons
    assert (others, told.code, told.verdict) == (RUN.validity.reasons, "short_turns", "suspect")
    assert "--turn " in told.text


@dataclass
class Commands:
    """Stands for the executions of a command, and writes them into a log."""

    name: str
    log: list[str]
    executions: int
    fails_at: int | None = None
    made: int = 0
    alone: list[bool] = field(default_factory=list)

    def begin(self) -> None:
        self.log.append(f"begin {self.name}")

    @property
    def complete(self) -> bool:
        return self.made == self.executions

    def step(self) -> None:
        if self.made == self.fails_at:
            raise RunFailed(f"{self.name} failed")
        self.made += 1
        self.log.append(self.name)

    def finish(self, *, alone: bool) -> Run:
        self.alone.append(alone)
        return RUN


def in_turn(*commands: Commands) -> list[Run | RunFailed]:
    return command_run.in_turn(cast("list[Series]", list(commands)), random.Random(3))


def test_each_command_runs_once_in_each_round_until_it_is_complete() -> None:
    log: list[str] = []
    all_three = [Commands(name, log, 20) for name in "abc"]
    all_three[2].executions = 15
    assert in_turn(*all_three) == [RUN] * 3
    assert log[:3] == ["begin a", "begin b", "begin c"]
    rounds = [log[at : at + 3] for at in range(3, 48, 3)]
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert len({tuple(each) for each in rounds}) > 2, "their order is random"
    assert sorted(log[48:]) == ["a"] * 5 + ["b"] * 5
    # What the interface carried meanwhile was that of all.
    assert [each.alone for each in all_three] == [[False]] * 3


def test_a_command_that_fails_leaves_the_others_their_turns() -> None:
    log: list[str] = []
    good, bad = Commands("good", log, 5), Commands("bad", log, 5, fails_at=2)
    ended = in_turn(good, bad)
    assert ended[0] is RUN
    assert str(ended[1]) == "bad failed"
    assert (log.count("good"), log.count("bad"), bad.alone) == (5, 2, [])


def test_a_run_without_a_median_is_as_the_engine_judged_it() -> None:
    nothing = altered(RUN, {"latency.service": None})
    assert turns.judged(nothing, 0.001) == nothing
