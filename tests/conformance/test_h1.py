"""HTTP/1.1 servers that break rules or stretch them, from `h1_heads` and `h1_contents`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trilane.client import Client

from . import h1_contents, h1_heads
from .cases import Case
from .h1_server import Server, serve
from .judging import judge_client, judge_engine, wait_s

CASES = h1_heads.CASES + h1_contents.CASES
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve(CASES) as serving:
        yield serving


@each
def test_engine(server: Server, case: Case) -> None:
    url = server.url(case)
    judge_engine(case.expected, case.requests, "--h1", "-X", case.method, url)
    assert server.requests == case.requests
    assert server.connections == case.connections(case.expected)


@each
def test_client(server: Server, case: Case) -> None:
    expected = case.of_client
    url = server.url(case)
    with Client(versions=("h1",), timeout=wait_s(expected)) as client:
        for _ in range(case.requests):
            judge_client(client, expected, case.method, url)
    assert server.requests == case.requests
    assert server.connections == case.connections(expected)


def test_every_case_has_a_name_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
