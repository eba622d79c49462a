"""The UDP half of the relay: datagrams, each client with a socket of its own towards the server.

Trains of datagrams that a sender made with one call (UDP_SEGMENT) are taken in and sent on by one
call as well (UDP_GRO): otherwise the relay would be the limit of HTTP/3.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from trilane.lab.network.relay_loop import Loop

_DATAGRAM = 1 << 16
_DATAGRAMS_PER_TURN = 64
_IDLE_S = 120.0
_BUFFER = 4 << 20
# Linux, not in Python's socket module: buffers beyond the limit of the system, and drops.
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_SO_MEMINFO = 55
_UDP_SEGMENT = 103
_UDP_GRO = 104
_MEMINFO = struct.Struct("9I")
_INT = struct.Struct("i")
_SIZE = struct.Struct("H")
_ANCILLARY = socket.CMSG_SPACE(_INT.size)


class Train(NamedTuple):
    """Datagrams that came together: all but the last of the same size."""

    data: bytes
    size: int
    """Bytes of each; 0 where there is only one."""

    @property
    def datagrams(self) -> int:
        """How many datagrams they are."""
        return -(-len(self.data) // self.size) if self.size else 1


class Session:
    """What belongs to one client address."""

    def __init__(self, owner: Datagrams, client: Any, far: socket.socket) -> None:
        self.client = client
        self.far = far
        self.last = 0.0
        self.under_way = 0
        self._owner = owner

    def readable(self, _events: int) -> None:
        """The server has answered."""
        self._owner.take_answers(self)


class Datagrams:
    """A UDP socket of ours and the server that its datagrams go to."""

    def __init__(self, loop: Loop, near: socket.socket, address: tuple[int, Any]) -> None:
        self._loop = loop
        self._near = near
        self._family, self._server = address
        self._sessions: dict[Any, Session] = {}
        self._up = _Queue(loop, lambda session, train: _send(session.far, train))
        self._down = _Queue(loop, lambda session, train: _send(near, train, session.client))
        self._drops_seen: dict[socket.socket, int] = {}
        self._prepare(near)
        loop.watch(near, self._take_requests)
        loop.sweeps.append(self._sweep)

    def count_drops(self) -> None:
        """Add to the ledger what the kernel has thrown away since the last time."""
        for sock in self._drops_seen:
            self._count_drops_of(sock)

    def take_answers(self, session: Session) -> None:
        """Read what the server has sent to one client."""
        for _ in range(_DATAGRAMS_PER_TURN):
            try:
                train, _ = _receive(session.far)
            except BlockingIOError:
                return
            except OSError:
                # ICMP: nobody listens there. QUIC clients time out, as they would on a network.
                self._loop.ledger.refused += 1
                continue
            session.last = self._loop.now
            self._down.keep(session, train)
        self._loop.again(session.far, session.readable)

    def _take_requests(self, _events: int) -> None:
        for _ in range(_DATAGRAMS_PER_TURN):
            try:
                train, client = _receive(self._near)
            except BlockingIOError:
                return
            except OSError:
                self._loop.ledger.refused += 1
                continue
            session = self._sessions.get(client) or self._open(client)
            if session is None:
                self._loop.ledger.dropped += train.datagrams
                continue
            session.last = self._loop.now
            self._up.keep(session, train)
        self._loop.again(self._near, self._take_requests)

    def _open(self, client: Any) -> Session | None:
        try:
            far = socket.socket(self._family, socket.SOCK_DGRAM)
        except OSError:
            return None
        self._prepare(far)
        far.connect(self._server)
        session = Session(self, client, far)
        self._sessions[client] = session
        self._loop.ledger.connections += 1
        self._loop.watch(far, session.readable)
        return session

    def _prepare(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        for force, plain in (
            (_SO_RCVBUFFORCE, socket.SO_RCVBUF),
            (_SO_SNDBUFFORCE, socket.SO_SNDBUF),
        ):
            try:
                sock.setsockopt(socket.SOL_SOCKET, force, _BUFFER)
            except PermissionError:
                sock.setsockopt(socket.SOL_SOCKET, plain, _BUFFER)
        # Kernels before 5.0 do not know the option.
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_UDP, _UDP_GRO, 1)
        self._drops_seen[sock] = 0

    def _count_drops_of(self, sock: socket.socket) -> None:
        # Kernels before 4.12 do not know the option.
        with contextlib.suppress(OSError):
            answer = sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
            drops = _MEMINFO.unpack(answer)[-1]
            self._loop.ledger.dropped += drops - self._drops_seen[sock]
            self._drops_seen[sock] = drops

    def _sweep(self) -> None:
        """Forget clients that have been silent for long."""
        idle = [s for s in self._sessions.values() if self._loop.now - s.last > _IDLE_S]
        for session in idle:
            del self._sessions[session.client]
            self._count_drops_of(session.far)
            del self._drops_seen[session.far]
            self._loop.forget(session.far)


class _Queue:
    """Datagrams in one direction, of all clients."""

    def __init__(self, loop: Loop, send: Callable[[Session, Train], object]) -> None:
        self._loop = loop
        self._send = send
        self._waiting: deque[tuple[float, Session, Train]] = deque()

    def keep(self, session: Session, train: Train) -> None:
        """Keep datagrams until they are due; a client with too many under way loses them."""
        if session.under_way + len(train.data) > 2 * self._loop.limit:
            self._loop.ledger.dropped += train.datagrams
            return
        session.under_way += len(train.data)
        due = self._loop.now + self._loop.one_way_s
        self._waiting.append((due, session, train))
        if len(self._waiting) == 1:
            self._loop.schedule(self, due)

    def deliver(self, now: float) -> None:
        """Send what is due."""
        while self._waiting and self._waiting[0][0] <= now:
            due, session, train = self._waiting.popleft()
            session.under_way -= len(train.data)
            try:
                self._send(session, train)
            except OSError:
                # No room to send, or a client that has gone: networks lose datagrams as well.
                self._loop.ledger.dropped += train.datagrams
                continue
            self._loop.ledger.bytes += len(train.data)
            self._loop.ledger.late(now - due)
        if self._waiting:
            self._loop.schedule(self, self._waiting[0][0])


def _receive(sock: socket.socket) -> tuple[Train, Any]:
    data, ancillary, _, sender = sock.recvmsg(_DATAGRAM, _ANCILLARY)
    for level, kind, value in ancillary:
        if level == socket.IPPROTO_UDP and kind == _UDP_GRO:
            (size,) = _INT.unpack(value[: _INT.size])
            return Train(data, size if size < len(data) else 0), sender
    return Train(data, 0), sender


def _send(sock: socket.socket, train: Train, to: Any = None) -> None:
    if train.size:
        segment = [(socket.IPPROTO_UDP, _UDP_SEGMENT, _SIZE.pack(train.size))]
        sock.sendmsg([train.data], segment, 0, *(() if to is None else (to,)))
    elif to is None:
        sock.send(train.data)
    else:
        sock.sendto(train.data, to)
