"""What a strategy is: a way to have many requests done. And the choice of one by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import cycle, islice
from time import perf_counter_ns
from typing import Protocol

from trilane_contender.client import Library
from trilane_contender.plan import Plan
from trilane_contender.tally import Tally
from trilane_contender.work import Finder, Frontier


class Strategy(Protocol):
    """A way to do requests. Everything it opens is closed by `close`."""

    def batch(self, paths: Sequence[str], find: Finder | None = None) -> list[str]:
        """Request all paths, which are known beforehand; returns what their bodies led to."""

    def crawl(self, frontier: Frontier, find: Finder) -> None:
        """Request the start and everything it leads to, each as soon as it is known."""

    def until(self, paths: Sequence[str], deadline_ns: int) -> None:
        """Request the paths in turn, over and over, until `perf_counter_ns` says so."""

    def forget(self) -> None:
        """Drop what has been counted: that was the warm-up."""

    def close(self) -> Tally:
        """End all connections, threads and processes; returns the books."""


def perform(strategy: Strategy, plan: Plan) -> None:
    """Do the plan's workload once."""
    work = plan.workload
    if work.kind == "urls" and work.duration_s is not None:
        strategy.until(work.paths, perf_counter_ns() + round(work.duration_s * 1e9))
    elif work.kind == "urls":
        strategy.batch(list(islice(cycle(work.paths), work.count)))
    elif work.kind == "index" and work.index is not None:
        items = strategy.batch([work.index], Finder(plan.target, work.item))
        strategy.batch(items[: work.count])
    elif work.start is not None:
        strategy.crawl(Frontier(work.start, work.count), Finder(plan.target, None))


def warm_up(strategy: Strategy, plan: Plan) -> None:
    """Requests that open the connections and are not counted."""
    work = plan.workload
    paths = work.paths or tuple(path for path in (work.index, work.start) if path is not None)
    if plan.warmup_s:
        strategy.until(paths, perf_counter_ns() + round(plan.warmup_s * 1e9))
    if plan.warmup:
        strategy.batch(list(islice(cycle(paths), plan.warmup)))
    strategy.forget()


def in_turn(paths: Sequence[str], first: int, step: int) -> Iterator[str]:
    """An endless share of the paths for one of several workers."""
    return islice(cycle(paths), first, None, step)


def chosen(library: Library, plan: Plan) -> Callable[[], Strategy] | str:
    """The maker of the plan's strategy, or why this library has none of it."""
    if reason := _impossible(library, plan):
        return reason
    for shapes, module, name in _STRATEGIES.get(plan.strategy, ()):
        if any(getattr(library, shape) is not None for shape in shapes):
            # Imported where chosen: a serial run need not pay for asyncio and multiprocessing.
            maker = getattr(import_module(f"{__package__}.{module}"), name)
            return partial(maker, library, plan)
    return f"this client has no strategy {plan.strategy!r}"


def _impossible(library: Library, plan: Plan) -> str | None:
    multiplexes = plan.strategy in {"chunks", "multiplexed"}
    if multiplexes and not plan.session:
        return f"{plan.strategy} is about one connection, so it needs session = true"
    if multiplexes and plan.version == "h1":
        return f"HTTP/1.1 has no streams, so {plan.strategy} is impossible"
    if plan.strategy == "processes_asyncio" and plan.workload.kind == "crawl":
        return "processes_asyncio gives out paths that are known beforehand, so it cannot crawl"
    if (plan.discard or plan.body_file) and not library.streams_bodies:
        return "this contender holds whole bodies in memory"
    if plan.discard and plan.workload.kind != "urls":
        return "what follows is read from the bodies, so they cannot be discarded"
    return None if library.cannot is None else library.cannot(plan)


_BLOCKING = ("client", "stream_client")
# Which shape of client a strategy needs, and what implements it; the first that fits is taken.
_STRATEGIES = {
    "serial": ((_BLOCKING, "serial", "Serial"), (("async_client",), "tasks", "Tasks")),
    "threads": ((_BLOCKING, "threads", "Threads"),),
    "processes": ((_BLOCKING, "processes", "Processes"),),
    "asyncio_threads": ((_BLOCKING, "threads", "AsyncioThreads"),),
    "asyncio": ((("async_client",), "tasks", "Tasks"),),
    "processes_asyncio": ((("async_client",), "processes", "ProcessesAsyncio"),),
    "chunks": ((("stream_client",), "streams", "Streams"), (("async_client",), "tasks", "Tasks")),
    "multiplexed": (
        (("stream_client",), "streams", "Streams"),
        (("async_client",), "tasks", "Tasks"),
    ),
}
