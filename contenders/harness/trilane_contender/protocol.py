"""The conversation with the runner: plan, ready, start, done, result (docs/contenders.md)."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, TextIO

from trilane_contender.client import Library
from trilane_contender.plan import BadPlan, Plan, parse
from trilane_contender.strategy import Strategy, chosen, perform, warm_up
from trilane_contender.tally import Tally

_ONE_SESSION = frozenset({"serial", "chunks", "multiplexed"})


def run(library: Library) -> int:
    """Serve one plan from stdin. Returns the exit code of the process."""
    events = own_stdout()
    try:
        plan = parse(sys.stdin.readline())
    except BadPlan as error:
        return say(events, event="cannot", reason=str(error))
    make = chosen(library, plan)
    if isinstance(make, str):
        return say(events, event="cannot", reason=make)
    if plan.repeat > 1 and (plan.warmup or plan.warmup_s):
        return say(events, event="cannot", reason="repetitions are not warmed up: set warmup to 0")
    warm = _prepared(make, plan)
    name, version = _release(library)
    say(
        events,
        event="ready",
        library=name,
        library_version=version,
        runtime=f"{platform.python_implementation()} {platform.python_version()}",
        sessions=_sessions(library, plan),
    )
    if sys.stdin.readline().strip() != "start":
        return 0 if warm is None else _ended(warm)
    began = perf_counter_ns()
    repetitions, tally = _repetitions(library, make, plan, warm)
    elapsed = perf_counter_ns() - began
    say(events, event="done")
    books = tally.to_json()
    if plan.discard:
        books["body_digest"] = None
    return say(
        events,
        event="result",
        **books,
        elapsed_s=elapsed / 1e9,
        repetitions_s=[each / 1e9 for each in repetitions],
    )


def once(make: Callable[[], Strategy], plan: Plan, warm: Strategy | None) -> tuple[int, Tally]:
    """The workload once: how long it took in ns, closing included, and its books."""
    began = perf_counter_ns()
    strategy = warm or make()
    try:
        perform(strategy, plan)
    finally:
        tally = strategy.close()
    return perf_counter_ns() - began, tally


def _repetitions(
    library: Library, make: Callable[[], Strategy], plan: Plan, warm: Strategy | None
) -> tuple[list[int], Tally]:
    if plan.repeat > 1 and plan.repeat_processes:
        from trilane_contender.processes import pool  # noqa: PLC0415

        with pool(plan, plan.repeat_processes) as executor:
            futures = [executor.submit(_elsewhere, library, plan) for _ in range(plan.repeat)]
            results = [future.result() for future in futures]
    else:
        results = [once(make, plan, warm) for _ in range(plan.repeat)]
    total = Tally()
    for _, tally in results:
        total.add(tally)
    return [elapsed for elapsed, _ in results], total


def _elsewhere(library: Library, plan: Plan) -> tuple[int, Tally]:
    make = chosen(library, plan)
    if isinstance(make, str):
        raise TypeError(make)
    return once(make, plan, None)


def _prepared(make: Callable[[], Strategy], plan: Plan) -> Strategy | None:
    """What is there before the clock starts: one session, or all that a warm-up needs.

    A pool of threads or processes is a price of its strategy and is paid within the time.
    """
    warmed = bool(plan.warmup or plan.warmup_s)
    alone = plan.session and plan.repeat == 1 and plan.strategy in _ONE_SESSION
    if not warmed and not alone:
        return None
    strategy = make()
    if warmed:
        warm_up(strategy, plan)
    return strategy


def _ended(strategy: Strategy) -> int:
    strategy.close()
    return 0


def own_stdout() -> TextIO:
    """The runner's pipe, for us alone: whatever a library prints goes to stderr."""
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return events


def say(events: TextIO, **event: Any) -> int:
    """Tell the runner of an event. Returns the exit code of a process whose last word it is: 0."""
    events.write(json.dumps(event) + "\n")
    events.flush()
    return 0


def _release(library: Library) -> tuple[str, str]:
    if library.release is not None:
        return library.release()
    if library.distribution is None:
        return "http.client", platform.python_version()
    return library.distribution, importlib.metadata.version(library.distribution)


def _sessions(library: Library, plan: Plan) -> str:
    if not plan.session or not library.keeps_connections:
        return "a new one for each request"
    threaded = plan.strategy in {"threads", "asyncio_threads"}
    if threaded and plan.version not in library.shared_by_threads:
        return "one per thread"
    return "one per process" if plan.strategy.startswith("processes") else "one"
