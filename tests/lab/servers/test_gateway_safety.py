"""What `trilane gateway` lets nobody do: other sites' pages, its callers, and its servers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes

from peers import embedded, grpc_scripted
from peers.grpc_chaos import GRPC
from peers.grpc_scripted import Call, Scripted, text
from peers.peer import Peer
from peers.process import find
from repository import native
from trilane.client import AsyncClient

from .gateways import SAY, Own, gateway, named, said, said_by
from .library import PATIENCE_S
from .test_embedded_rest import refusal
from .test_upstreams import HELD, Caller, calling, silent
from .web import JSON, VERSIONS, Web

PROTO = """
syntax = "proto3";
package demo.v1;
import "google/api/annotations.proto";
message Line { string text = 1; }
service Echo {
  rpc Say(Line) returns (Line) { option (google.api.http) = { post: "/say" body: "*" }; }
  rpc Watch(Line) returns (stream Line) { option (google.api.http) = { get: "/watch/{text}" }; }
}
"""
BASH = find("bash", "it is part of every system")
GRPC_WEB = "application/grpc-web+proto"
MISDIRECTED, UNSUPPORTED, FORBIDDEN = 421, 415, 403
PAGE = "https://app.example"


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The flags with which no server is asked for its services."""
    file = tmp_path_factory.mktemp("safety") / "echo.proto"
    file.write_text(PROTO)
    return ("--proto", str(file))


@contextlib.contextmanager
def _before(server: Scripted, flags: tuple[str, ...], folder: Path) -> Iterator[Peer]:
    """A gateway for several tests."""
    peer = embedded.start(native(), folder, gateway_to=[server.base], flags=flags)
    try:
        yield peer
    finally:
        peer.stop()


@pytest.fixture(scope="module")
def server() -> Iterator[Scripted]:
    """A server that says nothing."""
    with grpc_scripted.serving(silent) as found:
        yield found


@pytest.fixture(scope="module")
def silence(
    server: Scripted, flags: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peer]:
    """A gateway to it."""
    with _before(server, flags, tmp_path_factory.mktemp("silence")) as peer:
        yield peer


