"""Peers that are not nice, over HTTP/2 and HTTP/3: each ends in a counted, named error, in bounded
memory (`loading.check`). What HTTP/1.1 is sent, and what is HTTP/2's alone, is in test_chaos."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Self, TypeAlias

import pytest
from aioquic._buffer import Buffer
from aioquic.buffer import encode_uint_var
from aioquic.quic.packet import QuicPacketType, encode_quic_retry, pull_quic_header

from client.wire import h3_chaos
from peers import chaos, h2_chaos
from peers.h2_chaos import DATA, HEADERS, frame
from peers.process import HOST

from .loading import Report, load
from .test_chaos import names_the_failure, span

if TYPE_CHECKING:
    from peers.authority import Authority, Leaf
    from peers.running import Peers

END_HEADERS = 4
BLOCK = b"x" * 16_384
# HPACK: index 8 of the static table is `:status: 200` (RFC 7541, Appendix A).
OK = b"\x88"
INTERNAL_ERROR, REJECTED = 0x102, 0x10B


def h2_endless(first: bytes, again: bytes) -> chaos.Script:
    """Answers the first request of a connection with `first` and then `again` for ever."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = asyncio.Event()
        requests = h2_chaos.server(lambda _stream, _writer: asked.set())
        serving = asyncio.ensure_future(requests(reader, writer))
        try:
            await asked.wait()
            writer.write(first)
            while not serving.done():
                writer.write(again)
                await writer.drain()
            await serving
        finally:
            serving.cancel()

    return script


def h2_then_reset(answer: Callable[[int], bytes]) -> chaos.Script:
    """Answers, and resets the connection when that has left."""

    def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(stream))
        asyncio.get_running_loop().call_later(0.02, chaos.reset, writer)

    return h2_chaos.server(on_request)


# What has to do with sockets, time and memory; what servers say is in the conformance suite.
# Name of the misbehaviour → script and the error kinds (DESIGN §5) that may name it.
H2: dict[str, tuple[chaos.Script, set[str]]] = {
    "reset mid-body": (
        h2_then_reset(
            lambda stream: frame(HEADERS, END_HEADERS, stream, OK) + frame(DATA, 0, stream, b"hel")
        ),
        {"reset", "closed", "body"},
    ),
    "endless body": (
        h2_endless(frame(HEADERS, END_HEADERS, 1, OK), frame(DATA, 0, 1, BLOCK)),
        {"timeout", "protocol", "limit"},
    ),
    "endless field sections": (
        h2_endless(
            frame(HEADERS, END_HEADERS, 1, OK),
            frame(HEADERS, END_HEADERS, 1, b"\x00\x01a\x7f\x81\x7f" + b"b" * 16_000),
        ),
        {"limit", "protocol"},
    ),
}


@pytest.mark.parametrize("name", H2)
def test_h2(name: str) -> None:
    script, kinds = H2[name]
    with chaos.serve(script) as server:
        run = load("--h2c", "-c", "2", "-m", "1", *span(kinds), server.base + "/")
    names_the_failure(run, kinds)


def h3_says(data: bytes, *, end: bool = False) -> h3_chaos.Script:
    return lambda server, stream: server.send(stream, data, end)


def h3_endless(first: bytes, again: bytes, pause_s: float = 0.001) -> h3_chaos.Script:
    """Answers with `first` and then `again` for ever, until the client wants no more."""

    def script(server: h3_chaos.Server, stream: int) -> None:
        loop = asyncio.get_running_loop()

        def more() -> None:
            # The stream may have been stopped, and the connection closed.
            with contextlib.suppress(AssertionError):
                server.send(stream, again)
                server.transmit()
                loop.call_later(pause_s, more)

        server.send(stream, first)
        more()

    return script


HEAD = h3_chaos.frame(h3_chaos.HEADERS, h3_chaos.OK)
# The beginning of a HEADERS frame of 1 GiB, and a field with a literal name (RFC 9204 §4.5.6).
HUGE_HEAD = b"\x01" + encode_uint_var(1 << 30) + h3_chaos.OK
FIELD = b"\x21a\x7f\x81\x7f" + b"b" * 16_512

