"""Tasks of one event loop over a client that awaits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import cycle, islice
from time import perf_counter_ns

from trilane_contender.client import AsyncClient, Library
from trilane_contender.plan import Plan
from trilane_contender.strategy import in_turn
from trilane_contender.tally import Tally
from trilane_contender.work import Finder, FreshAsyncClient, Frontier, Judge, awaitable


class Tasks:
    """One task per request, all made at once; `in_flight` of them may be in the library.

    `asyncio`: the pool holds as many connections as the plan allows. `multiplexed`: the same on
    one connection. `chunks`: so many at once, and the next when all of them are read. `serial`,
    for a library that only awaits: chunks of one.
    """

    def __init__(self, library: Library, plan: Plan) -> None:
        self._library = library
        self._plan = plan
        self._judge = Judge(plan, library.kinds)
        self._tally = Tally()
        self._chunk = {"serial": 1, "chunks": plan.chunk}.get(plan.strategy)
        self._slots = asyncio.Semaphore(plan.in_flight)
        self._runner = asyncio.Runner(loop_factory=library.loop)
        self._client = self._runner.run(self._open())

    def batch(self, paths: Sequence[str], find: Finder | None = None) -> list[str]:
        """All gathered at once, or chunk after chunk."""
        step = self._chunk or max(1, len(paths))
        groups = [paths[first : first + step] for first in range(0, len(paths), step)]
        return self._runner.run(self._gather_each(groups, find))

    def crawl(self, frontier: Frontier, find: Finder) -> None:
        """A task for each page as soon as it is known; in chunks, as many as are known."""
        work = self._visit_in_chunks if self._chunk else self._visit_all
        self._runner.run(work(frontier, find))

    def until(self, paths: Sequence[str], deadline_ns: int) -> None:
        """`in_flight` tasks, each with its share of the paths; or whole chunks."""
        work = self._chunks_until if self._chunk else self._tasks_until
        self._runner.run(work(paths, deadline_ns))

    def forget(self) -> None:
        """Drop the books."""
        self._tally.clear()

    def close(self) -> Tally:
        """Close the session and the loop."""
        self._runner.run(self._client.close())
        self._runner.close()
        return self._tally

    async def _open(self) -> AsyncClient:
        if not self._plan.session:
            return FreshAsyncClient(self._library, self._plan)
        return awaitable(self._library, self._plan)

    async def _one(self, path: str, find: Finder | None) -> tuple[str, ...]:
        async with self._slots:
            sample = await self._judge.fetch_async(self._client, path, find)
        self._tally.note(sample)
        return sample.found

    async def _gather_each(self, groups: list[Sequence[str]], find: Finder | None) -> list[str]:
        return [path for group in groups for path in await self._gather(group, find)]

    async def _gather(self, paths: Sequence[str], find: Finder | None) -> list[str]:
        groups = await asyncio.gather(*(self._one(path, find) for path in paths))
        return [path for found in groups for path in found]

    async def _visit_all(self, frontier: Frontier, find: Finder) -> None:
        async def visit(path: str) -> None:
            for new in frontier.fresh(await self._one(path, find)):
                group.create_task(visit(new))

        async with asyncio.TaskGroup() as group:
            group.create_task(visit(frontier.start))

    async def _visit_in_chunks(self, frontier: Frontier, find: Finder) -> None:
        queue = deque([frontier.start])
        while queue:
            chunk = [queue.popleft() for _ in range(min(self._chunk or 1, len(queue)))]
            queue += frontier.fresh(await self._gather(chunk, find))

    async def _tasks_until(self, paths: Sequence[str], deadline_ns: int) -> None:
        async def loop(first: int) -> None:
            for path in in_turn(paths, first, self._plan.in_flight):
                if perf_counter_ns() >= deadline_ns:
                    break
                await self._one(path, None)

        await asyncio.gather(*(loop(each) for each in range(self._plan.in_flight)))

    async def _chunks_until(self, paths: Sequence[str], deadline_ns: int) -> None:
        endless = cycle(paths)
        while perf_counter_ns() < deadline_ns:
            await self._gather(list(islice(endless, self._chunk)), None)
