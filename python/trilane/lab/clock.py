"""How long an experiment will still take."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Hashable
from statistics import fmean

from trilane import quantity
from trilane.lab.analysis import looks
from trilane.lab.asked import Entry, Wanted, chosen, order
from trilane.lab.experiment import networks
from trilane.lab.experiment.workload import ArmSpec, Workload

# The start of a client, its end, and a look at what it left.
_AROUND_S = 2.0
# Of a request on a connection of its own: TCP, TLS, the request.
_TRIPS = 3
# What a path of the library of targets asks for, such as `/bytes/50k`.
_SIZED = re.compile(r"/bytes/(\d+[kmg]?)")
# Runs: some to come near, then six at each end.
_OF_A_SEARCH = 22


class Clock:
    """Seconds left: as runs of the same arm at the same point took, before there are any a guess.

    `guess` tells the seconds of a run that nothing like has been made of; it is set right by how
    long those took that were made. `before_s` is how long earlier commands worked on them.
    """

    def __init__(
        self,
        planned: Collection[Entry],
        made: Collection[Hashable],
        guess: Callable[[Entry], float],
        before_s: float = 0.0,
    ) -> None:
        self._open = [entry for entry in planned if entry.key not in made]
        self._seen: dict[tuple[int, str], list[float]] = {}
        self._guess = guess
        self._guessed = 0.0
        self._took = 0.0
        self._before_s = before_s

    def took(self, entry: Entry, seconds: float) -> None:
        """A run is made."""
        self._open.remove(entry)
        self._seen.setdefault((entry.point, entry.arm), []).append(seconds)
        self._guessed += self._guess(entry)
        self._took += seconds

    def add(self, entries: Collection[Entry]) -> None:
        """These runs are to be made besides."""
        self._open += entries

    def skip(self, entries: Collection[Entry]) -> None:
        """These runs are not to be made any more."""
        skipped = {entry.key for entry in entries}
        self._open = [entry for entry in self._open if entry.key not in skipped]

    @property
    def took_s(self) -> float:
        """What those took that were made, and all that earlier commands did."""
        return self._before_s + self._took

    def left_s(self, of: Collection[Entry] | None = None) -> float:
        """What the others will take; `of` these those that are not made."""
        right = self._took / self._guessed if self._guessed else 1.0
        keys = None if of is None else {entry.key for entry in of}
        return sum(
            sum(some) / len(some)
            if (some := self._seen.get((entry.point, entry.arm)))
            else right * self._guess(entry)
            for entry in self._open
            if keys is None or entry.key in keys
        )


def whole_s(wanted: Wanted) -> float:
    """A guess at the seconds that an experiment takes; of one until it is decided at most."""
    form = chosen(wanted)
    points = [point for _, point in form.points()]
    of_run = [{a.name: expected_s(a, p.workload) for a in p.arms} for p in points]
    planned = order(form, seed=0)

    def seconds(blocks: int) -> float:
        return sum(of_run[e.point][e.arm] for e in planned if e.block < blocks)

    plan = form.stats
    whole = seconds(plan.blocks)
    if not plan.until_decided or plan.within_s is None:
        return whole
    first = looks.planned(plan.blocks, budgets=plan.budgets)[0]
    return max(seconds(first.blocks), min(whole, plan.within_s))


def expected_s(arm: ArmSpec, workload: Workload) -> float:
    """A guess at the seconds of a run: its duration, or what the network takes at least."""
    if workload.duration_s is not None:
        runs = _OF_A_SEARCH if workload.search else 1
        return _AROUND_S + runs * (workload.warmup_s + workload.duration_s)
    if arm.rate is not None:
        return _AROUND_S + (workload.count or 1) / arm.rate
    at_once = arm.in_flight * (arm.processes or 1 if arm.strategy == "processes_asyncio" else 1)
    rounds = math.ceil((workload.count or 1) / at_once)
    kept = arm.session and not {"--new-connections", "--requests-per-connection"} & {*arm.flags}
    trips = rounds * (1 if kept else _TRIPS)
    together = max(1, min(workload.repeat, workload.repeat_processes))
    once = trips * networks.rtt_s(arm.network)
    once += _bits(workload) / networks.bits_per_s(arm.network, arm.connections or at_once)
    return _AROUND_S + once * workload.repeat / together


def _bits(workload: Workload) -> float:
    """What all requests and responses carry, as far as the workload says it."""
    found = (_SIZED.match(path) for path in workload.paths)
    sizes = [quantity.number(one[1], quantity.SIZES) or 0.0 if one else 0.0 for one in found]
    sent = workload.file_bytes or len(workload.body or b"")
    return 8 * (workload.count or 1) * (sent + fmean(sizes or [0.0]))
