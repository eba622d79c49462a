"""One request after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import cycle
from time import perf_counter_ns

from trilane_contender.client import Library
from trilane_contender.plan import Plan
from trilane_contender.tally import Tally
from trilane_contender.work import Finder, Frontier, Judge, session_or_fresh


class Serial:
    """The next request starts when the last response has been read."""

    def __init__(self, library: Library, plan: Plan) -> None:
        self._client = session_or_fresh(library, plan)
        self._judge = Judge(plan, library.kinds)
        self._tally = Tally()

    def batch(self, paths: Sequence[str], find: Finder | None = None) -> list[str]:
        """In their order."""
        found: list[str] = []
        for path in paths:
            found += self._one(path, find)
        return found

    def crawl(self, frontier: Frontier, find: Finder) -> None:
        """First found, first asked for."""
        queue = deque([frontier.start])
        while queue:
            queue += frontier.fresh(self._one(queue.popleft(), find))

    def until(self, paths: Sequence[str], deadline_ns: int) -> None:
        """The last request starts before the deadline and is waited for."""
        for path in cycle(paths):
            if perf_counter_ns() >= deadline_ns:
                break
            self._one(path, None)

    def forget(self) -> None:
        """Drop the books."""
        self._tally.clear()

    def close(self) -> Tally:
        """Close the session."""
        self._client.close()
        return self._tally

    def _one(self, path: str, find: Finder | None) -> tuple[str, ...]:
        sample = self._judge.fetch(self._client, path, find)
        self._tally.note(sample)
        return sample.found