@pytest.fixture(scope="module")
def echo(flags: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A gateway to a server that gives back what it gets."""
    with (
        grpc_scripted.serving(Call.answer) as found,
        _before(found, flags, tmp_path_factory.mktemp("echo")) as peer,
    ):
        yield peer


# Pages.


@pytest.mark.parametrize("listener", VERSIONS)
def test_pages_of_other_sites_get_nothing(echo: Peer, listener: str) -> None:
    with Web.open(echo, listener) as web:
        # DNS rebinding: the page's own name leads here.
        if listener != "h3":
            assert web.ask("GET", "/watch/x", host="evil.example").status == MISDIRECTED
        for path in ("/say", SAY):
            for kind in ({}, {"content_type": "text/plain"}):
                for page in ({"origin": PAGE}, {"sec_fetch_site": "cross-site"}):
                    answer = web.ask("POST", path, b'{"text":"x"}', **kind, **page)
                    assert answer.status == UNSUPPORTED, (path, kind, page)
            good = web.ask("POST", path, b'{"text":"x"}', content_type=JSON, origin=PAGE)
            assert (good.status, good.content) == (200, b'{"text":"x"}')


def _handshake(peer: Peer, *fields: str) -> int:
    """The status with which a WebSocket is answered."""
    where = urlsplit(peer.bases["h1"])
    lines = [
        "GET /watch/x HTTP/1.1",
        f"Host: {where.netloc}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        *fields,
    ]
    with socket.create_connection((where.hostname, where.port), timeout=PATIENCE_S) as raw:
        raw.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode())
        head = raw.recv(4096)
    return int(head.split()[1])


def test_pages_of_other_sites_get_no_websocket(echo: Peer) -> None:
    own_page = echo.bases["h1"].rstrip("/")
    assert _handshake(echo) == 101
    assert _handshake(echo, f"Origin: {own_page}") == 101
    assert _handshake(echo, f"Origin: {PAGE}") == FORBIDDEN
    assert _handshake(echo, "Origin: null") == FORBIDDEN


def test_hosts_and_origins_that_are_allowed(own: Own, files: tuple[str, ...]) -> None:
    flags = ("--allow-host", "shop.example", "--name", "cert.example", "--cors-origin", PAGE)
    peer = own(lambda folder: embedded.start(native(), folder, flags=flags))
    with Web.open(peer, "h1") as web:
        for host in ("shop.example:8080", "cert.example", "127.0.0.1", "a.localhost"):
            assert web.ask("GET", "/hello", host=host).status == 200
        refused = web.ask("GET", "/hello", host="evil.example")
        assert (refused.status, b"--allow-host NAME" in refused.content) == (MISDIRECTED, True)
        books = "/v1/shelves/1/books"
        # Content without a type is JSON.
        assert web.ask("POST", books, b"{}", origin=PAGE).status == 200
        other = web.ask("POST", books, b"{}", origin="https://other.example")
        assert (other.status, b"--cors-origin" in other.content) == (UNSUPPORTED, True)
    assert _handshake(peer, f"Origin: {PAGE}") != FORBIDDEN
    wrong = ("--upstream", "grpc://a:1", *files, "--allow-host", "a:1")
    assert "is not a host name" in said(*wrong, code=1)


# Callers that leave, and callers that do not read.


def _post(path: str, kind: str, content: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


LEAVING = {
    "unary": _post("/say", JSON, b'{"text":"x"}'),
    "stream": _post("/demo.v1.Echo/Watch", GRPC_WEB, text("x")),
    "connect": _post(SAY, "application/proto", b"\n\x01x"),
    "grpc-web": _post(SAY, GRPC_WEB, text("x")),
}


def test_callers_of_http1_that_leave_end_their_calls(server: Scripted, silence: Peer) -> None:
    """At once, as each is given two seconds in which it may still read (RFC 9112 §9.6)."""
    where = urlsplit(silence.bases["h1"])
    left = {}
    with contextlib.ExitStack() as callers:
        for kind, request in LEAVING.items():
            raw = socket.create_connection((where.hostname, where.port), timeout=PATIENCE_S)
            callers.enter_context(raw).sendall(request)
            call = server.next_call()
            if kind == "stream":
                # Its head is there, and nothing else.
                call.connection.h2.send_headers(call.stream, GRPC)
                call.connection.flush()
            left[call.stream] = kind
    assert len(left) == len(LEAVING)
    while left:
        reset = server.next_reset()
        assert reset.error_code == ErrorCodes.CANCEL, left
        del left[reset.stream_id]


def test_a_caller_of_http3_that_leaves_ends_its_call(server: Scripted, silence: Peer) -> None:
    async def leave() -> None:
        async with AsyncClient(versions=("h3",), verify=str(silence.ca), proxies=None) as client:
            asking = asyncio.create_task(client.get(f"{silence.bases['h3']}/watch/x"))
            await asyncio.to_thread(server.next_call)
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking
            reset = await asyncio.to_thread(server.next_reset)
            assert reset.error_code == ErrorCodes.CANCEL

    asyncio.run(leave())


def _unread(peer: Peer) -> socket.socket:
    """A call of gRPC whose answer nobody reads."""
    where = urlsplit(peer.bases["h2c"])
    h2 = H2Connection(H2Configuration(client_side=True))
    h2.initiate_connection()
    pairs = {":method": "POST", ":scheme": "http", ":authority": where.netloc, ":path": SAY}
    h2.send_headers(1, [*pairs.items(), ("content-type", "application/grpc"), ("te", "trailers")])
    h2.send_data(1, text("long"), end_stream=True)
    raw = socket.create_connection((where.hostname, where.port), timeout=PATIENCE_S)
    raw.sendall(h2.data_to_send())
    return raw


def _fill(call: Call) -> None:
    """Send as much of an endless message as the gateway has room for."""
    h2 = call.connection.h2
    while room := h2.local_flow_control_window(call.stream):
        h2.send_data(call.stream, bytes(min(room, h2.max_outbound_frame_size)))


def test_callers_that_do_not_read_hold_up_nobody(own: Own, flags: tuple[str, ...]) -> None:
    unread: list[Call] = []

    def answer(call: Call) -> None:
        h2 = call.connection.h2
        if call.content == text("long"):
            call.begin(b"\0" + (1 << 30).to_bytes(4))
            unread.append(call)
        # Those who do not read are served first.
        for one in unread:
            _fill(one)
        if call.content != text("long"):
            has_room = h2.local_flow_control_window(call.stream) >= len(call.content)
            call.answer() if has_room else call.reset(ErrorCodes.ENHANCE_YOUR_CALM)

    with grpc_scripted.serving(answer) as server:
        peer = gateway(own, server.base, flags=flags)
        slow = []
        for _ in range(4):
            slow.append(_unread(peer))
            server.next_call()
        with calling(peer) as channel:
            assert Caller(channel).ask() == "x"
        for raw in slow:
            raw.close()


def test_one_caller_has_so_many_calls_at_a_time(own: Own, files: tuple[str, ...]) -> None:
    with named("a") as (server,):
        peer = gateway(own, server.url, flags=(*files, "--calls-per-caller", "2"))
        with calling(peer) as channel, Web.open(peer, "h1") as web:
            held = [Caller(channel).begin(HELD) for _ in range(2)]
            for _ in held:
                assert server.arrived.acquire(timeout=PATIENCE_S)
            assert "2 calls under way" in refusal(web.ask("GET", "/say/x"), 429, 8)
            server.let_go.set()
            for call in held:
                call.result(PATIENCE_S)
            assert said_by(web) == "a"


def test_one_caller_leaves_connections_to_others(own: Own, files: tuple[str, ...]) -> None:
    # Of 256 descriptors 64 are the gateway's own.
    limited = [BASH, "-c", 'ulimit -n 256 && exec "$@"', "-", native()]
    with named("a") as (server,), contextlib.ExitStack() as stack:
        peer = own(
            lambda folder: embedded.start(limited, folder, gateway_to=[server.url], flags=files)
        )
        where = urlsplit(peer.bases["h1"])
        address = (where.hostname, where.port)
        greedy = [
            stack.enter_context(socket.create_connection(address, timeout=PATIENCE_S))
            for _ in range(200)
        ]
        assert all(raw.recv(1) == b"" for raw in greedy[96:])
        with socket.create_connection(address, PATIENCE_S, ("127.0.0.2", 0)) as other:
            other.sendall(b"GET /say/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert other.recv(4096).startswith(b"HTTP/1.1 200")
        told = "127.0.0.1 has 96 connections, the most that one caller may have"
        assert peer.process.log.read_text().count(told) == 1


# Servers.


def _answer_with(
    *fields: tuple[str, str], trailers: list[tuple[str, str]]
) -> Callable[[Call], None]:
    def answer(call: Call) -> None:
        h2 = call.connection.h2
        h2.send_headers(call.stream, [*GRPC, *fields])
        if trailers == [("grpc-status", "0")]:
            h2.send_data(call.stream, call.content)
        h2.send_headers(call.stream, trailers, end_stream=True)

    return answer


def test_a_server_says_nothing_to_browsers(own: Own, flags: tuple[str, ...]) -> None:
    never = {
        "access-control-allow-origin": "*",
        "access-control-allow-credentials": "true",
        "set-cookie": "session=theirs",
        "location": "https://evil.example",
        "alt-svc": 'h3=":1"',
    }
    answer = _answer_with(*never.items(), ("x-own", "1"), trailers=[("grpc-status", "0")])
    with (
        grpc_scripted.serving(answer) as server,
        Web.open(gateway(own, server.base, flags=flags), "h1") as web,
    ):
        asked = {"application/proto": b"\n\x01x", GRPC_WEB: text("x"), JSON: b'{"text":"x"}'}
        for kind, content in asked.items():
            found = web.ask("POST", SAY, content, content_type=kind)
            assert found.status == 200
            assert not never.keys() & found.fields.keys(), kind
            assert "1" in (found.fields.get("x-own"), found.fields.get("grpc-metadata-x-own"))


def test_who_asks_is_said_once_and_cannot_be_taken_away(own: Own, flags: tuple[str, ...]) -> None:
    with (
        grpc_scripted.serving(Call.answer) as server,
        Web.open(gateway(own, server.base, flags=flags), "h1") as web,
    ):
        mine = {"authorization": "Bearer mine", "connection": "authorization"}
        for kind, content in ((GRPC_WEB, text("x")), (JSON, b'{"text":"x"}')):
            fields = {**mine, "grpc_metadata_authorization": "Bearer other"}
            assert web.ask("POST", SAY, content, content_type=kind, **fields).status == 200
            assert server.next_call().fields["authorization"] == "Bearer mine"


def test_an_error_before_the_first_message_of_a_stream_is_a_status(
    own: Own, flags: tuple[str, ...]
) -> None:
    # "café" in Latin-1, which is not UTF-8.
    trailers = [("grpc-status", "7"), ("grpc-message", "caf%E9 is closed")]
    with (
        grpc_scripted.serving(_answer_with(trailers=trailers)) as server,
        Web.open(gateway(own, server.base, flags=flags), "h1") as web,
    ):
        for method, path in (("GET", "/watch/x"), ("POST", "/say")):
            content = b"{}" if method == "POST" else b""
            answer = web.ask(method, path, content, content_type=JSON)
            assert refusal(answer, 403, 7) == "caf\N{REPLACEMENT CHARACTER} is closed"
