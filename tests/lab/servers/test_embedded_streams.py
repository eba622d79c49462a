"""Streams of the embedded server without gRPC: NDJSON, SSE, and gRPC-Web by hand."""

from __future__ import annotations

import base64
import json
import struct
import time
from collections.abc import Iterator

import pytest

from peers.grpc_schema import SERVICE, Schema, as_json
from peers.peer import Peer

from .web import VERSIONS, Answer, Web

NDJSON, SSE = "application/x-ndjson", "text/event-stream"
PAUSE_S = 0.1
over_every_version = pytest.mark.parametrize("web", VERSIONS, indirect=True)
WEB, WEB_TEXT = "application/grpc-web", "application/grpc-web-text"


@pytest.fixture
def web(request: pytest.FixtureRequest, ours: Peer) -> Iterator[Web]:
    with Web.open(ours, getattr(request, "param", "h1")) as found:
        yield found


def is_book(found: dict[str, object], shelf: int, number: int) -> None:
    assert {key: value for key, value in found.items() if value} == as_json(shelf, number)


@over_every_version
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


@over_every_version
def test_lines_come_as_they_are_made(web: Web) -> None:
    path = "/v1/shelves/6/books:watch?count=3&interval="
    began = time.monotonic()
    with web.stream(f"{path}{PAUSE_S}s", accept=NDJSON) as lines:
        assert [json.loads(line)["change"] for line in lines] == ["PRESENT"] * 3
    assert time.monotonic() - began >= 2 * PAUSE_S
    # The first is read while the second is an hour away.
    with web.stream(f"{path}3600s", accept=NDJSON) as lines:
        assert json.loads(next(lines))["change"] == "PRESENT"


@over_every_version
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


@over_every_version
def test_streams_that_cannot_begin(web: Web) -> None:
    for accept in (NDJSON, SSE):
        answer = web.ask("GET", "/v1/shelves/99/books:watch?count=1", accept=accept)
        assert answer.status == 404, answer
        assert json.loads(answer.content)["code"] == 5


@over_every_version
def test_a_reader_that_leaves(web: Web) -> None:
    with web.stream(
        "/v1/shelves/6/books:watch?count=1000000&interval=0.001s", accept=NDJSON
    ) as lines:
        for _ in range(5):
            next(lines)
    assert web.ask("GET", "/v1/shelves/1/books/1").status == 200


@over_every_version
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


# gRPC-Web: frames as in PROTOCOL-WEB.md; the frame of the trailers has bit 7 of its flag set.


def frame(payload: bytes, flag: int = 0) -> bytes:
    return struct.pack(">BI", flag, len(payload)) + payload


def frames(content: bytes) -> tuple[list[bytes], dict[str, str]]:
    """Messages and trailers."""
    messages: list[bytes] = []
    trailers: dict[str, str] | None = None
    while content:
        flag, length = struct.unpack_from(">BI", content)
        payload, content = content[5 : 5 + length], content[5 + length :]
        assert len(payload) == length
        assert trailers is None, "frames after the trailers"
        if flag & 0x80:
            pairs = (line.split(":", 1) for line in payload.decode().split("\r\n") if line)
            trailers = {name.strip(): value.strip() for name, value in pairs}
        else:
            assert flag == 0
            messages.append(payload)
    return messages, trailers or {}


def pieces(text: bytes) -> bytes:
    """Base 64 that may be padded in its middle: frames are encoded one by one."""
    return b"".join(base64.b64decode(text[at : at + 4]) for at in range(0, len(text), 4))


def call(web: Web, method: str, content: bytes, kind: str = WEB) -> Answer:
    is_text = kind.startswith(WEB_TEXT)
    return web.ask(
        "POST",
        f"/{SERVICE}/{method}",
        base64.b64encode(content) if is_text else content,
        content_type=kind,
        accept=kind,
        x_grpc_web="1",
    )


@over_every_version
@pytest.mark.parametrize("kind", [WEB, f"{WEB}+proto", WEB_TEXT, f"{WEB_TEXT}+proto"])
def test_grpc_web(web: Web, schema: Schema, kind: str) -> None:
    def ask(method: str, *messages: object) -> tuple[list[bytes], dict[str, str]]:
        content = b"".join(frame(one.SerializeToString()) for one in messages)  # type: ignore[attr-defined]
        answer = call(web, method, content, kind)
        assert answer.status == 200, answer
        assert answer.media_type.startswith(WEB_TEXT if "text" in kind else WEB)
        # Trailers-only answers have them in the head.
        if "grpc-status" in answer.fields:
            return [], dict(answer.fields)
        return frames(pieces(answer.content) if "text" in kind else answer.content)

    messages, trailers = ask("GetBook", schema.make("GetBookRequest", name="shelves/3/books/9"))
    assert [schema.type("Book").FromString(one) for one in messages] == [schema.book(3, 9)]
    assert trailers["grpc-status"] == "0"

    watch = schema.make("WatchBooksRequest", parent="shelves/3", count=120)
    messages, trailers = ask("WatchBooks", watch)
    assert len(messages) == 120
    assert trailers["grpc-status"] == "0"

    missing = schema.make("GetBookRequest", name="shelves/3/books/99999")
    messages, trailers = ask("GetBook", missing)
    assert messages == []
    assert trailers["grpc-status"] == "5"
    assert "99999" in trailers["grpc-message"]


@over_every_version
def test_grpc_web_that_is_wrong(web: Web) -> None:
    for content in (b"\0\0", frame(b"\x0a\x7fx"), frame(b"", flag=7), b"\0\xff\xff\xff\xff"):
        answer = call(web, "GetBook", content)
        if "grpc-status" in answer.fields:
            assert answer.fields["grpc-status"] != "0"
        elif answer.status == 200:
            assert frames(answer.content)[1]["grpc-status"] != "0"
        else:
            assert 400 <= answer.status < 500, answer
    assert web.ask("GET", "/v1/shelves/1/books/1").status == 200
