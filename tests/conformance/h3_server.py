"""One server for all cases of HTTP/3: it plays the one that it was given last."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from aioquic.quic.events import (
    ConnectionTerminated,
    QuicEvent,
    StopSendingReceived,
    StreamDataReceived,
)

from client.wire import h3_chaos
from peers.authority import Leaf

from .cases import REQUEST, Close, Reset, Say, Seen, Step
from .h3 import ANSWER, BIDIRECTIONAL, GREETING, Case

Sight = tuple[Seen, int]


class Play:
    """A case that is played, what was counted meanwhile, and what its clients said of errors."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.connections = 0
        self.requests = 0
        self._changed = threading.Condition()
        self._seen: list[Sight] = []

    def wait_for(self, sight: Sight) -> None:
        """Wait until a client said so; the patience ends a hang only."""
        with self._changed:
            assert self._changed.wait_for(lambda: sight in self._seen, 60), self._seen

    @property
    def seen(self) -> set[Sight]:
        """What clients said so far."""
        with self._changed:
            return set(self._seen)

    def see(self, seen: Seen, code: int) -> None:
        """A client said so."""
        with self._changed:
            self._seen.append((seen, code))
            self._changed.notify_all()

    def begin(self) -> tuple[Step, ...]:
        """A connection's first request has come: what the server says before it answers."""
        self.connections += 1
        return GREETING if self.case.once and self.requests else self.case.opening

    def answer(self) -> tuple[Step, ...]:
        """A request has come."""
        self.requests += 1
        return ANSWER if self.case.once and self.requests > 1 else self.case.answer


class Server:
    """Plays a case on the connections that begin from now on."""

    def __init__(self) -> None:
        self.port = 0
        self.playing = Play(Case("nothing yet", ""))

    def play(self, case: Case) -> Play:
        """Play this one from now on."""
        self.playing = Play(case)
        return self.playing


class _Connection(h3_chaos.Server):
    server: Server
    play: Play | None = None

    def quic_event_received(self, event: QuicEvent) -> None:
        play = self.play
        if isinstance(event, StreamDataReceived) and event.stream_id % 4 == 0:
            seen: set[int] = self.__dict__.setdefault("seen", set())
            if event.stream_id not in seen:
                seen.add(event.stream_id)
                if play is None:
                    self.play = play = self.server.playing
                    self._do(play.begin(), event.stream_id)
                self._do(play.answer(), event.stream_id)
        elif play is not None and isinstance(event, ConnectionTerminated):
            play.see(Seen.CONNECTION_CLOSE, event.error_code)
        elif play is not None and isinstance(event, StopSendingReceived):
            play.see(Seen.STOP_SENDING, event.error_code)

    def _do(self, steps: tuple[Step, ...], request: int) -> None:
        """Take steps; each leaves in a datagram of its own."""
        for step in steps:
            if isinstance(step, Close):
                self.end(step.code)
            else:
                stream = request if step.stream == REQUEST else step.stream
                if isinstance(step, Say):
                    if stream == BIDIRECTIONAL:
                        # Our client grants none, and aioquic would wait for that.
                        self._quic._remote_max_streams_bidi = 1
                    self.send(stream, step.data, step.end)
                elif isinstance(step, Reset):
                    self.reset(stream, step.code)
                else:
                    self.stop(stream, step.code)
            self.transmit()


@contextlib.contextmanager
def serve(leaf: Leaf) -> Iterator[Server]:
    """A server, while the context lasts."""
    server = Server()
    protocol = type("Connection", (_Connection,), {"server": server})
    with h3_chaos.serve(lambda *_: None, leaf, protocol) as port:
        server.port = port
        yield server
