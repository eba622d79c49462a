"""How many threads of a plan each worker gets: by weight of its cores."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Share:
    """The threads of one worker: `count` of the plan's, from `first` on."""

    first: int
    count: int


def deal(threads: int, cores: Sequence[int]) -> list[Share]:
    """Deal `threads` over workers of so many `cores`; each gets one at least.

    The next thread goes where it leaves the fewest per core (D'Hondt's highest averages). So as
    many threads as cores are one on each core.

    Raises:
        ValueError: there are fewer threads than workers.
    """
    if threads < len(cores):
        raise ValueError(f"{threads} threads are fewer than one for each of {len(cores)} workers")
    counts = [1] * len(cores)
    after = [(2 / weight, index) for index, weight in enumerate(cores)]
    heapq.heapify(after)
    for _ in range(threads - len(cores)):
        _, index = after[0]
        counts[index] += 1
        heapq.heapreplace(after, ((counts[index] + 1) / cores[index], index))
    firsts = accumulate(counts[:-1], initial=0)
    return [Share(first, count) for first, count in zip(firsts, counts, strict=True)]
