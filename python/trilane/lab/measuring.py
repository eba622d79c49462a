"""Entries of a plan, measured: one run after the other, or all of a block in turns."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from trilane import _core
from trilane.lab.asked import Entry
from trilane.lab.clients import turns
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.clients.executor import Executor, is_command
from trilane.lab.experiment.form import Form
from trilane.lab.experiment.workload import ArmSpec
from trilane.lab.model.network import OnNetwork
from trilane.lab.model.run import Run
from trilane.lab.model.sample import Sample, ServerCost
from trilane.lab.network import emulated
from trilane.lab.network.emulated import NetworkFailed
from trilane.lab.testbed import OwnRun, Testbed, Unavailable


def executor(form: Form, arm: ArmSpec, testbed: Testbed, logs: Path, run: OwnRun = ()) -> Executor:
    """What makes the runs of an arm, or the `run` of it that has a server of its own.

    Raises:
        Unavailable: the server does not run.
    """
    return Executor(
        form=form,
        arm=arm,
        setting=testbed.setting(form, arm, run),
        command=testbed.command(arm),
        folder=logs,
    )


def together(entries: Sequence[Entry], points: Sequence[Form]) -> Iterator[list[Entry]]:
    """The entries that run at a time: one by one, or where runs take turns all of a block."""
    for (number, _), block in groupby(entries, lambda entry: (entry.point, entry.block)):
        if _take_turns(points[number]):
            yield list(block)
        else:
            yield from ([entry] for entry in block)


def _take_turns(point: Form) -> bool:
    """Whether the runs of a block go on at a time."""
    return point.turn_s is not None or all(map(is_command, point.arms))


def measured(
    point: Form, entries: Sequence[Entry], testbed: Testbed, logs: Path, seed: int
) -> list[Sample]:
    """What came of entries that run at a time; `seed` says in which order they take turns."""
    if not _take_turns(point):
        return [_alone(point, entry, testbed, logs) for entry in entries]
    runs = [(point.arm(entry.arm), entry.slot) for entry in entries]
    # The same turns where a seed is given, and others in each block.
    chance = random.Random(repr((seed, entries[0].key)))  # noqa: S311 - reproducible, not secret
    ended: Sequence[turns.Ended]
    try:
        # New processes in each block: what one costs depends on where its memory happens to lie.
        with testbed.own_servers(runs):
            executors = [
                (executor(point, arm, testbed, logs, (arm.name, slot)), _name(entry))
                for entry, (arm, slot) in zip(entries, runs, strict=True)
            ]
            if point.turn_s is None:
                ended = turns.run_commands(executors, chance)
            else:
                ended = turns.run_engine(executors, point.turn_s, chance)
    except (RunFailed, Unavailable) as error:
        # Without one of them the turns of the others mean nothing.
        ended = [RunFailed(str(error)) for _ in entries]
    return [
        _sample(entry, None, problem=str(each))
        if isinstance(each, RunFailed)
        else _sample(entry, *each)
        for entry, each in zip(entries, ended, strict=True)
    ]


def _name(entry: Entry) -> str:
    """What the files of a run are called."""
    name = f"{entry.point + 1}-{entry.block + 1:02}-{entry.position + 1}-{entry.arm}"
    return f"{name}-again" if entry.again else name


def _sample(
    entry: Entry,
    run: Run | None,
    server: ServerCost | None = None,
    network: OnNetwork | None = None,
    problem: str | None = None,
) -> Sample:
    return Sample(
        arm=entry.arm,
        block=entry.block,
        slot=entry.slot,
        position=entry.position,
        run=run,
        problem=None if problem is None else _core.for_terminal(problem),
        file=f"runs/{_name(entry)}.json" if run is not None else None,
        server=server,
        network=network,
        again=entry.again,
    )


def _alone(point: Form, entry: Entry, testbed: Testbed, logs: Path) -> Sample:
    arm = point.arm(entry.arm)
    run: Run | None = None
    server: ServerCost | None = None
    network: OnNetwork | None = None
    problem = None
    try:
        made = executor(point, arm, testbed, logs)
        testbed.begin_run(arm, entry.block)
        run, server = made.run(_name(entry))
        network = testbed.end_run(arm)
        if network is not None:
            run = run.doubted(*emulated.problems(network))
    except (RunFailed, NetworkFailed) as error:
        problem = str(error)
    return _sample(entry, run, server, network, problem)
