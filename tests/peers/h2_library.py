"""One connection of HTTP/2 by hyper-h2, which sends what a test says when the test says so."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Callable, Iterator, Sequence

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import Event, PingAckReceived, RequestReceived

from .process import HOST

_LIMIT_S = 60.0
"""Ends a hang."""


class Server:
    """Answers every request, and tells what has come."""

    def __init__(self, fields: Sequence[tuple[str, str]], body: bytes) -> None:
        self._fields = [(":status", "200"), *fields]
        self._body = body
        self._listener = socket.create_server((HOST, 0))
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._connected = threading.Event()
        self._lock = threading.Lock()
        self._h2 = H2Connection(H2Configuration(client_side=False))
        self._peer: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def say(self, what: Callable[[H2Connection], object]) -> None:
        """Send what a call of hyper-h2 makes."""
        assert self._connected.wait(_LIMIT_S)
        with self._lock:
            what(self._h2)
            self._flush()

    def ping(self) -> None:
        """Send a PING and wait for its ACK."""
        self.say(lambda h2: h2.ping(b"8 octets"))
        self.expect(PingAckReceived)

    def expect(self, kind: type[Event]) -> None:
        """Wait for an event of the peer, and pass over others."""
        while True:
            event = self._events.get(timeout=_LIMIT_S)
            assert event is not None, f"the client closed the connection before {kind.__name__}"
            if isinstance(event, kind):
                return

    def expect_end(self) -> None:
        """Wait until the peer has closed the connection."""
        while self._events.get(timeout=_LIMIT_S) is not None:
            pass

    def hang_up(self) -> None:
        """Close the connection."""
        assert self._connected.wait(_LIMIT_S)
        assert self._peer is not None
        self._peer.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """End it all."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        if self._peer is not None:
            with contextlib.suppress(OSError):
                self._peer.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _flush(self) -> None:
        assert self._peer is not None
        self._peer.sendall(self._h2.data_to_send())

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            self._peer, _ = self._listener.accept()
            with self._peer:
                with self._lock:
                    self._h2.initiate_connection()
                    self._flush()
                self._connected.set()
                self._converse(self._peer)
        self._events.put(None)

    def _converse(self, peer: socket.socket) -> None:
        while data := peer.recv(65536):
            with self._lock:
                for event in self._h2.receive_data(data):
                    if isinstance(event, RequestReceived) and event.stream_id is not None:
                        bare = not self._body
                        self._h2.send_headers(event.stream_id, self._fields, end_stream=bare)
                        if not bare:
                            self._h2.send_data(event.stream_id, self._body, end_stream=True)
                    self._events.put(event)
                self._flush()


@contextlib.contextmanager
def serving(
    fields: Sequence[tuple[str, str]] = (), body: bytes = b"hello world"
) -> Iterator[Server]:
    """A server while the context lasts; its responses have these fields and this content."""
    server = Server(fields, body)
    try:
        yield server
    finally:
        server.stop()
