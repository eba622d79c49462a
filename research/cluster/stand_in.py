"""Workers of Dask that stand for the machines of a cluster: many of them share a process.

    python -m research.cluster.stand_in ADDRESS FIRST COUNT

Each is a real worker to its scheduler, and talks to it in a load as the agent does: it probes the
clock, keeps its lease, and sends frames. What it sends is what a real worker said in a load
(`recorded`), at the same pace.
"""

from __future__ import annotations

import asyncio
import pickle
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import dask
from distributed import Worker, get_worker

from research.cluster.recorded import Recorded
from trilane.cluster.clock import Offset, Probe
from trilane.cluster.lease import Lease
from trilane.cluster.relay import Reference
from trilane.cluster.sending import Sender

_AT_ONCE = 50
_PROBES_S = 300.0
_SENT_S = 60.0
# Hundreds of them share a process, and wait for each other; a real worker waits for 1.5 s.
_LOST_S = 60.0
# What a worker watches of itself, fifty times a second and more: where many share a process, they
# would do nothing else. The scheduler does not see it.
_LIGHT = {
    "distributed.admin.tick.interval": "10s",
    "distributed.admin.tick.limit": "1h",
    "distributed.admin.system-monitor.interval": "1m",
    "distributed.worker.profile.enabled": False,
}
_LEASES: dict[tuple[str, int], Lease] = {}


@dataclass(frozen=True, slots=True)
class Order:
    """What all of them are asked to do."""

    run: str
    indexes: Mapping[str, int]
    """Address of each worker to its index."""
    tokens: Sequence[bytes]
    """By their index, what the scheduler knows them by."""
    reference: Reference
    key: bytes
    load: Path
    """The file of what they say."""


async def prepare(order: Order, dask_worker: Worker) -> Offset:
    """How far the scheduler's clock is ahead of ours; the lease of the load begins."""
    index = order.indexes[dask_worker.address]
    return await asyncio.to_thread(_prepare, order, index)


def _prepare(order: Order, index: int) -> Offset:
    probe = Probe(order.reference.hosts, order.reference.port, order.key, index)
    offset = probe.offset(_PROBES_S)
    _LEASES[order.run, index] = Lease(probe, lambda: None, _LOST_S)
    return offset


def carry_out(order: Order, index: int, start: int) -> tuple[bytes, bytes]:
    """Say all but the last frame, one in a second from `start` on; kind and content of the last.

    `start` is in nanoseconds since 1970.

    Raises:
        RuntimeError: the scheduler was lost.
    """
    lease = _LEASES.pop((order.run, index))
    *said, last = _load(order.load).frames(index)
    worker: Any = get_worker()
    try:
        with Sender(order.run, order.tokens[index], worker) as sender:
            for second, frame in enumerate(said):
                lease.lost.wait(max(0.0, start / 1e9 + second - time.time()))
                sender.add(frame)
            sender.finish(_SENT_S)
            if lease.lost.is_set() or sender.failed.is_set():
                raise RuntimeError(f"worker {index} lost its scheduler")
    finally:
        lease.close()
    return last.kind, last.content


@cache
def _load(file: Path) -> Recorded:
    # Written by the process that measures, on this machine.
    load: Recorded = pickle.loads(file.read_bytes())  # noqa: S301
    return load


async def _work(address: str, first: int, count: int) -> None:
    """Be so many workers until stdin ends."""
    workers = [
        Worker(address, nthreads=1, name=f"worker-{index}", memory_limit=0, dashboard=False)
        for index in range(first, first + count)
    ]
    for begin in range(0, count, _AT_ONCE):
        await asyncio.gather(*workers[begin : begin + _AT_ONCE])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    """Run the program."""
    # A worker has a socket that listens, and two connections.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    address, first, count = sys.argv[1:]
    dask.config.set(_LIGHT)
    asyncio.run(_work(address, int(first), int(count)))


if __name__ == "__main__":
    main()
