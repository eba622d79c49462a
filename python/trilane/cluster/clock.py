"""Which time it is elsewhere: a clock that answers datagrams, and how far ours is from it.

A probe is a datagram to the clock, which answers with its time. The time lies between the instant
at which the probe left and the one at which the answer came, so half of the round trip bounds the
error of an offset, however uneven the two ways are; the probe with the least round trip is the one
that says most (RFC 5905 §10 chooses so, too). Both ends have the key of the run, by which they
know each other's datagrams: others can neither ask nor answer.

The answers also carry whether the load shall go on, and their absence says that nobody is there any
more (`lease`).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

PROBES = 32
"""Probes of which the best counts."""
SPACING_S = 0.005
"""Between two probes: a queue that one of them met may be empty for the next."""
PATIENCE_S = 0.25
"""For how long the answer to one is waited for."""
GO_ON, STOP = 0, 1
"""Words of the clock: the load goes on, or ends with its report."""

_MAC_BYTES = 16
_MAGIC = b"tlc1"
# Magic, index of the worker, nonce; as long as the answer or longer, so that no answer is larger
# than what was asked with (RFC 9000 §8.1 has the same concern).
_QUESTION = struct.Struct("<4sI16s8x")
# The nonce of the question, nanoseconds since 1970, the word.
_ANSWER = struct.Struct("<16sqB")
_MOST_BYTES = 512
# Of a cluster: frames have as many indices.
_MOST_WORKERS = 65_536
# How often the clock's thread looks whether it shall end.
_LOOK_S = 0.2
# Questions whose answers may still come.
_PENDING = 64


class NoAnswer(Exception):
    """No clock answered; the message goes on after the worker's name."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One probe and its answer; nanoseconds."""

    sent: int
    """When the probe left, on our clock."""
    round_trip: int
    """Until the answer came."""
    reference: int
    """The time that the answer says."""


@dataclass(frozen=True, slots=True)
class Offset:
    """How far the reference is ahead of our clock; nanoseconds."""

    offset: int
    """The reference's time less ours."""
    error: int
    """Bound of the offset's error: half of the least round trip."""


