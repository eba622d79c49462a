"""A relay that counts connections: TCP connections accepted, UDP clients heard."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

HOST = "127.0.0.1"
_SIZE = 65536
_POLL_S = 0.1


class CountingRelay:
    """Between a client and a port of this machine, on one port for TCP and UDP."""

    def __init__(self, port: int) -> None:
        self._to = (HOST, port)
        self.tcp = 0
        self.udp = 0
        self._selector = selectors.DefaultSelector()
        self._ended = threading.Event()
        self._listener, self._datagrams = _pair_of_sockets()
        self._sockets = [self._listener, self._datagrams]
        self.port: int = self._listener.getsockname()[1]
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._datagrams, selectors.EVENT_READ, self._forward)
        self._clients: dict[tuple[str, int], socket.socket] = {}
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def connections(self) -> int:
        """Of both kinds."""
        return self.tcp + self.udp

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._selector.close()
        for each in self._sockets:
            each.close()

    def _serve(self) -> None:
        while not self._ended.is_set():
            for key, _ in self._selector.select(_POLL_S):
                key.data()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        self.tcp += 1
        server = socket.create_connection(self._to)
        self._sockets += client, server
        for one, other in ((client, server), (server, client)):
            # Bodies of tests are small: a write never waits for long.
            self._selector.register(one, selectors.EVENT_READ, _Copy(self._selector, one, other))

    def _forward(self) -> None:
        data, client = self._datagrams.recvfrom(_SIZE)
        server = self._clients.get(client)
        if server is None:
            self.udp += 1
            server = self._clients[client] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            server.connect(self._to)
            self._sockets.append(server)
            self._selector.register(
                server, selectors.EVENT_READ, lambda: self._back(server, client)
            )
        server.send(data)

    def _back(self, server: socket.socket, client: tuple[str, int]) -> None:
        with suppress(ConnectionRefusedError):  # the server has gone
            self._datagrams.sendto(server.recv(_SIZE), client)


class _Copy:
    """One direction of a TCP connection."""

    def __init__(
        self, selector: selectors.BaseSelector, one: socket.socket, other: socket.socket
    ) -> None:
        self._selector = selector
        self._one = one
        self._other = other

    def __call__(self) -> None:
        try:
            data = self._one.recv(_SIZE)
            if data:
                self._other.sendall(data)
                return
        except OSError:
            data = b""
        self._selector.unregister(self._one)
        with suppress(OSError):
            self._other.shutdown(socket.SHUT_WR)


def _pair_of_sockets() -> tuple[socket.socket, socket.socket]:
    """A TCP and a UDP socket on the same port."""
    for _ in range(64):
        tcp = socket.create_server((HOST, 0), backlog=1024)
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            udp.bind((HOST, tcp.getsockname()[1]))
        except OSError:
            tcp.close()
            udp.close()
            continue
        return tcp, udp
    raise RuntimeError("no port is free for TCP and UDP alike")
