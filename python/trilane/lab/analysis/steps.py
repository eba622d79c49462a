"""Where the values of a history step from one level to another, and by how much.

E-divisive with means (Matteson and James 2014, "A nonparametric approach for multiple change point
analysis of multivariate data"), which MongoDB and Apache Otava use for the same purpose (Daly and
others 2020, "The use of change point detection to identify software performance regressions in a
continuous integration system"): a series is cut where the energy distance between what is before
and after the cut is largest, then its parts likewise. A cut stays where a permutation test says so:
the values within each part are shuffled, and what was seen has to be among the largest cuts of all
that the shuffled parts have.

The chance of a step that is none is `ALPHA`, 1 % and not 5 %, because a history is looked at again
after each of its runs. Eight values can then show nothing, nine or ten hardly. The size of a step
is the Hodges-Lehmann shift between the values of the two parts beside it, with the interval of
`unpaired`; where the cut lies was chosen from the same values, so that it is a little too certain.

ruptures has many other segmentations but no test of them; Apache Otava, which has one, brings
clients of the services that it reads from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from trilane.lab.analysis import stats, unpaired
from trilane.lab.analysis.stats import Floats
from trilane.lab.model.documents import Json
from trilane.lab.storage.history import History, Series, Value

ALPHA = 0.01
LEAST = 3
"""A part has at least so many values."""
PERMUTATIONS = 999
NEWEST = 500
"""Of a longer series the newest values are looked at."""
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a series."""

    place: int
    """Number, from 0, of the first value behind it."""
    ratio: float
    """What is behind it, to the next one, to what is before it, from the one before."""
    low: float
    """Lower end of the 95 % interval of `ratio`."""
    high: float
    """Upper end."""
    p: float
    """Of the permutation test that found it."""


def find(values: Sequence[float], seed: int = 1) -> list[Step]:
    """The steps of a series of positive values, the first one first."""
    skipped = max(0, len(values) - NEWEST)
    logs = np.log(np.array(values[skipped:], dtype=np.float64))
    cuts = _cuts(logs, seed)
    edges = [0, *cuts, len(logs)]
    found = []
    for ((start, cut), (_, end)), p in zip(pairwise(pairwise(edges)), cuts.values(), strict=True):
        interval = unpaired.interval(logs[start:cut], logs[cut:end], seed)
        if interval is not None:
            shift = stats.exponential(interval)
            found.append(Step(cut + skipped, shift.centre, shift.low, shift.high, p))
    return found


def of(series: Series) -> list[Step]:
    """The steps of a series of a history, without its invalid values: places are those of it."""
    places = [n for n, value in enumerate(series.values) if _usable(value)]
    found = find([series.values[place].median for place in places])
    return [replace(step, place=places[step.place]) for step in found]


def _usable(value: Value) -> bool:
    return value.arm.validity != "invalid" and value.median > 0


def document(history: History) -> Json:
    """A history as `trilane.history/1`, with the steps of each of its series."""
    told = history.to_dict()
    for row, series in zip(told["series"], history.series, strict=True):
        row["steps"] = [
            {
                "run": series.values[step.place].run.folder,
                "value": step.place,
                "ratio": step.ratio,
                "low": step.low,
                "high": step.high,
                "p": step.p,
            }
            for step in of(series)
        ]
    return told


def _cuts(logs: Floats, seed: int) -> dict[int, float]:
    """Where the series is cut, in order, and the p of each cut."""
    chance = np.random.default_rng(seed)
    distances = np.abs(logs[:, None] - logs[None, :])
    cuts: dict[int, float] = {}
    while True:
        parts = list(pairwise([0, *sorted(cuts), len(logs)]))
        best, place = _best(distances, parts, [np.arange(*part) for part in parts])
        if not math.isfinite(best) or best <= 0:
            return _settled(distances, cuts)
        drawn = (
            _best(distances, parts, [chance.permutation(np.arange(*part)) for part in parts])[0]
            for _ in range(PERMUTATIONS)
        )
        # What is equal but for the error of rounding counts against the cut.
        as_large = sum(each >= best * (1 - 1e-9) for each in drawn)
        p = (1 + as_large) / (1 + PERMUTATIONS)
        if p > ALPHA:
            return _settled(distances, cuts)
        cuts[place] = p


def _settled(distances: Floats, cuts: dict[int, float]) -> dict[int, float]:
    """The cuts, each where it is best between its neighbours.

    The first ones were made where parts were still mixed.
    """
    places = sorted(cuts)
    for _ in range(_ROUNDS):
        edges = [0, *places, len(distances)]
        for number, (start, end) in enumerate(zip(edges, edges[2:], strict=False)):
            part = (start if number == 0 else places[number - 1], end)
            places[number] = _best(distances, [part], [np.arange(*part)])[1]
        if edges[1:-1] == places:
            break
    return dict(zip(places, (cuts[place] for place in sorted(cuts)), strict=True))


def _best(
    distances: Floats,
    parts: Sequence[tuple[int, int]],
    orders: Sequence[np.typing.NDArray[np.int64]],
) -> tuple[float, int]:
    """The largest statistic of any cut of any part with its values in this order, and its place."""
    best, place = -math.inf, 0
    for (start, end), order in zip(parts, orders, strict=True):
        if end - start < 2 * LEAST:
            continue
        found = statistics(distances[np.ix_(order, order)])
        at = int(found.argmax())
        if found[at] > best:
            best, place = float(found[at]), start + LEAST + at
    return best, place


def statistics(distances: Floats) -> Floats:
    """The statistic of each cut of values with these distances, from `LEAST` values on.

    That is the energy distance between both sides, times their harmonic weight (Q of the paper).
    """
    count = len(distances)
    left = np.arange(LEAST, count - LEAST + 1)
    right = count - left
    sums = distances.cumsum(axis=0).cumsum(axis=1)
    within_left = sums[left - 1, left - 1]
    of_left = sums[left - 1, -1]
    between = of_left - within_left
    within_right = sums[-1, -1] - 2 * of_left + within_left
    energy = 2 * between / (left * right)
    # Each pair is in a sum of distances twice, and in the number of pairs once.
    energy -= within_left / (left * (left - 1)) + within_right / (right * (right - 1))
    return np.asarray(energy * left * right / count, dtype=np.float64)
