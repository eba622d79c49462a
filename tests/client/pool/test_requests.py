"""Requests and responses over every version, against the embedded server."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from peers.peer import Peer
from trilane.client.answer import Response
from trilane.client.content import Content
from trilane.client.errors import InvalidRequest
from trilane.client.pool import USER_AGENT, Client
from trilane.client.request import Field

Each = tuple[Client, str, str]
BLOCK = bytes(range(256)) * 256


def test_a_request_is_answered(each: Each) -> None:
    client, version, base = each
    response = client.get(f"{base}/hello")
    assert response.status == 200
    assert response.version == version
    assert response.content == b"hello world"
    assert response.text == "hello world"
    assert response.headers["Content-Length"] == "11"
    assert response.is_closed
    assert response.url == f"{base}/hello"
    assert str(response.status) in repr(response)


def test_a_connection_is_kept(each: Each) -> None:
    client, version, base = each
    ids = [client.get(f"{base}/hello").stream_id for _ in range(5)]
    assert len(client.connections) == 1
    assert ids == {"h1": [1, 2, 3, 4, 5], "h2": [1, 3, 5, 7, 9], "h3": [0, 4, 8, 12, 16]}[version]


def test_what_is_sent_by_default(each: Each) -> None:
    client, _, base = each
    seen = client.get(f"{base}/headers").text.lower()
    assert USER_AGENT in seen
    assert "gzip, deflate, br, zstd" in seen
    seen = client.get(f"{base}/headers", headers={"User-Agent": "me", "X-A": "1"}).text.lower()
    assert USER_AGENT not in seen
    assert "x-a" in seen


def _blocks() -> Iterator[bytes]:
    for at in range(0, len(BLOCK), 1000):
        yield BLOCK[at : at + 1000]
        yield b""


@pytest.mark.parametrize("kind", ["bytes", "view", "bytearray", "file", "iterator", "str", "large"])
def test_content_of_any_kind_arrives(each: Each, kind: str, tmp_path: Path) -> None:
    client, _, base = each
    path = tmp_path / "content"
    path.write_bytes(b"skipped" + BLOCK)
    with path.open("rb") as file:
        file.seek(7)
        contents: dict[str, Content] = {
            "bytes": BLOCK,
            "view": memoryview(BLOCK),
            "bytearray": bytearray(BLOCK),
            "file": file,
            "iterator": _blocks(),
            "str": "grüße",
            "large": BLOCK * 160,
        }
        response = client.post(f"{base}/echo", contents[kind])
    expected = {"str": "grüße".encode(), "large": BLOCK * 160}.get(kind, BLOCK)
    assert response.status == 200
    assert response.content == expected


def test_json_both_ways(each: Each) -> None:
    client, _, base = each
    response = client.post(f"{base}/echo", json={"a": [1, "ü"]})
    assert response.json() == {"a": [1, "ü"]}
    assert json.loads(response.content) == response.json()


def test_no_content_where_there_is_none(each: Each) -> None:
    client, _, base = each
    assert client.head(f"{base}/bytes/1000").content == b""
    assert client.head(f"{base}/bytes/1000").headers["content-length"] == "1000"
    assert client.get(f"{base}/status/204").status == 204
    assert client.get(f"{base}/status/304").content == b""
    assert client.get(f"{base}/bytes/0").content == b""
    assert client.post(f"{base}/echo").content == b""
    assert len(client.connections) == 1


def _in_pieces(response: Response, kind: str) -> bytes:
    if kind == "read":
        first = response.read(10)
        assert len(first) == 10
        return first + response.read()
    if kind == "read1":
        return b"".join(iter(lambda: response.read1(7000), b""))
    if kind == "readinto":
        buffer, found = bytearray(9000), b""
        while count := response.readinto(buffer):
            found += buffer[:count]
        return found
    if kind == "iter_raw":
        return b"".join(response.iter_raw())
    if kind == "iter":
        return b"".join(response)
    pieces = list(response.iter_bytes(1024))
    assert {len(piece) for piece in pieces[:-1]} == {1024}
    return b"".join(pieces)


@pytest.mark.parametrize("kind", ["read", "read1", "readinto", "iter_raw", "iter", "iter_bytes"])
def test_content_is_read_in_pieces(each: Each, kind: str) -> None:
    client, _, base = each
    whole = client.get(f"{base}/bytes/100k").content
    assert len(whole) in {100_000, 102_400}
    with client.stream("GET", f"{base}/bytes/100k") as response:
        assert _in_pieces(response, kind) == whole
        assert response.read() == b""
        assert response.is_closed
    assert len(client.connections) == 1


def test_a_large_download(each: Each) -> None:
    client, _, base = each
    with client.stream("GET", f"{base}/bytes/20m") as response:
        total = sum(len(piece) for piece in response)
    assert total == int(response.headers["content-length"]) >= 20_000_000


def test_a_response_that_is_not_read_ends_with_its_context(each: Each) -> None:
    client, version, base = each
    for _ in range(3):
        with client.stream("GET", f"{base}/bytes/20m") as response:
            assert response.read(1000)
        assert client.get(f"{base}/hello").content == b"hello world"
    # Only HTTP/1.1 has to give its connection up to be rid of a response.
    assert len(client.connections) == 1
    assert response.is_closed
    assert version == response.version


def test_a_response_that_is_dropped_gives_its_connection_back(each: Each) -> None:
    client, _, base = each
    for _ in range(5):
        response = client.send("GET", f"{base}/hello")
        del response
    assert client.get(f"{base}/hello").status == 200
    assert len(client.connections) == 1


def test_a_slow_reader_does_not_stall_others(server_h2: Each) -> None:
    client, _, base = server_h2
    with client.stream("GET", f"{base}/bytes/50m") as slow:
        assert slow.read(10)
        for _ in range(50):
            assert len(client.get(f"{base}/bytes/100k").content) >= 100_000
        assert len(client.connections) == 1
        rest = sum(len(piece) for piece in slow)
    assert rest + 10 == int(slow.headers["content-length"])


@pytest.fixture
def server_h2(client: Client, server: Peer) -> Each:
    return client, "h2", server.bases["h2"]


def test_one_stream_is_cancelled_alone(server_h2: Each) -> None:
    client, _, base = server_h2
    with client.stream("GET", f"{base}/bytes/50m") as one:
        with client.stream("GET", f"{base}/bytes/50m") as other:
            other.read(1)
        assert sum(len(piece) for piece in one) == int(one.headers["content-length"])
    assert len(client.connections) == 1


def test_lines_of_text(each: Each) -> None:
    client, _, base = each
    text = "one\ntwo\r\nthrée\rfour\n\nlast"
    with client.stream("POST", f"{base}/echo", content=text) as response:
        assert list(response.iter_lines()) == ["one", "two", "thrée", "four", "", "last"]


def test_iteration_by_nothing_is_refused(client: Client, server_h2: Each) -> None:
    url = f"{server_h2[2]}/hello"
    with client.stream("GET", url) as response, pytest.raises(ValueError, match="at least 1"):
        list(response.iter_bytes(0))


def test_send_adds_nothing(each: Each) -> None:
    client, _, base = each
    fields: list[Field] = [("X-One", "1"), (b"x-two", b"2"), ("X-One", "3")]
    with client.send("GET", f"{base}/headers", fields) as response:
        seen = response.read().decode().lower()
    assert "user-agent" not in seen
    assert "accept" not in seen
    assert [value for name, value in json.loads(seen)["fields"] if name == "x-one"] == ["1", "3"]


def test_a_target_of_the_callers_own(each: Each) -> None:
    client, _, base = each
    with client.send("GET", f"{base}/ignored", target="/hello?x=[1]|") as response:
        assert response.read() == b"hello world"


def test_a_given_length_is_believed_and_not_doubled(each: Each) -> None:
    client, _, base = each
    fields = [("Content-Length", str(len(BLOCK)))]
    contents: tuple[Content, ...] = (BLOCK, _blocks())
    for content in contents:
        with client.send("POST", f"{base}/echo", fields, content) as response:
            assert response.read() == BLOCK


def test_a_given_transfer_encoding_is_done(each: Each) -> None:
    client, _, base = each
    fields = [("Transfer-Encoding", "chunked"), ("Connection", "keep-alive")]
    contents: tuple[Content, ...] = (b"abc", iter([b"a", b"bc"]))
    for content in contents:
        with client.send("POST", f"{base}/echo", fields, content) as response:
            assert response.read() == b"abc"
    with pytest.raises(InvalidRequest, match="only chunked"):
        client.send("POST", f"{base}/echo", [("Transfer-Encoding", "gzip")], b"abc")


@pytest.mark.parametrize(
    ("blocks", "why"), [([b"ab"], "1 bytes shorter"), ([b"ab", b"cd"], "1 bytes or more longer")]
)
def test_content_of_another_length_than_it_said(each: Each, blocks: list[bytes], why: str) -> None:
    client, _, base = each
    with pytest.raises(InvalidRequest, match=why):
        client.post(f"{base}/echo", iter(blocks), headers={"content-length": "3"})
    assert client.get(f"{base}/hello").status == 200


@pytest.mark.parametrize(
    "headers", [{"X": "a\r\nY: b"}, {"X\r\nY": "a"}, {"X": "a\0"}, {"": "a"}, {"X Y": "a"}]
)
def test_what_would_split_a_request_is_refused(each: Each, headers: dict[str, str]) -> None:
    client, _, base = each
    with pytest.raises(InvalidRequest):
        client.get(f"{base}/hello", headers=headers)
    with pytest.raises(InvalidRequest):
        client.request("GET / HTTP/1.1\r\nX: y", f"{base}/hello")
    assert client.get(f"{base}/hello").status == 200


@pytest.mark.parametrize("content", [3, {"a": 1}, object()])
def test_content_that_is_none(client: Client, content: object) -> None:
    with pytest.raises(TypeError, match="content is bytes, str"):
        client.post("http://localhost:1/", content)  # type: ignore[arg-type]


class _Broken(io.RawIOBase):
    def readable(self) -> bool:
        return True

    def readinto(self, _buffer: object) -> int:
        raise KeyError("mine")


def test_exceptions_of_the_content_pass_through(each: Each) -> None:
    client, _, base = each

    def broken() -> Iterator[bytes]:
        yield b"first"
        raise KeyError("mine")

    contents: tuple[Content, ...] = (broken(), _Broken())
    for content in contents:
        with pytest.raises(KeyError, match="mine"):
            client.post(f"{base}/echo", content)
    assert client.get(f"{base}/hello").content == b"hello world"


def test_userinfo_of_the_url_is_sent(each: Each) -> None:
    client, _, base = each
    with_user = base.replace("://", "://user:secret@")
    assert "dXNlcjpzZWNyZXQ=".lower() in client.get(f"{with_user}/headers").text.lower()