H3: dict[str, tuple[h3_chaos.Script, set[str]]] = {
    "silent": (lambda *_: None, {"timeout"}),
    "connection closed": (
        lambda server, _stream: server.end(INTERNAL_ERROR),
        {"closed", "protocol", "reset"},
    ),
    "endless head": (h3_endless(HUGE_HEAD, FIELD * 2), {"limit", "protocol"}),
    "endless body": (
        h3_endless(HEAD, h3_chaos.frame(h3_chaos.DATA, BLOCK)),
        {"timeout", "limit"},
    ),
    "endless unknown frames": (
        h3_endless(HEAD, h3_chaos.frame(0x21, BLOCK)),
        {"limit", "protocol", "timeout"},
    ),
}


@pytest.mark.parametrize("name", H3)
def test_h3(leaf: Leaf, name: str) -> None:
    script, kinds = H3[name]
    with h3_chaos.serve(script, leaf) as port:
        arguments = ["-c", "2", "-m", "1", *span(kinds), "--cacert", str(leaf.ca)]
        run = load("--h3", *arguments, f"https://localhost:{port}/")
    names_the_failure(run, kinds)


def each_tenth(code: int) -> h3_chaos.Script:
    served = 0

    def script(server: h3_chaos.Server, stream: int) -> None:
        nonlocal served
        served += 1
        if served % 10 == 0:
            server.reset(stream, code)
        else:
            server.send(stream, h3_chaos.response(), end=True)

    return script


def over_h3(script: h3_chaos.Script, leaf: Leaf, *arguments: str) -> Report:
    with h3_chaos.serve(script, leaf) as port:
        fixed = ["--h3", "--cacert", str(leaf.ca), "--timeout", "60s"]
        return load(*fixed, *arguments, f"https://localhost:{port}/").checked


def test_rejected_requests_are_sent_again_over_h3(leaf: Leaf) -> None:
    report = over_h3(each_tenth(REJECTED), leaf, "-c", "1", "-m", "4", "-n", "90")
    assert report["requests"]["ok"] == report["requests"]["started"] == 90
    assert report["requests"]["retried"] == 9


def test_reset_streams_fail_alone_over_h3(leaf: Leaf) -> None:
    report = over_h3(each_tenth(INTERNAL_ERROR), leaf, "-c", "1", "-m", "4", "-n", "100")
    assert report["requests"]["ok"] == 90
    assert report["requests"]["failures"]["reset"]["count"] == 10
    assert report["connections"]["lost"] == {}


def test_goaway_after_each_few_requests_loses_nothing_over_h3(leaf: Leaf) -> None:
    class Server(h3_chaos.Server):
        served = 0

    def script(server: h3_chaos.Server, stream: int) -> None:
        assert isinstance(server, Server)
        server.served += 1
        if server.served > 10:
            server.reset(stream, REJECTED)
            return
        server.send(stream, h3_chaos.response(), end=True)
        if server.served == 10:
            goaway = h3_chaos.frame(h3_chaos.GOAWAY, encode_uint_var(stream + 4))
            server.send(h3_chaos.CONTROL, goaway)

    with h3_chaos.serve(script, leaf, Server) as port:
        arguments = ["-c", "2", "-m", "4", "-n", "200", "--cacert", str(leaf.ca)]
        report = load("--h3", *arguments, f"https://localhost:{port}/").checked
    assert report["requests"]["ok"] == report["requests"]["started"] == 200
    assert report["connections"]["established"] >= 20


def test_certificates_over_h3(authority: Authority) -> None:
    for leaf, word in ((authority.expired(), "expired"), (authority.wrong_name(), "localhost")):
        with h3_chaos.serve(h3_says(b""), leaf) as port:
            arguments = ["-c", "2", "--cacert", str(authority.ca)]
            run = load("--h3", *arguments, f"https://localhost:{port}/")
        assert run.code == 1, run
        assert word in run.message


