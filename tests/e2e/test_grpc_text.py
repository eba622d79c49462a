"""The report of `trilane load --grpc` for people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .grpc_calls import LOOK_UP, PROTO_FLAGS, UNARY, WATCH, Calling
from .loading import Run, load_text

if TYPE_CHECKING:
    from peers.running import Peers


def text(peers: Peers, calling: Calling, *arguments: str, body: str | None = None) -> Run:
    return load_text(
        *("--grpc", calling.name, "-b", calling.body if body is None else body, *PROTO_FLAGS),
        *("--h2c", "-v", "-c", "1", *arguments, peers["grpc-python"].bases["h2c"]),
    )


def lines(run: Run, heading: str) -> list[str]:
    """The lines of a paragraph, blanks as one."""
    at = run.out.index(f"\n{heading}") + 1
    return [" ".join(line.split()) for line in run.out[at:].split("\n\n")[0].splitlines()]


def test_a_unary_call(peers: Peers) -> None:
    run = text(peers, UNARY, "-n", "40")
    assert run.code == 0, run
    assert "40 started = 40 ok + 0 failed + 0 abandoned" in run.out
    assert lines(run, "gRPC") == [
        f"gRPC {UNARY.name} (unary), described by --proto",
        "status OK × 40",
        "messages 40 sent, 40 received",
        "mode wire: encoded once, responses counted by their frames",
    ]
    assert lines(run, "Status codes") == ["Status codes", "200 40"]
    assert "Errors none" in " ".join(run.out.split())


def test_a_conversation_says_how_long_a_message_takes(peers: Peers) -> None:
    run = text(peers, LOOK_UP, "-n", "20")
    found = lines(run, "gRPC")
    assert found[0] == f"gRPC {LOOK_UP.name} (bidi streaming), described by --proto"
    assert found[1:3] == ["status OK × 20", "messages 60 sent, 60 received"]
    assert any(re.search(r"p50 +[0-9.]+ (µs|ms|s)", line) for line in found), found


def test_the_price_of_encoding_and_decoding(peers: Peers) -> None:
    found = lines(text(peers, UNARY, "-n", "40", "--grpc-mode", "codec"), "gRPC")
    (mode,) = (line for line in found if line.startswith("mode"))
    assert mode.startswith("mode codec")
    assert re.search(r"[0-9.]+ µs", mode), mode


def test_deadline_and_compression_are_said(peers: Peers) -> None:
    found = " ".join(lines(text(peers, UNARY, "-n", "4", "--deadline", "30s", "--gzip"), "gRPC"))
    assert "deadline 30.000 s for each call" in found
    assert "(gzip)" in found


def test_calls_that_fail_are_named(peers: Peers) -> None:
    run = text(peers, UNARY, "-n", "40", body='{"name": "shelves/1/books/99999"}')
    assert run.code == 4, run
    assert "40 started = 0 ok + 40 failed + 0 abandoned" in run.out
    assert "status NOT_FOUND × 40" in lines(run, "gRPC")
    assert "NOT_FOUND" in " ".join(lines(run, "Errors"))
    assert "shelves/1/books/99999" in " ".join(lines(run, "Errors"))
    assert "INVALID" in run.out


def test_a_stream_of_the_server(peers: Peers) -> None:
    found = lines(text(peers, WATCH, "-n", "20"), "gRPC")
    assert found[1:3] == ["status OK × 20", "messages 20 sent, 140 received"]
