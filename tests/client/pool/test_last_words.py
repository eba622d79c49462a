"""What a client says of a broken peer reaches that peer, however much of its own is unread."""

from __future__ import annotations

import gc
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from client.face import MakeClient
from peers import h2_chaos
from peers.authority import Authority
from peers.peer import cleartext, secure
from trilane.client import errors

LIMIT_S = 60.0
"""Ends a hang."""
PROTOCOL_ERROR, FRAME_SIZE_ERROR, CALM = 1, 6, 11
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

    @property
    def goaway(self) -> list[int]:
        """The codes of each GOAWAY."""
        rest = self.received.partition(b"SM\r\n\r\n")[2]
        codes = []
        while len(rest) >= 9:
            end = 9 + int.from_bytes(rest[:3])
            if rest[3] == h2_chaos.GOAWAY:
                codes.append(int(struct.unpack(">I", rest[13:17])[0]))
            rest = rest[end:]
        return codes


@contextmanager
def broken(
    script: Callable[[Peer], object], security: ssl.SSLContext | None = None
) -> Iterator[tuple[int, Heard]]:
    """A server that runs `script` when a request has come, and then reads to the end."""
    heard = Heard()

    def converse(peer: Peer) -> None:
        peer.settimeout(LIMIT_S)
        peer.sendall(GREETING)
        # Its preface, its SETTINGS and the request come at once.
        while b"SM\r\n\r\n" not in heard.received:
            heard.received += peer.recv(65536)
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
    return lambda peer: peer.sendall(violation + bytes(MORE))


@pytest.mark.parametrize(
    ("violation", "code"),
    [
        (PUSH, PROTOCOL_ERROR),
        (h2_chaos.frame(h2_chaos.DATA, 0, 1, bytes(1 << 20)), FRAME_SIZE_ERROR),
        (h2_chaos.frame(h2_chaos.SETTINGS, 1, 0) * 100_000, CALM),
    ],
    ids=["push", "size", "flood"],
)
def test_goaway_is_read_though_much_is_unread(
    make_client: MakeClient, violation: bytes, code: int
) -> None:
    client = make_client(versions=("h2",))
    with broken(violates(violation)) as (port, heard):
        with pytest.raises(errors.RemoteProtocolError):
            client.get(cleartext(port))
        # It does not take the caller to let go of the connection.
        assert heard.over.wait(LIMIT_S)
    assert heard.error is None
    assert heard.goaway == [code]


def test_goaway_is_read_though_its_connection_is_gone(make_client: MakeClient) -> None:
    go_on = threading.Event()

    def script(peer: Peer) -> None:
        peer.sendall(PUSH)
        assert go_on.wait(LIMIT_S)
        peer.sendall(bytes(MORE))

    client = make_client(versions=("h2",))
    with broken(script) as (port, heard):
        with pytest.raises(errors.RemoteProtocolError):
            client.get(cleartext(port))
        client.close(abort=True)
        del client
        gc.collect()
        go_on.set()
    assert heard.error is None
    assert heard.goaway == [PROTOCOL_ERROR]


def test_goaway_and_close_notify_are_read_over_tls(
    make_client: MakeClient, authority: Authority
) -> None:
    security = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf = authority.local()
    security.load_cert_chain(leaf.cert, leaf.key)
    security.set_alpn_protocols(["h2"])
    client = make_client(versions=("h2",), verify=str(authority.ca))
    with broken(violates(PUSH), security) as (port, heard):
        with pytest.raises(errors.RemoteProtocolError):
            client.get(secure(port))
        assert heard.over.wait(LIMIT_S)
    # An end without close_notify would be an SSLError.
    assert heard.error is None
    assert heard.goaway == [PROTOCOL_ERROR]
