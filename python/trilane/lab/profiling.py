"""Profiles of both ends of each arm, from a run of its own: sampling slows what it samples."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from trilane.lab import measuring
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.experiment.form import Form
from trilane.lab.experiment.workload import ArmSpec
from trilane.lab.machine import perf
from trilane.lab.machine.perf import NoProfile, Stack
from trilane.lab.model.measures import SYSCALLS
from trilane.lab.model.profile import End, Profile, Profiles
from trilane.lab.network.emulated import NetworkFailed
from trilane.lab.testbed import Testbed, Unavailable

# Shorter runs have too few samples.
_LEAST_S = 3.0
_ELSEWHERE = "the load is made by other machines, whose processes perf does not reach from here"


def profiled(form: Form, testbed: Testbed, logs: Path, say: Callable[[str], None]) -> Profiles:
    """Profiles of the arms, at the last value of a sweep.

    By now all is measured: what goes wrong here, Ctrl-C included, costs profiles, and no result.
    """
    hindrance = _ELSEWHERE if testbed.cluster is not None else perf.refusal()
    if hindrance is not None:
        return Profiles(made=[], missing=[hindrance])
    *_, (_, point) = form.points()
    # Programs that are traced for their system calls are slow, and call others.
    counted = tuple(name for name in point.measures if name != SYSCALLS.name)
    work = point.workload
    if work.duration_s is not None and not work.search:
        work = replace(work, duration_s=max(work.duration_s, _LEAST_S))
    point = replace(point, measures=counted or point.measures, workload=work)
    made: list[Profile] = []
    missing: list[str] = []
    for number, arm in enumerate(point.arms, 1):
        try:
            say(f"profiling {arm.title}")
            sampled, servers = _sampled(point, arm, testbed, logs)
            for end, stacks in _ends(sampled, servers):
                if stacks:
                    made.append(_profile(arm.name, end, stacks))
                else:
                    missing.append(f"{arm.title}: {_nothing_of(end, servers)}")
        except KeyboardInterrupt:
            say("Ctrl-C ended the profiles; all that was measured is kept")
            missing.append(f"{arm.title}: Ctrl-C ended it")
            missing += [f"{each.title}: Ctrl-C came before it" for each in point.arms[number:]]
            break
        except (NoProfile, RunFailed, NetworkFailed, Unavailable, OSError) as error:
            missing.append(f"{arm.title}: {error}")
        except Exception as error:  # noqa: BLE001 - what was measured is worth more
            missing.append(f"{arm.title}: {error!r}")
    return Profiles(made=made, missing=missing)


def _sampled(
    point: Form, arm: ArmSpec, testbed: Testbed, logs: Path
) -> tuple[list[Stack], Sequence[int]]:
    """The samples of one run, and the processes of its server."""
    executor = measuring.executor(point, arm, testbed, logs)
    servers = executor.setting.server_pids
    testbed.begin_run(arm, 0)
    with perf.scratch() as file:
        # The client is yet to be started, by this process.
        with perf.sampling([os.getpid(), *servers], file):
            executor.run(f"profile-{arm.name}")
        testbed.end_run(arm)
        return perf.stacks(file), servers


def _ends(sampled: Sequence[Stack], servers: Sequence[int]) -> Iterator[tuple[End, list[Stack]]]:
    others = {os.getpid(), *servers}
    yield "client", [stack for stack in sampled if stack.pid not in others]
    yield "server", [stack for stack in sampled if stack.pid in servers]


def _profile(arm: str, end: End, stacks: Sequence[Stack]) -> Profile:
    return Profile(
        arm=arm, end=end, samples=len(stacks), per_s=perf.PER_S, frames=perf.frames(stacks)
    )


def _nothing_of(end: End, servers: Sequence[int]) -> str:
    if end == "server" and not servers:
        return "the server's processes are not known here: start it with the experiment"
    return f"the {end} took too little processor time to be sampled"
