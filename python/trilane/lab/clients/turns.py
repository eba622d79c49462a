"""Runs that take turns: all of a block go on at once, and one of them does something at a time.

What a processor does in a second changes from one second to the next where others use its core, its
caches and its power: two runs, one after the other, meet different machines. Runs that alternate
within milliseconds meet the same one. Each has a server process of its own, so that the CPU of that
process is what its run took. Of the engine a turn takes some milliseconds, and what is in flight
when it ends is waited for; of a command it is one execution.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from trilane.lab.clients import command_run
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.model.run import Run
from trilane.lab.model.sample import ServerCost
from trilane.lab.model.validity import Reason

if TYPE_CHECKING:
    from trilane.lab.clients.executor import Executor

# Until the first turn: the processes start, and connect.
_START_S: Final = 0.1
_START_OF_EACH_S: Final = 0.03
# Half of the requests may take this part of a turn, and runs still have the machine for themselves.
_LONGEST: Final = 0.25
# What a pause adds to a turn, as the engine has it.
_PAUSE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Turns:
    """Which turns are those of one run; all runs of a block have the same but for `index`."""

    start_ns: int
    """When the first round begins, by `time.monotonic_ns`."""
    length_s: float
    of: int
    """Runs that take turns."""
    index: int
    seed: int
    """Says the order of the turns in each round."""

    @property
    def flags(self) -> list[str]:
        """As the engine takes them."""
        told = {name: getattr(self, name) for name in self.__slots__}
        return ["--in-turn", json.dumps(told)]

    def takes_s(self, own_s: float) -> float:
        """How long it takes to have so much time for itself."""
        return own_s * self.of * (1 + _PAUSE)


Ended: TypeAlias = tuple[Run, ServerCost | None] | RunFailed
"""What came of a run."""


def run_engine(
    executors: Sequence[tuple[Executor, str]], length_s: float, chance: random.Random
) -> list[Ended]:
    """The runs of all, each with its name, in turns of so many seconds.

    Raises:
        RunFailed: one could not begin, without which the turns of the others mean nothing.
        KeyboardInterrupt: Ctrl-C ended it; no process is left.
    """
    of = len(executors)
    start_ns = time.monotonic_ns() + round(1e9 * (_START_S + of * _START_OF_EACH_S))
    seed = chance.getrandbits(32)
    with ExitStack() as stack:
        for executor, _ in executors:
            executor.watch()
        under_way = []
        for index, (executor, name) in enumerate(executors):
            turns = Turns(start_ns, length_s, of, index, seed)
            under_way.append(stack.enter_context(executor.begun(name, turns)))
        ended: list[Run | RunFailed] = []
        for finish in under_way:
            try:
                ended.append(judged(finish(), length_s))
            except RunFailed as error:
                ended.append(error)
    return _with_costs(ended, executors)


def run_commands(executors: Sequence[tuple[Executor, str]], chance: random.Random) -> list[Ended]:
    """The runs of all, each with its name, whose turns are single executions of their commands.

    Raises:
        KeyboardInterrupt: Ctrl-C ended it; no process is left.
    """
    ended = command_run.in_turn([executor.series() for executor, _ in executors], chance)
    return _with_costs(ended, executors)


def _with_costs(
    ended: Sequence[Run | RunFailed], executors: Sequence[tuple[Executor, str]]
) -> list[Ended]:
    """Each run with what its server spent, once all have ended."""
    return [
        each if isinstance(each, RunFailed) else (each, executor.cost(each))
        for each, (executor, _) in zip(ended, executors, strict=True)
    ]


def judged(run: Run, length_s: float) -> Run:
    """The run, suspect where requests take so long that they reach into the turns of others."""
    service = run.latency.service
    median = None if service is None else service.p50
    if median is None or median <= _LONGEST * length_s:
        return run
    longer_ms = math.ceil(1e3 * median / _LONGEST)
    text = (
        f"half of the requests take {1e3 * median:.3g} ms or longer, more than a quarter of a "
        f"turn: take turns of {longer_ms} ms (--turn {longer_ms}ms), or one run after the other "
        "(--turn 0s)"
    )
    return run.doubted(Reason(code="short_turns", verdict="suspect", text=text))
