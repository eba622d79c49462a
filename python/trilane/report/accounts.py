"""What became of the requests of each arm, over which path and in which model."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trilane.lab.model.arm import COMMAND
from trilane.lab.model.comparison import Comparison, JudgedArm
from trilane.lab.model.run import Run
from trilane.report import formatting, view

_REQUEST, _EXECUTION = "request", "execution"


@dataclass(frozen=True, slots=True)
class Account:
    """The requests of one arm, all its runs together: `started` = `ok` + `failed` + `abandoned`."""

    title: str
    what: str
    """What is counted: `request`, or `execution` of a command that tells no requests."""
    started: int
    ok: int
    failed: int
    kinds: str
    """Failed ones by kind, such as `timeout 3, reset 1`; empty where none failed."""
    abandoned: int
    """In flight as a run ended."""
    round_trip: str
    """Median over the runs, as the kernel or QUIC measured it; where none reports it, that of the
    emulated network; else unknown.
    """
    network: str
    """`direct`, or the emulated network."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The network that a profile was in one block."""

    profile: str
    """As it was asked for, such as `4g` or `4g,loss=1%`."""
    block: int
    """From 1."""
    settings: str
    """What was drawn, as `trilane network` takes it."""

    def __str__(self) -> str:
        return f"{self.profile} in block {self.block}: {self.settings}"


def drawn(comparison: Comparison) -> list[Drawn]:
    """What each profile was in each block; nothing of networks that are no distribution."""
    found = {}
    for arm in comparison.arms:
        # A profile is a name, and comes first; all other settings have a value.
        if not arm.is_alone or "=" in arm.network.partition(",")[0]:
            continue
        for sample in arm.samples:
            if sample.network is not None:
                found[arm.network, sample.block + 1] = sample.network.network
    return [Drawn(*key, settings) for key, settings in sorted(found.items())]


def accounts(comparison: Comparison) -> list[Account]:
    """An account for each arm, in the order of lists."""
    return [_account(arm) for arm in view.listed(comparison)]


def total(rows: Sequence[Account]) -> str:
    """All requests of these arms in one line."""
    started, ok, failed, abandoned = (
        sum(counts)
        for counts in zip(*((r.started, r.ok, r.failed, r.abandoned) for r in rows), strict=True)
    )
    what = f"{rows[0].what}s" if rows else "requests"
    return f"{started:,} {what} started = {ok:,} ok + {failed:,} failed + {abandoned:,} abandoned"


def _model(run: Run) -> str:
    plan = run.plan
    if run.capacity is not None:
        return f"searches for the highest rate at which {' and '.join(run.capacity.goals)}"
    rate = "" if plan.rate_per_s is None else f" at {formatting.number(plan.rate_per_s)} requests/s"
    return f"{plan.model} model{rate}"


def setting(comparison: Comparison) -> list[str]:
    """Model and path of all arms; `paths differ` where they do, as does `models`.

    Commands have neither.
    """
    arms = comparison.arms
    if repeated(comparison) != _REQUEST:
        return ["timed from outside"]
    models = {_model(run) for arm in arms for run in view.runs(arm)}
    networks = {arm.network for arm in arms}
    return [
        *_one(models, "models differ"),
        *_one(map(path, networks), "paths differ"),
    ]


def repeated(comparison: Comparison) -> str:
    """What the count of its plan is of: `request`, or `execution` of commands."""
    commands = all(arm.client == COMMAND for arm in comparison.arms)
    return _EXECUTION if commands else _REQUEST


def path(network: str) -> str:
    """The path between client and server for people."""
    return "direct path" if network == "direct" else f"emulated network {network}"


def _one(values: Iterable[str], several: str) -> list[str]:
    values = list(values)
    return values if len(values) <= 1 else [several]


def _account(arm: JudgedArm) -> Account:
    runs = view.runs(arm)
    requests = [run.requests for run in runs]
    kinds: Counter[str] = Counter()
    for each in requests:
        kinds.update({kind: told.count for kind, told in each.failures.items()})
    trips = [
        run.bytes.rtt_s for run in runs if run.bytes is not None and run.bytes.rtt_s is not None
    ]
    return Account(
        title=arm.title,
        # The embedded server counts the requests of a client.
        what=_EXECUTION if arm.client == COMMAND and arm.server is None else _REQUEST,
        started=sum(each.started for each in requests),
        ok=sum(each.ok for each in requests),
        failed=sum(each.failed for each in requests),
        abandoned=sum(each.abandoned for each in requests),
        kinds=", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common()),
        round_trip=_round_trip(trips, arm),
        network=arm.network,
    )


def _round_trip(measured: Sequence[float], arm: JudgedArm) -> str:
    if measured:
        return formatting.quantity(statistics.median(measured), "s")
    networks = [each.network for each in arm.samples if each.network is not None]
    if not networks:
        return formatting.NONE
    emulated = statistics.median(each.rtt_s for each in networks)
    text = f"{formatting.quantity(emulated, 's')} emulated"
    jittered = [mean for each in networks if (mean := each.check.jittered_s) is not None]
    if jittered:
        text += f", {formatting.quantity(statistics.median(jittered), 's')} in the mean by jitter"
    return text
