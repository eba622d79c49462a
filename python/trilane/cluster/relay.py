"""What runs in the scheduler's process for a load: the clock, and the frames on their way.

Workers reach the scheduler in any deployment, and so does the coordinator; they need not reach each
other. Frames wait here until the coordinator takes them; a worker that sends more than fits waits.
All of it ends when the coordinator says so, or when the scheduler has lost it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from distributed.comm.addressing import get_address_host
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.scheduler import Scheduler

from trilane.cluster import clock
from trilane.cluster.clock import Clock

HELD_BYTES = 64 << 20
"""What waits for the coordinator at most, beside what each worker is sending."""
TAKEN_BYTES = 8 << 20
"""What the coordinator takes at once at most, beside one frame."""

Sent = tuple[bytes, bytes]
"""Kind and content of a frame, as its worker sends it."""
Relayed = tuple[int, bytes, bytes]
"""Index of the worker, kind and content of a frame."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Where the clock of a run is."""

    hosts: tuple[str, ...]
    """Of the scheduler, as it knows itself."""
    port: int


class Relay(SchedulerPlugin):
    """One run, in the scheduler's process."""

    def __init__(self, run: str, client: str, clock_of_run: Clock, tokens: Sequence[bytes]) -> None:
        """`client` is the coordinator's, by Dask's id.

        `tokens` has of each worker, in their order, what only that one is told: by it the relay
        knows whose frames come, whatever is said of that.
        """
        self.name = _name(run)
        self.clock = clock_of_run
        self._client = client
        self._indexes = {token: index for index, token in enumerate(tokens)}
        self._frames: deque[Relayed] = deque()
        self._bytes = 0
        self._came = asyncio.Event()
        self._room = asyncio.Event()
        self._gone: set[str] = set()
        self._ended = False

    def remove_worker(
        self,
        scheduler: Scheduler,  # noqa: ARG002 - Dask's names
        worker: str,
        **_: Any,
    ) -> None:
        """Dask's hook: a worker has left."""
        self._gone.add(worker)
        self._came.set()

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Dask's hook: a client has left."""
        if client == self._client:
            self.end()
            scheduler.remove_plugin(self.name)

    async def close(self) -> None:
        """Dask's hook: the scheduler ends."""
        self.end()

    def end(self) -> None:
        """Answer and hold nothing more: what still loads ends, too."""
        _RELAYS.pop(self.name, None)
        self._ended = True
        self._frames.clear()
        self._came.set()
        self._room.set()
        self.clock.close()

    async def put(self, token: bytes, frames: Sequence[Sent]) -> bool:
        """Take frames of the worker that has the token; waits while there is no room.

        Whether the run goes on, and has that worker.
        """
        index = self._indexes.get(token)
        if index is None:
            return False
        while self._bytes >= HELD_BYTES and not self._ended:
            self._room.clear()
            await self._room.wait()
        if not self._ended:
            self._frames.extend((index, kind, content) for kind, content in frames)
            self._bytes += sum(len(content) for _, content in frames)
            self._came.set()
        return not self._ended

    async def take(self, limit_s: float) -> dict[str, Any]:
        """What there is for the coordinator, who waits up to `limit_s` seconds for frames."""
        if not self._frames:
            self._came.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await self._came.wait()
        taken: list[Relayed] = []
        size = 0
        while self._frames and size < TAKEN_BYTES:
            taken.append(self._frames.popleft())
            size += len(taken[-1][2])
        self._bytes -= size
        self._room.set()
        return {
            "frames": taken,
            "more": bool(self._frames),
            "gone": sorted(self._gone),
            "silent_s": list(self.clock.silent_s().items()),
        }


_RELAYS: dict[str, Relay] = {}


def begin(
    run: str,
    client: str,
    key: bytes,
    port: int,
    tokens: Sequence[bytes],
    dask_scheduler: Scheduler,
) -> Reference:
    """Begin to relay; runs in the scheduler's process. `port` is the clock's, by UDP (0: any).

    The clock listens where the scheduler does, for as many workers as there are tokens (`Relay`).

    Raises:
        OSError: the UDP port cannot be had.
    """
    where = {_host(listener.listen_address) for listener in dask_scheduler.listeners}
    host = where.pop() if len(where) == 1 else ""
    relay = Relay(run, client, Clock(key, port, host=host, workers=len(tokens)), tokens)
    dask_scheduler.add_plugin(relay, name=relay.name)
    dask_scheduler.handlers.update(_HANDLERS)
    _RELAYS[relay.name] = relay
    hosts = [get_address_host(listener.contact_address) for listener in dask_scheduler.listeners]
    return Reference(tuple(dict.fromkeys(hosts)), relay.clock.port)


def end(run: str, dask_scheduler: Scheduler) -> None:
    """Forget a run; runs in the scheduler's process."""
    relay = _RELAYS.get(_name(run))
    if relay is not None:
        relay.end()
        dask_scheduler.remove_plugin(relay.name)


def _host(address: str) -> str:
    """The one address of this machine that a listener is at; empty where it is at all of them."""
    host = get_address_host(address)
    try:
        known = ipaddress.ip_address(host)
    except ValueError:
        return ""
    return "" if known.is_unspecified else host


def _name(run: str) -> str:
    return f"trilane-{run}"


async def _send(run: str, token: bytes, frames: Sequence[Sent]) -> bool:
    """A worker's: whether the run still goes on, and has it."""
    relay = _RELAYS.get(_name(run))
    return relay is not None and await relay.put(token, frames)


async def _take(run: str, limit_s: float, stop: bool) -> dict[str, Any]:
    """The coordinator's."""
    relay = _RELAYS[_name(run)]
    if stop:
        relay.clock.word = clock.STOP
    return await relay.take(limit_s)


async def _now() -> int:
    """The time of the reference, nanoseconds since 1970."""
    return time.time_ns()


_HANDLERS: dict[str, Callable[..., Awaitable[Any]]] = {
    "trilane_send": _send,
    "trilane_take": _take,
    "trilane_now": _now,
}
