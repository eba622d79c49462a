"""When the workers of a cluster begin, in virtual time.

Every worker has a clock that is off by some time and runs too fast or too slow, and a link to the
scheduler's clock with a delay and jitter of its own in each direction. It asks that clock as
`clock.Probe` does, and what it makes of the answers is made by the very function that real workers
use (`clock.estimate`). Then all get one start time, wait for it by their own clocks, and begin.

Virtual time is that of the scheduler's clock, in seconds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from trilane.cluster import clock
from trilane.cluster.clock import Offset, Sample
from trilane.cluster.load import LEAD_S

_NS = 1e9


@dataclass(frozen=True, slots=True)
class Link:
    """The way between a worker and the scheduler; seconds."""

    name: str
    there: float
    """Least delay from the worker to the scheduler."""
    back: float
    jitter_there: float
    """Mean of what a queue adds on the way there, exponentially distributed."""
    jitter_back: float
    loss: float = 0.0
    """Share of probes that are lost, or whose answer is."""


# Nobody's measurements: what the names call to mind, from even and short to uneven and long.
LINKS = (
    Link("one rack", 50e-6, 50e-6, 20e-6, 20e-6),
    Link("one region", 0.5e-3, 0.5e-3, 0.1e-3, 0.1e-3),
    Link("a full uplink", 5e-3, 5e-3, 10e-3, 0.5e-3, 0.01),
    Link("uneven routes", 20e-3, 5e-3, 1e-3, 1e-3),
    Link("two continents", 40e-3, 40e-3, 3e-3, 3e-3, 0.01),
)
MIXED = "all of them"


@dataclass(frozen=True, slots=True)
class Assumed:
    """What is assumed of workers."""

    apart_s: float = 0.5
    """Clocks are off by up to so much, each as likely."""
    drift: float = 20e-6
    """Standard deviation of the rate of a clock: an oscillator that nothing corrects."""
    prepared_s: float = 1.0
    """Median of the time between a worker's estimate and the moment at which it is prepared."""
    lead_s: float = LEAD_S
    """What the start is later than what it took to prepare, after all have (`load`)."""
    late_s: float = 60e-6
    """Mean of how late a timer wakes a worker, exponentially distributed."""


@dataclass(frozen=True, slots=True)
class Begun:
    """One worker at the start of a run; seconds."""

    wrong: float
    """Its estimate less the truth, at the instant of the estimate's probe."""
    bound: float
    """What it says of its error."""
    late: float
    """When it began, less the start time: both on the scheduler's clock."""


@dataclass(frozen=True, slots=True)
class _Clock:
    """A worker's clock: what it shows at an instant of virtual time."""

    ahead: float
    rate: float

    def at(self, now: float) -> float:
        return now * self.rate + self.ahead

    def when(self, shown: float) -> float:
        """The instant of virtual time at which it shows this."""
        return (shown - self.ahead) / self.rate


def run(
    links: Sequence[Link],
    chance: random.Random,
    probes: int = clock.PROBES,
    assumed: Assumed | None = None,
) -> list[Begun]:
    """The start of one run with a worker behind each link."""
    assumed = assumed or Assumed()
    workers = []
    prepared = 0.0
    for link in links:
        own = _Clock(
            chance.uniform(-assumed.apart_s, assumed.apart_s), 1 + chance.gauss(0, assumed.drift)
        )
        samples, ended = _probed(link, own, chance, probes)
        workers.append((own, samples, clock.estimate(samples)))
        prepared = max(prepared, ended + assumed.prepared_s * chance.lognormvariate(0, 0.5))
    worst = max(offset.error for _, _, offset in workers) / _NS
    # The rule of `load`: what it took to prepare covers what is to be done before the start.
    start = prepared + worst + assumed.lead_s + prepared
    return [
        Begun(
            wrong=_wrong(own, samples, offset),
            bound=offset.error / _NS,
            late=own.when(start - offset.offset / _NS)
            + chance.expovariate(1 / assumed.late_s)
            - start,
        )
        for own, samples, offset in workers
    ]


def _probed(
    link: Link, own: _Clock, chance: random.Random, probes: int
) -> tuple[list[Sample], float]:
    """What a worker sees of the scheduler's clock, and when it has seen enough."""
    now = 0.0
    samples: list[Sample] = []
    while len(samples) < probes:
        if chance.random() < link.loss:
            now += clock.PATIENCE_S
            continue
        arrives = now + link.there + chance.expovariate(1 / link.jitter_there)
        came = arrives + link.back + chance.expovariate(1 / link.jitter_back)
        samples.append(
            Sample(
                sent=round(own.at(now) * _NS),
                round_trip=round((came - now) * own.rate * _NS),
                reference=round(arrives * _NS),
            )
        )
        now = came + clock.SPACING_S
    return samples, now


def _wrong(own: _Clock, samples: Sequence[Sample], offset: Offset) -> float:
    """How far an estimate is from the truth when the probe that it is made of was sent."""
    best = min(samples, key=lambda sample: sample.round_trip)
    shown = best.sent / _NS
    return offset.offset / _NS - (own.when(shown) - shown)


HEAD = (
    *("link", "workers", "probes", "error p50", "largest error", "bound p50", "bound held"),
    *("first to last, p50", "most", "off the start time, p50", "most"),
)


def report(
    shapes: Sequence[tuple[str, Sequence[Link], int, int]], runs: int, seed: int
) -> Iterator[str]:
    """The lines of the table, as Markdown; `shapes` are name, links, workers and probes."""
    yield f"| {' | '.join(HEAD)} |"
    yield f"| --- |{' ---: |' * (len(HEAD) - 1)}"
    for name, links, workers, probes in shapes:
        chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
        made = [
            run([chance.choice(links) for _ in range(workers)], chance, probes) for _ in range(runs)
        ]
        begun = [worker for one in made for worker in one]
        wrong = [abs(worker.wrong) for worker in begun]
        apart = [
            max(worker.late for worker in one) - min(worker.late for worker in one) for one in made
        ]
        off = [abs(worker.late) for worker in begun]
        held = sum(abs(worker.wrong) <= worker.bound for worker in begun) / len(begun)
        cells = [
            *(name, f"{workers:,}", str(probes)),
            *map(_ms, (median(wrong), max(wrong), median(w.bound for w in begun))),
            f"{100 * held:g} %",
            *map(_ms, (median(apart), max(apart))),
            *map(_ms, (median(off), max(off))),
        ]
        yield f"| {' | '.join(cells)} |"


def shapes(workers: Sequence[int]) -> list[tuple[str, Sequence[Link], int, int]]:
    """What the table tells: links at the most workers, then numbers of workers and of probes."""
    most = max(workers)
    return [
        *((link.name, (link,), most, clock.PROBES) for link in LINKS),
        *((MIXED, LINKS, count, clock.PROBES) for count in workers),
        *((MIXED, LINKS, most, probes) for probes in (1, 4)),
    ]


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3f} ms"
