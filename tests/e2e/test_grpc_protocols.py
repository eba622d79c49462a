"""`trilane load --grpc-protocol`: gRPC-Web and Connect, with connect-go and the embedded server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from peers import chaos, grpc_chaos, h2_chaos
from peers.grpc_chaos import headers, message
from peers.h2_chaos import DATA, frame

from .grpc_calls import IMPORT, LOOK_UP, PROTO_FLAGS, UNARY, WATCH, Calling, example, failed, grpc
from .loading import Run, load, load_text

if TYPE_CHECKING:
    from peers.running import Peers

# Protocol, server and version.
WAYS = [
    *[("grpc-web", "embedded", listener) for listener in ("h1", "h1s", "h2c", "h2", "h3")],
    *[
        (protocol, "connect-go", listener)
        for protocol in ("grpc-web", "connect")
        for listener in ("h1", "h1s", "h2c", "h2", "h3")
    ],
]
every_way = pytest.mark.parametrize(
    ("protocol", "name", "listener"), WAYS, ids=["-".join(way) for way in WAYS]
)
_MISSING = '{"name": "shelves/3/books/99999"}'
_ENDLESS = json.dumps({"parent": "shelves/3", "count": 1_000_000, "interval": "0.005s"})


def call(peers: Peers, way: tuple[str, str, str], calling: Calling, *arguments: str) -> Run:
    """Some calls in that protocol."""
    protocol, name, listener = way
    streams = [] if listener.startswith("h1") else ["-m", "2"]
    span = ["--grpc-protocol", protocol, "-c", "2", *streams, *arguments]
    return grpc(peers[name], listener, calling, *span)


@every_way
@pytest.mark.parametrize("mode", ["wire", "codec"])
@pytest.mark.parametrize(
    "calling", [UNARY, WATCH, IMPORT, LOOK_UP], ids=lambda calling: calling.kind
)
def test_calls_go_well(
    peers: Peers, protocol: str, name: str, listener: str, mode: str, calling: Calling
) -> None:
    way = (protocol, name, listener)
    run = call(peers, way, calling, "-n", "12", "--grpc-mode", mode)
    if listener.startswith("h1") and calling.kind in {IMPORT.kind, LOOK_UP.kind}:
        # A stream to the server needs both directions at once.
        assert run.code == 2, run
        assert "HTTP/2 or HTTP/3" in run.message
        return
    found = run.good["grpc"]
    assert found["protocol"] == protocol
    assert found["status"] == {"OK": 12}
    assert found["messages"] == {
        "sent": 12 * len(calling.messages),
        "received": 12 * calling.received,
    }
    assert run.good["requests"]["ok"] == 12


@every_way
def test_statuses_are_found(peers: Peers, protocol: str, name: str, listener: str) -> None:
    way = (protocol, name, listener)
    calling = Calling("GetBook", "unary", (json.loads(_MISSING),), 1)
    report = failed(call(peers, way, calling, "-n", "12"))
    assert report["grpc"]["status"] == {"NOT_FOUND": 12}
    assert "NOT_FOUND" in example(report)
    good = call(peers, way, calling, "-n", "12", "--expect-status", "NOT_FOUND").good
    assert good["requests"]["ok"] == 12
    if not listener.startswith("h1"):
        last = (*LOOK_UP.messages, json.loads(_MISSING))
        stream = Calling("LookUpBooks", "bidi_streaming", last, 3)
        report = failed(call(peers, way, stream, "-n", "12"))
        assert report["grpc"]["status"] == {"NOT_FOUND": 12}
        assert report["grpc"]["messages"] == {"sent": 48, "received": 36}


@every_way
def test_a_deadline_passes(peers: Peers, protocol: str, name: str, listener: str) -> None:
    slow = {"parent": "shelves/3", "count": 3, "interval": "20s"}
    calling = Calling("WatchBooks", "server_streaming", (slow,), 3)
    run = call(peers, (protocol, name, listener), calling, "-n", "4", "--deadline", "300ms")
    assert failed(run)["grpc"]["status"] == {"DEADLINE_EXCEEDED": 4}


@every_way
def test_messages_are_compressed(peers: Peers, protocol: str, name: str, listener: str) -> None:
    fields = {"parent": "shelves/9", "book": {"title": "x", "labels": ["x" * 1000] * 5}}
    calling = Calling("CreateBook", "unary", (fields,), 1)
    for mode in ("wire", "codec"):
        run = call(
            peers, (protocol, name, listener), calling, "-n", "4", "--gzip", "--grpc-mode", mode
        )
        assert run.good["grpc"]["status"] == {"OK": 4}
        assert run.good["bytes"]["body_sent"] < 4 * 2500


@every_way
def test_a_stream_that_goes_on_is_a_result(
    peers: Peers, protocol: str, name: str, listener: str
) -> None:
    calling = Calling("WatchBooks", "server_streaming", (json.loads(_ENDLESS),), 1)
    span = ["-d", "500ms", "--warmup", "0s"]
    run = call(peers, (protocol, name, listener), calling, *span)
    assert run.good["requests"]["ok"] == run.good["requests"]["failed"] == 0
    assert run.good["grpc"]["messages"]["received"] > 4


def bad(protocol: str, calling: Calling, script: chaos.Script, *arguments: str) -> Run:
    """Calls to a server that is wrong."""
    with chaos.serve(script) as server:
        return load(
            *("--grpc", calling.name, "-b", calling.body, *PROTO_FLAGS, "--h2c"),
            *("--grpc-protocol", protocol, "-c", "1", "-n", "4", *arguments, server.base + "/"),
        )


def answer(kind: str, *pieces: bytes, status: str = "200") -> chaos.Script:
    """A response of these pieces of content."""

    def on_request(stream: int, writer: object) -> None:
        head = [(":status", status), ("content-type", kind)]
        writer.write(headers(stream, head))  # type: ignore[attr-defined]
        for at, piece in enumerate(pieces, 1):
            writer.write(frame(DATA, at == len(pieces), stream, piece))  # type: ignore[attr-defined]

    return h2_chaos.server(on_request)


_WEB, _STREAM = "application/grpc-web+proto", "application/connect+proto"
_END = message(b"{}", flag=2)


@pytest.mark.parametrize(
    ("protocol", "calling", "script", "kind", "told"),
    [
        ("grpc-web", UNARY, answer(_WEB, message()), "protocol", "message of trailers"),
        (
            "grpc-web",
            UNARY,
            answer(_WEB, message(), message(b"grpc-status: 0\r\n", flag=0x80) + message()),
            "protocol",
            "behind the one that ends",
        ),
        ("grpc-web", UNARY, answer("application/grpc", message()), "protocol", "grpc-web"),
        ("grpc-web", UNARY, answer(_WEB, message(flag=2)), "protocol", "0x02"),
        ("connect", WATCH, answer(_STREAM, message()), "protocol", "EndStreamResponse"),
        ("connect", WATCH, answer(_STREAM, message(b"no", flag=2)), "protocol", "EndStream"),
        ("connect", WATCH, answer(_STREAM, _END + message()), "protocol", "behind"),
        ("connect", UNARY, answer("text/html", b"<p>"), "protocol", "text/html"),
        ("connect", UNARY, answer("text/html", b"<p>", status="503"), "status", "503"),
        (
            "connect",
            UNARY,
            answer("application/json", b'{"code": "aborted", "message": "again"}', status="409"),
            "status",
            "ABORTED: again",
        ),
    ],
)
def test_what_breaks_the_protocol_is_named(
    protocol: str, calling: Calling, script: chaos.Script, kind: str, told: str
) -> None:
    for mode in ("wire", "codec"):
        report = failed(bad(protocol, calling, script, "--grpc-mode", mode), kind)
        assert told in example(report, kind)
        assert sum(report["grpc"]["status"].values()) == 4


def test_a_bare_message_may_be_too_large() -> None:
    script = answer("application/proto", b"\x0a\x62" + b"x" * 98)
    assert bad("connect", UNARY, script, "--max-message", "100").good["requests"]["ok"] == 4
    report = failed(bad("connect", UNARY, script, "--max-message", "99"), "limit")
    assert report["grpc"]["status"] == {"RESOURCE_EXHAUSTED": 4}


def test_usage() -> None:
    url = "http://127.0.0.1:9/"
    for flags, told in (
        (["--grpc-protocol", "connect"], "--grpc"),
        (["--grpc", UNARY.name, *PROTO_FLAGS, "--grpc-protocol", "twirp"], "grpc-web"),
    ):
        run = load_text(url, *flags)
        assert run.code == 2, run
        assert told in run.err


def test_the_message_of_a_unary_call_has_no_prefix() -> None:
    seen: list[int] = []

    def on_request(stream: int, writer: object) -> None:
        head = [(":status", "200"), ("content-type", "application/proto")]
        writer.write(headers(stream, head) + frame(DATA, 1, stream, grpc_chaos.BOOK))  # type: ignore[attr-defined]

    script = h2_chaos.server(
        on_request, whole=True, on_content=lambda _stream, length: seen.append(length)
    )
    run = bad("connect", UNARY, script)
    assert run.good["requests"]["ok"] == 4
    assert seen == [2 + len("shelves/3/books/9")] * 4