def estimate(samples: Sequence[Sample]) -> Offset:
    """The offset that the sample with the least round trip says; raises ValueError for none."""
    best = min(samples, key=lambda sample: sample.round_trip)
    # Rounded up: half of an odd number of nanoseconds bounds nothing when it is rounded down.
    half = (best.round_trip + 1) // 2
    return Offset(best.reference - best.sent - best.round_trip // 2, half)


class Clock:
    """Answers probes on a UDP port, in a thread of its own, until it is closed."""

    def __init__(
        self,
        key: bytes,
        port: int = 0,
        now: Callable[[], int] = time.time_ns,
        *,
        host: str = "",
        workers: int = _MOST_WORKERS,
    ) -> None:
        """`port` 0 takes any; `now` is the time that it tells.

        It listens on the address `host` (empty: on all of the machine), and answers workers whose
        index is below `workers`.

        Raises:
            OSError: the port cannot be had.
        """
        self._key = key
        self._now = now
        self._workers = workers
        self._socket = _bound(port, host)
        self._closed = threading.Event()
        self._heard: dict[int, float] = {}
        self.port: int = self._socket.getsockname()[1]
        self.word = GO_ON
        threading.Thread(target=self._answer, name="trilane-clock", daemon=True).start()

    def silent_s(self) -> dict[int, float]:
        """For how many seconds each worker, by its index, has not asked."""
        now = time.monotonic()
        return {index: now - heard for index, heard in self._heard.copy().items()}

    def close(self) -> None:
        """Answer no more; waits for nothing."""
        self._closed.set()

    def _answer(self) -> None:
        with self._socket:
            self._answer_until_closed()

    def _answer_until_closed(self) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while not self._closed.is_set():
            if not poll.poll(_LOOK_S * 1e3):
                continue
            # What a network tells of an earlier answer is no reason to end.
            with contextlib.suppress(OSError):
                datagram, whence = self._socket.recvfrom(_MOST_BYTES)
                now = self._now()
                if (asked := _opened(self._key, _QUESTION, datagram)) is None:
                    continue
                magic, index, nonce = asked
                if magic != _MAGIC or index >= self._workers:
                    continue
                self._heard[index] = time.monotonic()
                self._socket.sendto(_sealed(self._key, _ANSWER, nonce, now, self.word), whence)


class Probe:
    """Asks the clock that answers at one of several hosts; not for more than one thread at once."""

    def __init__(self, hosts: Sequence[str], port: int, key: bytes, index: int) -> None:
        """`index` is that of the worker.

        Raises:
            NoAnswer: none of the hosts has an address.
        """
        self._key = key
        self._index = index
        self._where = ", ".join(f"{host}:{port}" for host in hosts)
        self._ways = _ways(hosts, port)
        self._pending: dict[bytes, tuple[int, int, _Way]] = {}
        self._poll = select.poll()
        for way in self._ways:
            self._poll.register(way.socket, select.POLLIN)
        if not self._ways:
            raise NoAnswer(f"finds no address for the clock at {self._where}")

    def ask(self) -> None:
        """Send a probe, to each host as long as none has answered."""
        for way in self._ways:
            nonce = os.urandom(16)
            question = _sealed(self._key, _QUESTION, _MAGIC, self._index, nonce)
            while len(self._pending) >= _PENDING:
                del self._pending[next(iter(self._pending))]
            # In this order: what holds us up between them is in the round trip, so in the bound.
            began, sent = time.monotonic_ns(), time.time_ns()
            self._pending[nonce] = sent, began, way
            # A host that cannot be reached by this way may be by another, or later.
            with contextlib.suppress(OSError):
                way.socket.sendto(question, way.address)

    def answer(self, limit_s: float) -> tuple[Sample, int] | None:
        """The next answer, and its word; None where none came within `limit_s` seconds."""
        deadline = time.monotonic() + limit_s
        while (left := deadline - time.monotonic()) >= 0:
            for descriptor, _ in self._poll.poll(left * 1e3):
                way = next(way for way in self._ways if way.socket.fileno() == descriptor)
                try:
                    datagram = way.socket.recv(_MOST_BYTES)
                except OSError:
                    continue
                came = time.monotonic_ns()
                told = _opened(self._key, _ANSWER, datagram)
                asked = None if told is None else self._pending.pop(told[0], None)
                if told is None or asked is None:
                    continue
                sent, began, way = asked
                self._keep(way)
                return Sample(sent, came - began, told[1]), told[2]
        return None

    def offset(self, limit_s: float) -> Offset:
        """How far the clock is ahead of ours, by `PROBES` probes.

        Raises:
            NoAnswer: none came within `limit_s` seconds.
        """
        deadline = time.monotonic() + limit_s
        samples: list[Sample] = []
        while len(samples) < PROBES and time.monotonic() < deadline:
            self.ask()
            answer = self.answer(min(PATIENCE_S, limit_s))
            if answer is not None:
                samples.append(answer[0])
                time.sleep(SPACING_S)
        if not samples:
            raise NoAnswer(
                f"got no answer within {limit_s:g} s from the scheduler's clock at {self._where}: "
                "datagrams (UDP) from workers to the scheduler must get through"
            )
        return estimate(samples)

    def close(self) -> None:
        """Give the sockets back."""
        for way in self._ways:
            way.socket.close()

    def _keep(self, way: _Way) -> None:
        for other in self._ways:
            if other is not way:
                self._poll.unregister(other.socket)
                other.socket.close()
        self._ways = [way]


@dataclass(frozen=True, slots=True)
class _Way:
    socket: socket.socket
    address: tuple[object, ...]


def _ways(hosts: Sequence[str], port: int) -> list[_Way]:
    found: dict[tuple[object, ...], _Way] = {}
    for host in hosts:
        with contextlib.suppress(OSError):
            for family, *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
                if address in found:
                    continue
                with contextlib.suppress(OSError):
                    opened = socket.socket(family, socket.SOCK_DGRAM)
                    opened.setblocking(False)
                    found[address] = _Way(opened, address)
    return list(found.values())


def _bound(port: int, host: str) -> socket.socket:
    """A socket at an address; at all of IPv6 and IPv4 at once, or of IPv4 alone, without one."""
    if host:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return _bound_at(family, host, port)
    with contextlib.suppress(OSError):
        return _bound_at(socket.AF_INET6, "::", port)
    return _bound_at(socket.AF_INET, "", port)


def _bound_at(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    with contextlib.ExitStack() as undo:
        opened = undo.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        opened.bind((host, port))
        undo.pop_all()
        return opened


def _sealed(key: bytes, form: struct.Struct, *values: object) -> bytes:
    content = form.pack(*values)
    return content + _mac(key, content)


def _opened(key: bytes, form: struct.Struct, datagram: bytes) -> tuple[Any, Any, Any] | None:
    """What a datagram of that form says; None where it is not of somebody who has the key."""
    content, mac = datagram[: form.size], datagram[form.size :]
    if len(datagram) != form.size + _MAC_BYTES or not hmac.compare_digest(mac, _mac(key, content)):
        return None
    first, second, third = form.unpack(content)
    return first, second, third


def _mac(key: bytes, content: bytes) -> bytes:
    return hashlib.blake2b(content, key=key, digest_size=_MAC_BYTES).digest()
