"""HTTP/3 servers that break rules or stretch them, end to end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from peers.authority import Leaf
from peers.peer import secure
from trilane.client import Client

from .cases import Close, Expected, Seen
from .ends import each_h3
from .h3 import Case, Code
from .h3_server import Play, Server, serve
from .judging import judge_client, judge_engine, wait_s


@pytest.fixture(scope="module")
def server(leaf: Leaf) -> Iterator[Server]:
    with serve(leaf) as serving:
        yield serving


@each_h3
def test_engine(server: Server, leaf: Leaf, case: Case) -> None:
    play = server.play(case)
    options = ["--h3", "--cacert", str(leaf.ca), "-X", case.method]
    judge_engine(case.expected, case.requests, *options, f"{secure(server.port)}/")
    judge_server(play, case.expected)


@each_h3
def test_client(server: Server, leaf: Leaf, case: Case) -> None:
    expected = case.expected
    play = server.play(case)
    timeout = wait_s(expected)
    with Client(versions=("h3",), verify=str(leaf.ca), timeout=timeout) as client:
        for _ in range(case.requests):
            error = judge_client(client, expected, case.method, f"{secure(server.port)}/")
            if error is not None:
                assert error.error_code == case.code, repr(error)
    judge_server(play, expected)


def judge_server(play: Play, expected: Expected) -> None:
    """Whether the server saw what it should have, and nothing else."""
    case = play.case
    allowed = {
        (Seen.CONNECTION_CLOSE, int(Code.H3_NO_ERROR)),
        (Seen.STOP_SENDING, int(Code.H3_REQUEST_CANCELLED)),
        # Of a stream of an unknown type.
        (Seen.STOP_SENDING, int(Code.H3_STREAM_CREATION_ERROR)),
    }
    allowed |= {(Seen.CONNECTION_CLOSE, s.code) for s in case.answer if isinstance(s, Close)}
    if case.seen:
        assert case.code is not None
        play.wait_for((case.seen, case.code))
        allowed.add((case.seen, case.code))
    assert play.seen <= allowed
    assert play.requests == case.requests + case.once
    assert play.connections == case.connections(expected)
