"""The event loop of the relay, made to be on time, and its account of how late it was.

It waits with select(2) on an epoll descriptor: epoll_wait(2) counts milliseconds, select(2)
microseconds. Since every chunk waits equally long, a queue in order of arrival is also in order of
departure, and a heap holds only the heads of the queues.
"""

from __future__ import annotations

import contextlib
import heapq
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

Handler: TypeAlias = Callable[[int], None]
"""Takes the epoll events of a socket."""

_SWEEP_S = 10.0
# How much may be under way in one direction: what this rate fills, and a floor.
_BYTES_PER_S = 250e6
_FLOOR = 1 << 20
# Lateness is counted in steps of 10 us, up to 1 s.
_STEP_S = 1e-5
_STEPS = 100_000


class Queue(Protocol):
    """Something with a chunk that becomes due."""

    def deliver(self, now: float) -> None:
        """Send what is due at `now`, on the clock of time.monotonic()."""


class Ledger:
    """How late the relay was, and what it lost, since the last report."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.bytes = 0
        self.connections = 0
        self.dropped = 0
        self.held_back = 0
        self.refused = 0
        self._sent = 0
        self._latest = 0.0
        self._counts = [0] * _STEPS
        self._began = time.monotonic()
        self._cpu = time.process_time()

    def late(self, seconds: float) -> None:
        """A chunk left so much later than it should have."""
        self._sent += 1
        self._latest = max(self._latest, seconds)
        self._counts[min(int(seconds / _STEP_S), _STEPS - 1)] += 1

    def report(self) -> dict[str, Any]:
        """What has happened, with times in seconds; None where nothing was sent."""
        return {
            "chunks": self._sent,
            "bytes": self.bytes,
            "connections": self.connections,
            "datagrams_dropped": self.dropped,
            "refused": self.refused,
            "held_back": self.held_back,
            "busy": (time.process_time() - self._cpu) / (time.monotonic() - self._began),
            "late_p50_s": self._quantile(0.5),
            "late_p99_s": self._quantile(0.99),
            "late_max_s": self._latest if self._sent else None,
        }

    def _quantile(self, q: float) -> float | None:
        seen = 0
        for step, count in enumerate(self._counts):
            seen += count
            if seen and seen >= q * self._sent:
                return min((step + 1) * _STEP_S, self._latest)
        return None


class Loop:
    """Waits for sockets and for the next chunk to be due."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        """The round-trip time."""
        self.one_way_s = delay_s / 2
        self.limit = _FLOOR + int(_BYTES_PER_S * self.one_way_s)
        """How many bytes may be under way in one direction of a connection."""
        self.ledger = Ledger()
        self.now = time.monotonic()
        """When this turn began: what is read in it has arrived by then."""
        self.sweeps: list[Callable[[], None]] = []
        """Called every ten seconds."""
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._due: list[tuple[float, int, Queue]] = []
        self._count = 0
        self._again: deque[tuple[int, Handler]] = deque()

    def watch(self, sock: socket.socket, handler: Handler, *, writes: bool = False) -> None:
        """Call `handler` at every change: bytes arrived, and with `writes`, room to write."""
        events = select.EPOLLIN | select.EPOLLET | select.EPOLLRDHUP
        self._handlers[sock.fileno()] = handler
        self._epoll.register(sock, events | (select.EPOLLOUT if writes else 0))

    def forget(self, sock: socket.socket) -> None:
        """Watch the socket no longer and close it."""
        if self._handlers.pop(sock.fileno(), None) is not None:
            self._epoll.unregister(sock)
        sock.close()

    def schedule(self, queue: Queue, due: float) -> None:
        """Call `queue.deliver` at the time `due`."""
        self._count += 1
        heapq.heappush(self._due, (due, self._count, queue))

    def again(self, sock: socket.socket, handler: Handler) -> None:
        """There may be more to read than one turn takes: go on in the next one."""
        self._again.append((sock.fileno(), handler))

    def run(self, control: int, obey: Callable[[], bool]) -> None:
        """Relay until `obey`, called when the descriptor `control` is readable, says no."""
        self._epoll.register(control, select.EPOLLIN)
        swept = time.monotonic()
        while True:
            self._wait()
            self.now = time.monotonic()
            events = [(number, select.EPOLLIN, handler) for number, handler in self._again]
            self._again.clear()
            for number, wanted, handler in events:
                # Closed meanwhile, and the number perhaps given to another socket.
                if self._handlers.get(number) == handler:
                    handler(wanted)
            for number, got in self._epoll.poll(0):
                if number == control:
                    if not obey():
                        return
                elif number in self._handlers:
                    self._handlers[number](got)
            self._deliver()
            if self.now - swept > _SWEEP_S:
                swept = self.now
                for sweep in self.sweeps:
                    sweep()

    def _wait(self) -> None:
        patience_s = _SWEEP_S
        if self._again:
            patience_s = 0.0
        elif self._due:
            patience_s = min(patience_s, max(0.0, self._due[0][0] - time.monotonic()))
        with contextlib.suppress(InterruptedError):
            select.select([self._epoll], [], [], patience_s)

    def _deliver(self) -> None:
        while self._due and self._due[0][0] <= (now := time.monotonic()):
            heapq.heappop(self._due)[2].deliver(now)
