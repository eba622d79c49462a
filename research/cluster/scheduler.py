"""What a load on many workers costs the scheduler of Dask: memory and processor time.

The scheduler is a real one in a process of its own; its workers are real ones, too, which share two
processes, and say in a load what one real worker said (`stand_in`). So the scheduler does what it
does for as many machines, and the workers do not.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distributed import Client

from research.cluster import recorded, stand_in
from research.cluster.recorded import Recorded
from trilane.cluster import relay
from trilane.interpreter import PYTHON
from trilane.lab.processes import proc, supervisor
from trilane.lab.processes.supervisor import Child

_SCHEDULER = (*PYTHON, "-m", "distributed.cli.dask_scheduler")
_STAND_IN = (*PYTHON, "-m", stand_in.__name__)
_PROCESSES = 2
# Both unpickle functions of this folder, which is not installed.
_ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
_LIMIT_S = 600.0
_TAKE_S = 0.5
_LOOK_S = 0.05

HEAD = (
    *("workers", "memory before", "with workers", "peak in a load", "after it"),
    *("CPU of joining", "of preparing", "of the load", "busy in the load", "frames", "read"),
)


class Wrong(RuntimeError):
    """The load did not go as one of a cluster does; the message says how."""


@dataclass(slots=True)
class _Scheduler:
    """The process, and what it has spent so far."""

    child: Child
    _spent: float = 0.0

    def spent_s(self) -> float:
        """Its processor time since this was last asked."""
        now = proc.exact_cpu_seconds(self.child.pid)
        since, self._spent = now - self._spent, now
        return since

    def resident(self) -> int:
        return proc.resident_bytes(self.child.pid) or 0


@dataclass(slots=True)
class _Taken:
    """What the coordinator got."""

    frames: int = 0
    size: int = 0
    peak: int = 0
    """Most memory of the scheduler that was seen, in bytes."""
    last: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)


def report(counts: Sequence[int]) -> Iterator[str]:
    """The lines of the table, as Markdown; `counts` are numbers of workers.

    Raises:
        Wrong: frames were lost.
    """
    yield f"| {' | '.join(HEAD)} |"
    yield f"|{' ---: |' * len(HEAD)}"
    for workers in counts:
        load = recorded.record(workers)
        with contextlib.ExitStack() as stack:
            yield _row(load, stack)


def _row(load: Recorded, stack: contextlib.ExitStack) -> str:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trilane-")))
    scheduler, address = _scheduler(folder, stack)
    before = scheduler.resident()
    scheduler.spent_s()
    _join(address, load.workers, stack)
    client = stack.enter_context(Client(address, timeout=_LIMIT_S, set_as_default=False))
    addresses = list(client.scheduler_info(n_workers=-1)["workers"])
    if len(addresses) != load.workers:
        raise Wrong(f"{len(addresses)} of {load.workers} workers have joined")
    joined, joining_s = scheduler.resident(), scheduler.spent_s()
    order = _prepared(client, addresses, load, folder)
    preparing_s = scheduler.spent_s()
    began = time.monotonic()
    taken = _carried_out(client, order, addresses, scheduler)
    took_s, loading_s = time.monotonic() - began, scheduler.spent_s()
    expected = (len(load.said) - 1) * load.workers
    if taken.frames != expected or len(taken.last) != load.workers:
        raise Wrong(f"{taken.frames} of {expected} frames came, and {len(taken.last)} reports")
    cells = [
        f"{load.workers:,}",
        *map(_mib, (before, joined, taken.peak, scheduler.resident())),
        *(f"{value:.1f} s" for value in (joining_s, preparing_s, loading_s)),
        f"{100 * loading_s / took_s:.0f} %",
        f"{taken.frames + len(taken.last):,}",
        _mib(taken.size),
    ]
    return f"| {' | '.join(cells)} |"


def _scheduler(folder: Path, stack: contextlib.ExitStack) -> tuple[_Scheduler, str]:
    """A scheduler on this machine, and its address."""
    file = folder / "scheduler.json"
    words = [*_SCHEDULER, "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    child = stack.enter_context(
        supervisor.started(
            [*words, "--no-show", "--scheduler-file", str(file)], environment=_ENVIRONMENT
        )
    )
    client = None
    deadline = time.monotonic() + _LIMIT_S
    while client is None:
        if child.wait(_LOOK_S) or time.monotonic() > deadline:
            raise Wrong(child.with_words("did not begin"))
        if file.exists():
            client = Client(scheduler_file=str(file), timeout=_LIMIT_S, set_as_default=False)
    with client:
        return _Scheduler(child), str(client.scheduler_info()["address"])


def _join(address: str, workers: int, stack: contextlib.ExitStack) -> None:
    """Start so many workers, and wait until they have joined."""
    children = []
    each = -(-workers // _PROCESSES)
    for first in range(0, workers, each):
        words = [*_STAND_IN, address, str(first), str(min(each, workers - first))]
        started = supervisor.started(
            words, pipes=True, ends_with_stdin=True, environment=_ENVIRONMENT
        )
        children.append(stack.enter_context(started))
    for child in children:
        child.read_line("that its workers have joined", _LIMIT_S)


def _prepared(
    client: Client, addresses: Sequence[str], load: Recorded, folder: Path
) -> stand_in.Order:
    """Have every worker measure its clock, and begin its lease."""
    run, key = secrets.token_hex(8), secrets.token_bytes(32)
    tokens = [secrets.token_bytes(16) for _ in addresses]
    reference = client.run_on_scheduler(relay.begin, run, client.id, key, 0, tokens)
    file = folder / "load"
    file.write_bytes(pickle.dumps(load))
    indexes = {address: index for index, address in enumerate(addresses)}
    order = stand_in.Order(run, indexes, tokens, reference, key, file)
    offsets = client.run(stand_in.prepare, order, workers=list(addresses))
    wrong = [offset for offset in offsets.values() if abs(offset.offset) > offset.error]
    if wrong:
        raise Wrong(f"the one clock of this machine is said to be {wrong[0]} from itself")
    return order


def _carried_out(
    client: Client, order: stand_in.Order, addresses: Sequence[str], scheduler: _Scheduler
) -> _Taken:
    """Carry out the load, and take all that is said in it."""
    start = time.time_ns() + int(5e9)
    futures = {
        index: client.submit(
            stand_in.carry_out,
            order,
            index,
            start,
            workers=[address],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )
        for index, address in enumerate(addresses)
    }
    taken = _Taken()
    deadline = time.monotonic() + _LIMIT_S
    open_ = dict(futures)
    while open_ or _take(client, order.run, taken):
        taken.peak = max(taken.peak, scheduler.resident())
        if time.monotonic() > deadline:
            raise Wrong(f"{len(open_)} workers have not ended within {_LIMIT_S:g} s")
        _take(client, order.run, taken)
        done = [index for index, future in open_.items() if future.done()]
        try:
            ended = client.gather([open_.pop(index) for index in done])
        except RuntimeError as error:
            raise Wrong(
                f"{error}: the processes that stand for so many workers, or the scheduler, get too "
                "little of this machine: type fewer --workers, or try when it has less to do"
            ) from error
        for index, last in zip(done, ended, strict=True):
            taken.last[index] = last
            taken.size += len(last[1])
    client.sync(_asked(client, "trilane_end"), run=order.run)
    return taken


def _take(client: Client, run: str, taken: _Taken) -> bool:
    """Take what waits at the scheduler; whether there is more."""
    told = client.sync(_asked(client, "trilane_take"), run=run, limit_s=_TAKE_S, stop=False)
    taken.frames += len(told["frames"])
    taken.size += sum(len(content) for _, _, content in told["frames"])
    return bool(told["more"])


def _asked(client: Client, handler: str) -> Callable[..., Any]:
    """Of the scheduler, what one of its handlers answers."""

    async def ask(**asked: Any) -> Any:
        return await getattr(client.scheduler, handler)(**asked)

    return ask


def _mib(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB"
