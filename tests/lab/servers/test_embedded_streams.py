"""Streams without gRPC, of the embedded server and through the gateway: NDJSON and SSE.

That they are the same over every version, and gRPC-Web, is in the tests of the crate `serve`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from peers.grpc_schema import as_json
from peers.peer import Peer

from .web import Web

NDJSON, SSE = "application/x-ndjson", "text/event-stream"
PAUSE_S = 0.1


@pytest.fixture
def web(ours: Peer) -> Iterator[Web]:
    with Web.open(ours, "h1") as found:
        yield found


def is_book(found: dict[str, object], shelf: int, number: int) -> None:
    assert {key: value for key, value in found.items() if value} == as_json(shelf, number)


def test_lines_of_json(web: Web) -> None:
    answer = web.ask("GET", "/v1/shelves/6/books:watch?count=150", accept=NDJSON)
    assert answer.status == 200
    assert answer.media_type == NDJSON
    lines = answer.content.decode().splitlines()
    assert len(lines) == 150
    assert answer.content.endswith(b"\n")
    for index, line in enumerate(lines):
        found = json.loads(line)
        assert found["change"] == "PRESENT"
        is_book(found["book"], 6, index % 100 + 1)


def test_lines_come_as_they_are_made(web: Web) -> None:
    path = "/v1/shelves/6/books:watch?count=3&interval="
    began = time.monotonic()
    with web.stream(f"{path}{PAUSE_S}s", accept=NDJSON) as lines:
        assert [json.loads(line)["change"] for line in lines] == ["PRESENT"] * 3
    assert time.monotonic() - began >= 2 * PAUSE_S
    # The first is read while the second is an hour away.
    with web.stream(f"{path}3600s", accept=NDJSON) as lines:
        assert json.loads(next(lines))["change"] == "PRESENT"


def test_server_sent_events(web: Web) -> None:
    path = f"/v1/shelves/6/books:watch?count=3&interval={PAUSE_S}s"
    began = time.monotonic()
    with web.stream(path, accept=SSE) as lines:
        data = [line.removeprefix("data:") for line in lines if line.startswith("data:")]
    names = [json.loads(one)["book"]["name"] for one in data]
    assert names == [f"shelves/6/books/{n}" for n in (1, 2, 3)]
    assert time.monotonic() - began >= 2 * PAUSE_S
    with web.stream(path.replace(f"{PAUSE_S}s", "3600s"), accept=SSE) as lines:
        assert any(line.startswith("data:") for line in lines)
    answer = web.ask("GET", "/v1/shelves/6/books:watch?count=2", accept=SSE)
    assert answer.media_type == SSE
    # An event ends with an empty line (HTML Standard, 9.2.5).
    assert answer.content.replace(b"\r\n", b"\n").count(b"\n\n") >= 2


def test_importing_lines(web: Web) -> None:
    lines = "".join(
        json.dumps({"parent": "shelves/7", "book": {"title": f"T {n}"}}) + "\n" for n in range(40)
    )
    answer = web.ask("POST", "/v1/books:import", lines.encode(), content_type=NDJSON)
    assert answer.status == 200, answer
    assert json.loads(answer.content) == {"created": 40}
    bad = b'{"parent": "shelves/7", "book": {}}\n{"parnt": 1}\n'
    answer = web.ask("POST", "/v1/books:import", bad, content_type=NDJSON)
    assert answer.status == 400, answer
    assert "parnt" in json.loads(answer.content)["message"]
