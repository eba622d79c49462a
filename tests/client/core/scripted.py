"""A server on a real socket that does what a test says."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Script = Callable[[socket.socket], None]


@contextmanager
def serving(
    script: Script, family: int = socket.AF_INET, path: str = "", port: int = 0
) -> Iterator[int]:
    """Run `script` on each accepted connection, one at a time; gives the port."""
    with socket.socket(family) as listener:
        listener.bind(path or ("127.0.0.1", port))
        listener.listen()
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                # A client that leaves early is part of some tests.
                with peer, suppress(OSError):
                    peer.settimeout(20)
                    script(peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield 0 if path else listener.getsockname()[1]
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(20)
            assert not thread.is_alive()


def until_head_ends(peer: socket.socket) -> bytes:
    """Read a request without content."""
    received = b""
    while not received.endswith(b"\r\n\r\n"):
        part = peer.recv(65536)
        if not part:
            return received
        received += part
    return received


def until_closed(peer: socket.socket) -> None:
    """Say nothing until the client leaves."""
    while peer.recv(65536):
        pass


def forward(peer: socket.socket, port: int) -> None:
    """Carry bytes both ways between `peer` and a port until one of them ends."""
    with (
        socket.create_connection(("127.0.0.1", port)) as other,
        selectors.DefaultSelector() as ready,
    ):
        ready.register(peer, selectors.EVENT_READ, other)
        ready.register(other, selectors.EVENT_READ, peer)
        while True:
            for key, _ in ready.select(20):
                source: socket.socket = peer if key.fd == peer.fileno() else other
                part = source.recv(65536)
                if not part:
                    return
                key.data.sendall(part)
