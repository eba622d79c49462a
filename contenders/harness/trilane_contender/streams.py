"""Streams of one connection, by handle: the http.client shape of multiplexing."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import cycle, islice
from time import perf_counter_ns
from typing import Any

from trilane_contender.client import Broken, Library, StreamClient
from trilane_contender.plan import Plan
from trilane_contender.tally import Sample, Tally
from trilane_contender.work import Finder, Frontier, Judge

# After one of these the connection is of no use for the requests that follow.
_FATAL = frozenset(
    {"refused", "connect", "tls", "timeout", "closed", "reset", "goaway", "protocol"}
)


class Streams:
    """`chunks`: submit so many, collect them all in order, then the next so many.

    `multiplexed`: submit `in_flight`, then collect the oldest and submit another, without a pause.
    """

    def __init__(self, library: Library, plan: Plan) -> None:
        self._library = library
        self._plan = plan
        self._judge = Judge(plan, library.kinds)
        self._tally = Tally()
        self._client: StreamClient | None = None
        self._opened = 0
        self._ended = "closed"
        self._chunked = plan.strategy == "chunks"
        self._window = plan.chunk if self._chunked else plan.in_flight
        self._waiting: deque[tuple[str, int, int, Any]] = deque()
        # Made here, as other sessions are; what fails now fails again, and is counted, with the
        # first request.
        with contextlib.suppress(Exception):
            self._connection()

    def batch(self, paths: Sequence[str], find: Finder | None = None) -> list[str]:
        """In their order."""
        return self._all(paths, find)

    def crawl(self, frontier: Frontier, find: Finder) -> None:
        """Each page is asked for as soon as it is known; the oldest is collected first."""
        queue = deque([frontier.start])
        while queue or self._waiting:
            while queue and len(self._waiting) < self._window:
                self._submit(queue.popleft())
            rounds = len(self._waiting) if self._chunked else min(1, len(self._waiting))
            for _ in range(rounds):
                queue += frontier.fresh(self._collect(find))

    def until(self, paths: Sequence[str], deadline_ns: int) -> None:
        """Nothing is submitted after the deadline; what is under way is waited for."""
        endless = cycle(paths)
        if self._chunked:
            while perf_counter_ns() < deadline_ns:
                self._all(list(islice(endless, self._window)), None)
            return
        while perf_counter_ns() < deadline_ns:
            while len(self._waiting) < self._window:
                self._submit(next(endless))
            self._collect(None)
        self._drain(None)

    def forget(self) -> None:
        """Drop the books."""
        self._tally.clear()

    def close(self) -> Tally:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
        return self._tally

    def _all(self, paths: Iterable[str], find: Finder | None) -> list[str]:
        found: list[str] = []
        for path in paths:
            if len(self._waiting) >= self._window:
                found += self._drain(find) if self._chunked else self._collect(find)
            self._submit(path)
        return found + self._drain(find)

    def _drain(self, find: Finder | None) -> list[str]:
        found: list[str] = []
        while self._waiting:
            found += self._collect(find)
        return found

    def _submit(self, path: str) -> None:
        began = perf_counter_ns()
        try:
            handle = self._connection().submit(path)
        except Exception as error:  # noqa: BLE001 - whatever a library raises is its failure
            self._note(self._judge.failed(began, error), self._opened)
        else:
            self._waiting.append((path, began, self._opened, handle))

    def _collect(self, find: Finder | None) -> tuple[str, ...]:
        if not self._waiting:
            return ()
        path, began, opened, handle = self._waiting.popleft()
        if opened != self._opened or self._client is None:
            lost = Broken(self._ended, f"lost with the connection: {self._ended}")
            sample = self._judge.failed(began, lost)
        else:
            sample = self._collected(self._client, path, began, handle, find)
        self._note(sample, opened)
        return sample.found

    def _collected(
        self, client: StreamClient, path: str, began: int, handle: Any, find: Finder | None
    ) -> Sample:
        try:
            answer = client.collect(handle)
        except Exception as error:  # noqa: BLE001 - whatever a library raises is its failure
            return self._judge.failed(began, error)
        return self._judge.answered(path, began, answer, find)

    def _note(self, sample: Sample, opened: int) -> None:
        self._tally.note(sample)
        if sample.failure in _FATAL and opened == self._opened and self._client is not None:
            self._ended = sample.failure
            self._drop()

    def _connection(self) -> StreamClient:
        if self._client is None:
            if self._library.stream_client is None:
                raise LookupError("the library has no client with streams")
            self._opened += 1
            self._client = self._library.stream_client(self._plan)
        return self._client

    def _drop(self) -> None:
        broken, self._client = self._client, None
        try:
            if broken is not None:
                broken.close()
        except Exception as error:  # noqa: BLE001 - it is broken already, and counted
            self._tally.examples.setdefault("protocol", f"closing: {error}")