def test_a_protocol_that_is_refused_over_h3(leaf: Leaf) -> None:
    with h3_chaos.serve(h3_says(b""), leaf, alpn="hq-interop") as port:
        run = load("--h3", "-c", "2", "--cacert", str(leaf.ca), f"https://localhost:{port}/")
    assert run.code == 1, run
    assert "HTTP/3" in run.message or "ALPN" in run.message, run


Address: TypeAlias = tuple[str, int]
OnDatagram: TypeAlias = Callable[[socket.socket, bytes, Address], None]


class Datagrams:
    """A thread that does with each datagram what it is told, until the context ends.

    So it does when none has come for a moment, which `silence_s` says in seconds.
    """

    def __init__(
        self,
        on_datagram: OnDatagram,
        on_silence: Callable[[socket.socket], None] = lambda _: None,
        silence_s: float = 0.1,
    ) -> None:
        self._on_datagram = on_datagram
        self._on_silence = on_silence
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((HOST, 0))
        self.socket.settimeout(silence_s)
        self.port = int(self.socket.getsockname()[1])
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._done.is_set():
            with contextlib.suppress(ConnectionError):
                try:
                    datagram, sender = self.socket.recvfrom(65_536)
                except TimeoutError:
                    self._on_silence(self.socket)
                else:
                    self._on_datagram(self.socket, datagram, sender)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.socket.close()


def test_a_server_that_asks_to_retry_for_ever() -> None:
    """A client takes one Retry for each connection (RFC 9000 §17.2.5.2)."""
    asked = 0

    def on_datagram(own: socket.socket, datagram: bytes, sender: Address) -> None:
        nonlocal asked
        header = pull_quic_header(Buffer(data=datagram), host_cid_length=8)
        if header.packet_type != QuicPacketType.INITIAL or header.version is None:
            return
        asked += 1
        retry = encode_quic_retry(
            version=header.version,
            source_cid=asked.to_bytes(8),
            destination_cid=header.source_cid,
            original_destination_cid=header.destination_cid,
            retry_token=b"again",
        )
        own.sendto(retry, sender)

    with Datagrams(on_datagram) as server:
        url = f"https://{HOST}:{server.port}/"
        run = load("--h3", "-c", "1", "-k", "--connect-timeout", "3s", url)
    assert run.code == 1, run
    assert "QUIC" in run.message
    assert asked >= 2


def damaged(datagram: bytes, number: int) -> Iterator[bytes]:
    """Every seventh is damaged, every fifth comes twice."""
    if number % 7 == 0:
        at = number % len(datagram)
        yield datagram[:at] + bytes([datagram[at] ^ 0xFF]) + datagram[at + 1 :]
    else:
        yield datagram
        if number % 5 == 0:
            yield datagram


def test_datagrams_that_are_damaged_doubled_and_late(peers: Peers) -> None:
    """And every third is overtaken by the next, where one follows soon.

    Nothing of it is the application's business.
    """
    peer = peers["embedded"]
    server = (HOST, int(peer.bases["h3"].rpartition(":")[2].rstrip("/")))
    count = 0
    client: Address | None = None
    held: list[tuple[bytes, Address]] = []

    def release(own: socket.socket) -> None:
        for late in reversed(held):
            own.sendto(*late)
        held.clear()

    def on_datagram(own: socket.socket, datagram: bytes, sender: Address) -> None:
        nonlocal count, client
        count += 1
        if sender != server:
            client = sender
        assert client is not None
        to = client if sender == server else server
        held.extend((each, to) for each in damaged(datagram, count))
        if count % 3:
            release(own)

    with Datagrams(on_datagram, release, silence_s=0.01) as relay:
        url = f"https://localhost:{relay.port}/hello"
        relayed = ["--connect-to", f"{HOST}:{relay.port}", "--timeout", "60s", "-k"]
        shape = ["-c", "1", "-m", "8", "-n", "400", "--check-body"]
        report = load("--h3", *relayed, *shape, url).checked
    assert report["requests"]["ok"] == report["requests"]["started"] == 400
    assert report["bytes"]["retransmits"] > 0
    assert count > 100
