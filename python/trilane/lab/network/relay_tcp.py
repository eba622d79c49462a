"""The TCP half of the relay: streams in both directions, each with its own end."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import time
from collections import deque
from typing import Any

from trilane.lab.network.relay_loop import Handler, Loop
from trilane.lab.network.relay_window import Window

_BUFFER = memoryview(bytearray(1 << 18))
_READS_PER_TURN = 8
_ACCEPTS_PER_TURN = 64
_PIECES = 64
# So that what is due at the time of a reset leaves before it.
_AFTER_S = 1e-4
# struct linger: on, for no time. Closing then sends a reset.
_LINGER = struct.pack("ii", 1, 0)
_INPUT = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR


class Streams:
    """A listening socket and the server that its connections go to."""

    def __init__(self, loop: Loop, listener: socket.socket, address: tuple[int, Any]) -> None:
        self._loop = loop
        self._listener = listener
        self._address = address
        listener.setblocking(False)
        loop.watch(listener, self._accept)

    def _accept(self, _events: int) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                near, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:
                # Out of descriptors, or the client has gone again: the next one may fare better.
                self._loop.ledger.refused += 1
                break
            self._loop.ledger.connections += 1
            Pair(self._loop, near, self._address)
        self._loop.again(self._listener, self._accept)


class Flow:
    """One direction of a connection: a queue of chunks and of its end."""

    def __init__(self, loop: Loop, pair: Pair, floor: float) -> None:
        self._loop = loop
        self._pair = pair
        self._floor = floor
        self._window = Window(loop.delay_s, loop.limit)
        # What the sender's TCP would not have sent yet, and what is in flight until it is due.
        self._unsent: deque[bytes | None] = deque()
        self._chunks: deque[tuple[float, bytes | None]] = deque()
        self._queued = 0
        self._scheduled = False
        self._blocked = False
        self._free_since = 0.0
        self._full = False
        self._at_end = False
        self.ended = False
        self.source: socket.socket
        self.sink: socket.socket

    def readable(self) -> None:
        """Take in what has arrived."""
        if self._at_end:
            return
        for _ in range(_READS_PER_TURN):
            if self._queued >= self._loop.limit:
                if not self._full:
                    self._loop.ledger.held_back += 1
                self._full = True
                return
            try:
                size = self.source.recv_into(_BUFFER)
            except BlockingIOError:
                return
            except OSError:
                self._at_end = True
                self._pair.reset_at(self._due())
                return
            self._keep(bytes(_BUFFER[:size]) if size else None)
            if not size:
                self._at_end = True
                return
        self._loop.again(self.source, self._pair.handler(self.source))

    def writable(self) -> None:
        """The sink takes bytes again."""
        if self._blocked:
            self._blocked = False
            # What waited for the receiver is not late by our fault.
            self._free_since = time.monotonic()
            self.deliver(self._free_since)

    def deliver(self, now: float) -> None:
        """Send what is due."""
        self._scheduled = False
        while self._chunks and not self._blocked and self._chunks[0][0] <= now:
            if self._chunks[0][1] is None:
                self._finish()
                return
            if not self._send(now):
                return
        if self._full and self._queued < self._loop.limit // 2:
            self._full = False
            self._loop.again(self.source, self._pair.handler(self.source))
        self._plan()

    def leave(self, at: float) -> None:
        """Let out what the window allows at the time `at`."""
        while self._unsent:
            chunk = self._unsent[0]
            if chunk:
                room = self._window.room(at)
                if room <= 0:
                    more = self._window.next_room()
                    self._loop.schedule(_Acknowledged(self, more), more)
                    break
                if len(chunk) > room:
                    self._unsent[0] = chunk[room:]
                    chunk = chunk[:room]
                else:
                    self._unsent.popleft()
                self._window.leave(at, len(chunk))
            else:
                self._unsent.popleft()
            self._chunks.append((at + self._loop.one_way_s, chunk))
        self._plan()

    def _keep(self, chunk: bytes | None) -> None:
        self._queued += len(chunk or b"")
        self._unsent.append(chunk)
        # With others before it, it waits for the next acknowledgement like them.
        if len(self._unsent) == 1:
            self.leave(max(self._loop.now, self._floor))

    def _due(self) -> float:
        """When that leaves which has just come."""
        return max(self._loop.now, self._floor) + self._loop.one_way_s

    def _plan(self) -> None:
        if self._chunks and not self._scheduled and not self._blocked:
            self._scheduled = True
            self._loop.schedule(self, self._chunks[0][0])

    def _send(self, now: float) -> bool:
        """Send the chunks at the head that are due; False when the sink takes no more."""
        pieces: list[bytes] = []
        for due, chunk in self._chunks:
            if chunk is None or due > now or len(pieces) == _PIECES:
                break
            pieces.append(chunk)
        try:
            sent = self.sink.sendmsg(pieces)
        except BlockingIOError:
            self._blocked = True
            return True
        except OSError as error:
            # Not yet connected: the connection becomes writable when it is.
            if error.errno == errno.ENOTCONN and not self._pair.connected:
                self._blocked = True
                return True
            # The sink has been reset; the source learns of it half a round trip later.
            self._pair.reset_at(now + self._loop.one_way_s)
            return False
        self._queued -= sent
        self._loop.ledger.bytes += sent
        while sent:
            due, chunk = self._chunks[0]
            size = len(chunk or b"")
            if size > sent:
                self._chunks[0] = (due, (chunk or b"")[sent:])
                self._blocked = True
                break
            self._chunks.popleft()
            sent -= size
            self._loop.ledger.late(now - max(due, self._free_since))
        return True

    def _finish(self) -> None:
        self._chunks.popleft()
        self.ended = True
        with contextlib.suppress(OSError):
            self.sink.shutdown(socket.SHUT_WR)
        self._pair.flow_ended()


class _Acknowledged:
    """The time at which a direction has room again."""

    def __init__(self, flow: Flow, at: float) -> None:
        self._flow = flow
        self._at = at

    def deliver(self, _now: float) -> None:
        # The time when it was due, not when we noticed: lateness must not add up.
        self._flow.leave(self._at)


class Pair:
    """A TCP connection to us and the one that we made for it."""

    def __init__(self, loop: Loop, near: socket.socket, address: tuple[int, Any]) -> None:
        self._loop = loop
        self._near = near
        family, name = address
        self._far = socket.socket(family, socket.SOCK_STREAM)
        self._open = True
        self.connected = False
        self._opened = opened = loop.now
        # A connect takes one round trip; the server has it half a round trip after that.
        self._up = Flow(loop, self, opened + loop.delay_s)
        self._down = Flow(loop, self, opened + loop.delay_s + loop.one_way_s)
        self._up.source, self._up.sink = near, self._far
        self._down.source, self._down.sink = self._far, near
        for sock in (near, self._far):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = self._far.connect_ex(name)
        loop.watch(near, self._near_event, writes=True)
        loop.watch(self._far, self._far_event, writes=True)
        if code not in (0, errno.EINPROGRESS):
            self._refused()

    def handler(self, source: socket.socket) -> Handler:
        """What takes the events of one of the two sockets."""
        return self._near_event if source is self._near else self._far_event

    def reset_at(self, due: float) -> None:
        """End both connections once what came before the reset has been sent on."""
        self._loop.schedule(self, due + _AFTER_S)

    def deliver(self, _now: float) -> None:
        """The time of the reset has come."""
        if not self._open:
            return
        self._open = False
        for sock in (self._near, self._far):
            # Lingering for no time makes the kernel send a reset.
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
            self._loop.forget(sock)

    def flow_ended(self) -> None:
        """One direction has come to its end; close when both have."""
        if self._open and self._up.ended and self._down.ended:
            self._open = False
            self._loop.forget(self._near)
            self._loop.forget(self._far)

    def _refused(self) -> None:
        """The server does not take the connection; the client would know after a round trip."""
        self._loop.ledger.refused += 1
        self.reset_at(self._opened + self._loop.delay_s)

    def _near_event(self, events: int) -> None:
        if events & _INPUT:
            self._up.readable()
        if self._open and events & select.EPOLLOUT:
            self._down.writable()

    def _far_event(self, events: int) -> None:
        if not self.connected and events & (select.EPOLLOUT | select.EPOLLERR | select.EPOLLHUP):
            if self._far.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._refused()
                return
            self.connected = True
        if events & _INPUT:
            self._down.readable()
        if self._open and events & select.EPOLLOUT:
            self._up.writable()
