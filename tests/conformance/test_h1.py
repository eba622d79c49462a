"""HTTP/1.1 servers that break rules or stretch them, end to end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trilane.client import Client

from .cases import Case
from .data import H1
from .ends import each_h1
from .h1_server import Server, serve
from .judging import judge_client, judge_engine, wait_s


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve(H1) as serving:
        yield serving


@each_h1
def test_engine(server: Server, case: Case) -> None:
    url = server.url(case)
    judge_engine(case.expected, case.requests, "--h1", "-X", case.method, url)
    assert server.requests == case.requests
    assert server.connections == case.connections(case.expected)


@each_h1
def test_client(server: Server, case: Case) -> None:
    expected = case.of_client
    url = server.url(case)
    with Client(versions=("h1",), timeout=wait_s(expected)) as client:
        for _ in range(case.requests):
            judge_client(client, expected, case.method, url)
    assert server.requests == case.requests
    assert server.connections == case.connections(expected)
