"""Answers of `grpc_chaos` over HTTP/3: what is scored there is scored here alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pylsqpack
import pytest

from client.wire import h3_chaos
from peers import grpc_chaos

from .grpc_calls import PROTO_FLAGS, UNARY
from .loading import Run, load
from .test_grpc_chaos import check

if TYPE_CHECKING:
    from peers.authority import Authority


def section(stream: int, fields: grpc_chaos.Fields) -> bytes:
    """A HEADERS frame; an encoder of its own has no dynamic table."""
    pairs = [(name.encode(), value.encode()) for name, value in fields]
    _, block = pylsqpack.Encoder().encode(stream, pairs)
    return h3_chaos.frame(h3_chaos.HEADERS, block)


def scripted(answer: grpc_chaos.Answer) -> h3_chaos.Script:
    def script(server: h3_chaos.Server, stream: int) -> None:
        server.send(stream, section(stream, answer.head or grpc_chaos.GRPC))
        for piece in answer.pieces:
            server.send(stream, h3_chaos.frame(h3_chaos.DATA, piece))
        if answer.trailers is not None:
            server.send(stream, section(stream, answer.trailers))
        server.send(stream, b"", end=True)

    return script


def call(answer: grpc_chaos.Answer, authority: Authority) -> Run:
    leaf = authority.local()
    with h3_chaos.serve(scripted(answer), leaf) as port:
        return load(
            *("--grpc", UNARY.name, "-b", UNARY.body, *PROTO_FLAGS, "--h3"),
            *("--cacert", str(leaf.ca), "-c", "1", "-m", "4", "-n", "20"),
            f"https://localhost:{port}/",
        )


@pytest.mark.parametrize(
    "name", ["status 5 after a message", "no trailers", "message longer than the content"]
)
def test_bad(authority: Authority, name: str) -> None:
    case = grpc_chaos.BAD[name]
    assert case.answer is not None
    check(call(case.answer, authority), case)


def test_good(authority: Authority) -> None:
    report = call(grpc_chaos.ODD, authority).good
    assert report["grpc"]["status"] == {"OK": 20}
    assert report["grpc"]["messages"] == {"sent": 20, "received": 20}
