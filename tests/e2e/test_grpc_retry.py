"""Calls that the server provably did not process are made again, message by message."""

from __future__ import annotations

import asyncio
import struct

import pytest

from peers import chaos, grpc_chaos, h2_chaos
from peers.grpc_chaos import GRPC, headers, message
from peers.h2_chaos import DATA, GOAWAY, RST_STREAM, frame

from .grpc_calls import IMPORT, PROTO_FLAGS, UNARY, Calling
from .loading import Run, load

_COUNT = 200
_REFUSED, _NO_ERROR = 7, 0


def answer(stream: int) -> bytes:
    """A good response of one message."""
    return (
        headers(stream, GRPC)
        + frame(DATA, 0, stream, message())
        + headers(stream, [("grpc-status", "0")], end=True)
    )


def run(script: chaos.Script, calling: Calling) -> Run:
    with chaos.serve(script) as server:
        return load(
            *("--grpc", calling.name, "-b", calling.body, *PROTO_FLAGS, "--h2c"),
            *("-c", "2", "-m", "4", "-n", str(_COUNT), server.base),
        )


def all_went_well(found: Run) -> None:
    requests = found.good["requests"]
    assert requests["ok"] == requests["started"] == _COUNT
    assert requests["retried"] > 0
    assert found.good["grpc"]["status"] == {"OK": _COUNT}
    assert found.good["grpc"]["messages"]["received"] == _COUNT


@pytest.mark.parametrize("calling", [UNARY, IMPORT], ids=lambda calling: calling.kind)
def test_refused_streams(calling: Calling) -> None:
    turns = iter(range(1_000_000))

    def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
        refused = next(turns) % 3 == 0
        writer.write(
            frame(RST_STREAM, 0, stream, struct.pack(">I", _REFUSED)) if refused else answer(stream)
        )

    all_went_well(run(h2_chaos.server(on_request), calling))


@pytest.mark.parametrize("calling", [UNARY, IMPORT], ids=lambda calling: calling.kind)
def test_servers_that_send_their_clients_away(calling: Calling) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = 0

        def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
            nonlocal served
            served += 1
            if served <= 10:
                writer.write(answer(stream))
            if served == 10:
                writer.write(frame(GOAWAY, 0, 0, struct.pack(">II", stream, _NO_ERROR)))

        await h2_chaos.server(on_request)(reader, writer)

    all_went_well(run(script, calling))


def test_a_server_that_refuses_for_ever() -> None:
    script = grpc_chaos.frames(
        lambda stream: frame(RST_STREAM, 0, stream, struct.pack(">I", _REFUSED))
    )
    found = run(script, UNARY)
    assert found.code == 4, found
    assert found.checked["requests"]["failed"] == _COUNT
    assert set(found.checked["requests"]["failures"]) <= {"reset", "limit"}


def test_a_status_is_not_asked_for_again() -> None:
    # UNAVAILABLE may be retried by gRPC's clients where they are told to; a measurement is not.
    head = [*GRPC, ("grpc-status", "14"), ("grpc-message", "busy")]
    found = run(grpc_chaos.Answer(head=head).script, UNARY)
    assert found.code == 4, found
    assert found.checked["grpc"]["status"] == {"UNAVAILABLE": _COUNT}
    assert found.checked["requests"]["retried"] == 0
