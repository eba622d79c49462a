"""Servers that break HTTP/2 and do not stop sending: what their clients tell them of it."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from . import h2_chaos
from .authority import Leaf

LIMIT_S = 60.0
"""Ends a hang."""
PROTOCOL_ERROR, FRAME_SIZE_ERROR, CALM = 1, 6, 11
"""Codes of HTTP/2 (RFC 9113 §7)."""
GREETING = h2_chaos.frame(h2_chaos.SETTINGS, 0, 0)
PUSH = h2_chaos.frame(h2_chaos.PUSH_PROMISE, 4, 1, b"\0\0\0\2\x88")
MORE = 8 << 20
"""Bytes that follow the violation: no buffer has room for them."""

Peer = socket.socket | ssl.SSLSocket


class Heard:
    """What a broken server heard of its client."""

    def __init__(self) -> None:
        self.received = b""
        self.error: OSError | None = None
        self.over = threading.Event()

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Type and payload of each frame that has come whole."""
        rest = self.received.partition(b"SM\r\n\r\n")[2]
        while len(rest) >= 9 and len(rest) >= (end := 9 + int.from_bytes(rest[:3])):
            yield rest[3], rest[9:end]
            rest = rest[end:]

    @property
    def asked(self) -> bool:
        """Whether a request has come."""
        return any(kind == h2_chaos.HEADERS for kind, _ in self.frames())

    @property
    def goaway(self) -> list[int]:
        """The codes of each GOAWAY."""
        payloads = [payload for kind, payload in self.frames() if kind == h2_chaos.GOAWAY]
        return [int(struct.unpack(">I", payload[4:8])[0]) for payload in payloads]


def security(leaf: Leaf) -> ssl.SSLContext:
    """TLS for a server that offers HTTP/2 alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(leaf.cert, leaf.key)
    context.set_alpn_protocols(["h2"])
    return context


@contextmanager
def broken(
    script: Callable[[Peer], object], security: ssl.SSLContext | None = None
) -> Iterator[tuple[int, Heard]]:
    """A server that runs `script` when a request has come, and then reads to the end."""
    heard = Heard()

    def converse(peer: Peer) -> None:
        peer.settimeout(LIMIT_S)
        peer.sendall(GREETING)
        while not heard.asked and (part := peer.recv(65536)):
            heard.received += part
        script(peer)
        while part := peer.recv(65536):
            heard.received += part

    def serve() -> None:
        try:
            peer: Peer = listener.accept()[0]
            with peer:
                if security is not None:
                    assert isinstance(peer, socket.socket)
                    peer = security.wrap_socket(peer, server_side=True)
                with peer:
                    converse(peer)
        except OSError as error:
            heard.error = error
        heard.over.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield int(listener.getsockname()[1]), heard
        finally:
            thread.join(LIMIT_S)
            assert not thread.is_alive()


def violates(violation: bytes) -> Callable[[Peer], object]:
    """The script that sends a violation, and much more behind it."""
    return lambda peer: peer.sendall(violation + bytes(MORE))


VIOLATIONS = {
    "push": (PUSH, PROTOCOL_ERROR),
    "size": (h2_chaos.frame(h2_chaos.DATA, 0, 1, bytes(1 << 20)), FRAME_SIZE_ERROR),
    "flood": (h2_chaos.frame(h2_chaos.SETTINGS, 1, 0) * 100_000, CALM),
}
"""Violations, and the code that ends the connection."""
