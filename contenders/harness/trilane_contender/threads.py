"""A pool of threads over a client that blocks; driven by futures, or by an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from time import perf_counter_ns

from trilane_contender.client import Client, Library
from trilane_contender.plan import Plan
from trilane_contender.strategy import in_turn
from trilane_contender.tally import Tally
from trilane_contender.work import Finder, Frontier, Judge, session_or_fresh


class Threads:
    """`in_flight` threads; one future per request, all submitted at once."""

    def __init__(self, library: Library, plan: Plan) -> None:
        self._library = library
        self._plan = plan
        self._judge = Judge(plan, library.kinds)
        self._local = threading.local()
        self._tallies: list[Tally] = []
        self._clients: list[Client] = []
        # Without a session, the shared client only makes fresh ones.
        self._shared: Client | None = None
        if plan.version in library.shared_by_threads or not plan.session:
            self._shared = session_or_fresh(library, plan)
            self._clients.append(self._shared)
        self._pool = ThreadPoolExecutor(plan.in_flight, initializer=self._begin)

    def batch(self, paths: Sequence[str], find: Finder | None = None) -> list[str]:
        """All submitted, then all awaited, as in the post."""
        futures = [self._pool.submit(self._one, path, find) for path in paths]
        wait(futures)
        return [path for future in futures for path in future.result()]

    def crawl(self, frontier: Frontier, find: Finder) -> None:
        """What a page leads to is submitted as soon as the page has been read."""
        landed: queue.SimpleQueue[Future[tuple[str, ...]]] = queue.SimpleQueue()
        paths, waiting = [frontier.start], 0
        while paths or waiting:
            for path in paths:
                self._pool.submit(self._one, path, find).add_done_callback(landed.put)
            waiting += len(paths) - 1
            paths = frontier.fresh(landed.get().result())

    def until(self, paths: Sequence[str], deadline_ns: int) -> None:
        """Every thread on its own, with its share of the paths."""
        shares = range(self._plan.in_flight)
        futures = [self._pool.submit(self._loop, paths, each, deadline_ns) for each in shares]
        wait(futures)
        for future in futures:
            future.result()

    def forget(self) -> None:
        """Drop the books of all threads."""
        for tally in self._tallies:
            tally.clear()

    def close(self) -> Tally:
        """End the threads, then their sessions."""
        self._pool.shutdown()
        for client in self._clients:
            client.close()
        total = Tally()
        for tally in self._tallies:
            total.add(tally)
        return total

    def _begin(self) -> None:
        """What each thread has: books of its own, and perhaps a session of its own."""
        self._local.tally = Tally()
        self._tallies.append(self._local.tally)
        if self._shared is None:
            self._local.client = session_or_fresh(self._library, self._plan)
            self._clients.append(self._local.client)
        else:
            self._local.client = self._shared

    def _one(self, path: str, find: Finder | None) -> tuple[str, ...]:
        sample = self._judge.fetch(self._local.client, path, find)
        self._local.tally.note(sample)
        return sample.found

    def _loop(self, paths: Sequence[str], first: int, deadline_ns: int) -> None:
        for path in in_turn(paths, first, self._plan.in_flight):
            if perf_counter_ns() >= deadline_ns:
                break
            self._one(path, None)


class AsyncioThreads(Threads):
    """The same threads behind coroutines: `gather` of one per request, as with asgiref.

    Like `asgiref.sync.sync_to_async(thread_sensitive=False)`, each call runs in the pool with a
    copy of the context. Its latency begins in the thread, not in the pool's queue.
    """

    def __init__(self, library: Library, plan: Plan) -> None:
        super().__init__(library, plan)
        self._runner = asyncio.Runner()

    def batch(self, paths: Sequence[str], find: Finder | None = None) -> list[str]:
        """One coroutine per request, gathered."""
        return self._runner.run(self._gather(paths, find))

    def crawl(self, frontier: Frontier, find: Finder) -> None:
        """What a page leads to becomes coroutines as soon as the page has been read."""
        self._runner.run(self._visit_all(frontier, find))

    def until(self, paths: Sequence[str], deadline_ns: int) -> None:
        """As many coroutines as threads, each with its share of the paths."""
        self._runner.run(self._loops(paths, deadline_ns))

    def close(self) -> Tally:
        """End the loop, the threads and the sessions."""
        self._runner.close()
        return super().close()

    async def _gather(self, paths: Sequence[str], find: Finder | None) -> list[str]:
        groups = await asyncio.gather(*(self._in_thread(path, find) for path in paths))
        return [path for found in groups for path in found]

    async def _visit_all(self, frontier: Frontier, find: Finder) -> None:
        async def visit(path: str) -> None:
            for new in frontier.fresh(await self._in_thread(path, find)):
                group.create_task(visit(new))

        async with asyncio.TaskGroup() as group:
            group.create_task(visit(frontier.start))

    async def _loops(self, paths: Sequence[str], deadline_ns: int) -> None:
        async def loop(first: int) -> None:
            for path in in_turn(paths, first, self._plan.in_flight):
                if perf_counter_ns() >= deadline_ns:
                    break
                await self._in_thread(path, None)

        await asyncio.gather(*(loop(each) for each in range(self._plan.in_flight)))

    async def _in_thread(self, path: str, find: Finder | None) -> tuple[str, ...]:
        call = partial(contextvars.copy_context().run, self._one, path, find)
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)
