"""A pool of processes; each with a client that blocks, or with an event loop of its own."""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.util
import os
import queue
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from itertools import pairwise
from time import perf_counter_ns

from trilane_contender.client import Client, Library
from trilane_contender.plan import BadPlan, Plan
from trilane_contender.strategy import in_turn
from trilane_contender.tally import Sample, Tally
from trilane_contender.tasks import Tasks
from trilane_contender.work import Finder, Frontier, Judge, session_or_fresh

_JOBS = 6  # the post's number of jobs for processes × asyncio
_PR_SET_PDEATHSIG = 1


def pool(plan: Plan, workers: int, library: Library | None = None) -> ProcessPoolExecutor:
    """Processes that end with us; with a library, each has a session of it."""
    # A new interpreter would import what lies in the current folder, such as a typing.py; where our
    # modules are, multiprocessing tells it.
    os.environ["PYTHONSAFEPATH"] = "1"
    context = multiprocessing.get_context(plan.start_method)
    # A fork server ends with us, and its children with it.
    parent = None if context.get_start_method() == "forkserver" else os.getpid()
    return ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(library, plan, parent)
    )


class Processes:
    """`processes` of them (or `in_flight`); one future per request; the results are gathered."""

    def __init__(self, library: Library, plan: Plan) -> None:
        self._workers = plan.processes or plan.in_flight
        self._tally = Tally()
        self._pool = pool(plan, self._workers, library)

    def batch(self, paths: Sequence[str], find: Finder | None = None) -> list[str]:
        """All submitted, then all awaited."""
        found: list[str] = []
        for future in [self._pool.submit(_one, path, find) for path in paths]:
            sample = future.result()
            self._tally.note(sample)
            found += sample.found
        return found

    def crawl(self, frontier: Frontier, find: Finder) -> None:
        """What a page leads to is submitted as soon as the page has been read."""
        landed: queue.SimpleQueue[Future[Sample]] = queue.SimpleQueue()
        paths, waiting = [frontier.start], 0
        while paths or waiting:
            for path in paths:
                self._pool.submit(_one, path, find).add_done_callback(landed.put)
            waiting += len(paths) - 1
            sample = landed.get().result()
            self._tally.note(sample)
            paths = frontier.fresh(sample.found)

    def until(self, paths: Sequence[str], deadline_ns: int) -> None:
        """Every process on its own, with its share of the paths."""
        # The clock of perf_counter is the same in all processes of a machine.
        futures = [
            self._pool.submit(_loop, tuple(paths), each, self._workers, deadline_ns)
            for each in range(self._workers)
        ]
        for future in futures:
            self._tally.add(future.result())

    def forget(self) -> None:
        """Drop the books."""
        self._tally.clear()

    def close(self) -> Tally:
        """End the processes; each closes its session."""
        self._pool.shutdown()
        return self._tally


class ProcessesAsyncio:
    """The paths cut into `processes` jobs and a remainder, each an event loop of its own.

    `in_flight` and `connections` hold for each process, as in the post.
    """

    def __init__(self, library: Library, plan: Plan) -> None:
        self._library = library
        self._plan = replace(plan, strategy="asyncio")
        self._jobs = plan.processes or _JOBS
        self._tally = Tally()
        # One more than jobs: the remainder is a job, too.
        self._pool = pool(plan, self._jobs + 1)

    def batch(self, paths: Sequence[str], find: Finder | None = None) -> list[str]:
        """Equal jobs in order, then what is left over."""
        share = len(paths) // self._jobs
        cuts = [share * each for each in range(self._jobs + 1)] if share else [0]
        parts = [paths[low:high] for low, high in pairwise(cuts)]
        parts.append(paths[cuts[-1] :])
        futures = [
            self._pool.submit(_batch, self._library, self._plan, tuple(part), find)
            for part in parts
            if part
        ]
        found: list[str] = []
        for future in futures:
            tally, paths_found = future.result()
            self._tally.add(tally)
            found += paths_found
        return found

    def crawl(self, frontier: Frontier, find: Finder) -> None:
        """Never chosen: a job must know its paths beforehand."""
        del frontier, find
        raise BadPlan("processes_asyncio gives out paths that are known beforehand")

    def until(self, paths: Sequence[str], deadline_ns: int) -> None:
        """Each process all paths in turn, until the deadline."""
        futures = [
            self._pool.submit(_until, self._library, self._plan, tuple(paths), deadline_ns)
            for _ in range(self._jobs)
        ]
        for future in futures:
            self._tally.add(future.result())

    def forget(self) -> None:
        """Drop the books."""
        self._tally.clear()

    def close(self) -> Tally:
        """End the processes."""
        self._pool.shutdown()
        return self._tally


class _Worker:
    """What a process of `Processes` has."""

    client: Client
    judge: Judge


def _begin(library: Library | None, plan: Plan, parent: int | None) -> None:
    # A contender that is killed must not leave its pool behind.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # Perhaps it was killed before that.
        if parent is not None and os.getppid() != parent:
            os._exit(1)
    if library is not None:
        _Worker.client = session_or_fresh(library, plan)
        _Worker.judge = Judge(plan, library.kinds)
        multiprocessing.util.Finalize(None, _Worker.client.close, exitpriority=10)


def _one(path: str, find: Finder | None) -> Sample:
    return _Worker.judge.fetch(_Worker.client, path, find)


def _loop(paths: tuple[str, ...], first: int, step: int, deadline_ns: int) -> Tally:
    tally = Tally()
    for path in in_turn(paths, first, step):
        if perf_counter_ns() >= deadline_ns:
            break
        tally.note(_one(path, None))
    return tally


def _batch(
    library: Library, plan: Plan, paths: tuple[str, ...], find: Finder | None
) -> tuple[Tally, list[str]]:
    tasks = Tasks(library, plan)
    found = tasks.batch(paths, find)
    return tasks.close(), found


def _until(library: Library, plan: Plan, paths: tuple[str, ...], deadline_ns: int) -> Tally:
    tasks = Tasks(library, plan)
    tasks.until(paths, deadline_ns)
    return tasks.close()
