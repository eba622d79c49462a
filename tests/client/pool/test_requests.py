"""How either client gives what it got, and takes what it is to send.

What both do of requests and responses over every version is in `client/behaviours`.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator

import pytest

from client.face import AnyClient, AnyResponse, Each, MakeClient
from peers import chaos
from peers.peer import Peer
from trilane.client._flow.content import Content
from trilane.client._flow.preparing import USER_AGENT
from trilane.client._flow.request import Field
from trilane.client.errors import InvalidRequest, LocalError

BLOCK = bytes(range(256)) * 256
# More than the window of a stream, and than what is handed over with the request.
LARGE = 3 << 20


def test_a_request_is_answered(each: Each) -> None:
    client, version, base = each
    response = client.get(f"{base}/hello")
    assert response.status == 200
    assert response.is_success
    assert response.version == version
    assert response.content == b"hello world"
    assert response.text == "hello world"
    assert response.headers["Content-Length"] == "11"
    assert response.headers["content-type"] == "text/plain;charset=utf-8"
    assert response.reason == ("OK" if version == "h1" else "")
    assert response.is_closed
    assert response.url == f"{base}/hello"
    assert str(response.status) in repr(response)


def test_every_method_is_there(client: AnyClient, server: Peer) -> None:
    for method in ("head", "options", "delete", "put", "patch", "post"):
        response = getattr(client, method)(server.url("h2"))
        assert response.status == 200
        assert response.method == method.upper()
        assert response.content == (b"" if method == "head" else b"hello world")


def test_what_is_sent_by_default(each: Each) -> None:
    client, _, base = each
    seen = client.get(f"{base}/headers").text.lower()
    assert USER_AGENT in seen
    assert "gzip, deflate, br, zstd" in seen
    seen = client.get(f"{base}/headers", headers={"User-Agent": "me", "X-A": "1"}).text.lower()
    assert USER_AGENT not in seen
    assert "x-a" in seen


def test_fields_of_the_client_give_way_to_those_of_the_request(
    make_client: MakeClient, server: Peer
) -> None:
    client = make_client(headers={"x-all": "a", "User-Agent": "me"})
    fields = [("X-One", "1"), ("x-all", "b")]
    seen = client.get(server.url("h1", "/headers"), headers=fields).json()["fields"]
    found = {name.lower(): value for name, value in seen}
    assert (found["user-agent"], found["x-one"], found["x-all"]) == ("me", "1", "b")


def _blocks() -> Iterator[bytes]:
    for at in range(0, len(BLOCK), 1000):
        yield BLOCK[at : at + 1000]
        yield b""


def test_text_is_sent_in_utf_8(client: AnyClient, server: Peer) -> None:
    assert client.post(server.url("h2", "/echo"), "grüße").content == "grüße".encode()


def test_json_both_ways(each: Each) -> None:
    client, _, base = each
    response = client.post(f"{base}/echo", json={"a": [1, "ü"]})
    assert response.json() == {"a": [1, "ü"]}
    assert json.loads(response.content) == response.json()


READERS: list[Callable[[AnyResponse], bytes]] = [
    lambda response: response.read(10) + response.read(0) + response.read(),
    lambda response: b"".join(iter(lambda: response.read1(7000), b"")),
    lambda response: b"".join(response.iter_raw()),
    b"".join,
]


def test_content_is_read_in_pieces(each: Each) -> None:
    client, _, base = each
    url = f"{base}/bytes/100k"
    whole = client.get(url).content
    assert len(whole) == 102_400
    for reader in READERS:
        with client.stream("GET", url) as response:
            assert reader(response) == whole
            assert response.read() == b""
            assert response.is_closed
    with client.stream("GET", url) as response:
        pieces = list(response.iter_bytes(30_000))
        assert [len(piece) for piece in pieces] == [30_000] * 3 + [12_400]
        assert b"".join(pieces) == whole
    assert len(client.connections) == 1


@pytest.mark.parametrize("path", ["/bytes/200k", "/bytes/0"])
def test_content_that_was_read_is_given_again(each: Each, path: str) -> None:
    client, _, base = each
    response = client.get(f"{base}{path}")
    whole = response.content
    for _ in range(2):
        assert b"".join(response) == whole
        assert b"".join(response.iter_raw(30_000)) == whole
        pieces = list(response.iter_bytes(30_000))
        assert b"".join(pieces) == whole
        assert {len(piece) for piece in pieces[:-1]} <= {30_000}


def test_content_that_was_read_is_a_file(each: Each) -> None:
    client, _, base = each
    response = client.get(f"{base}/bytes/100k")
    whole = response.content
    assert response.read(10) == whole[:10]
    assert response.read(0) == b""
    assert response.read1(7) == whole[10:17]
    assert response.read() == whole[17:]
    assert response.read() == response.read(10) == response.read1() == b""
    # Where it stands is nothing to those who iterate.
    assert b"".join(response) == response.content == whole


def test_reading_all_of_it_is_reading_the_content(each: Each) -> None:
    """However much of it has arrived before: what `read` gives does not depend on the network."""
    client, _, base = each
    for size in (100, LARGE):
        with client.stream("GET", f"{base}/bytes/{size}") as response:
            whole = response.read()
            assert len(whole) == size
            assert response.read() == b""
            assert response.content == b"".join(response) == whole


def test_lines_are_read_twice(each: Each) -> None:
    client, _, base = each
    response = client.post(f"{base}/echo", "one\ntwo")
    assert list(response.iter_lines()) == list(response.iter_lines()) == ["one", "two"]


def test_what_was_given_in_pieces_is_not_kept(each: Each) -> None:
    client, _, base = each
    with client.stream("GET", f"{base}/bytes/100k") as response:
        assert sum(len(piece) for piece in response) == 102_400
        assert b"".join(response) == response.read() == b""
    with client.stream("GET", f"{base}/bytes/100k") as response:
        first = response.read(10)
        rest = response.read()
        assert len(first + rest) == 102_400
        assert b"".join(response) == b""


def test_content_that_was_not_read_before_the_end_is_not_empty(each: Each) -> None:
    client, _, base = each
    with client.stream("GET", f"{base}/bytes/20m") as response:
        assert len(response.read1(10)) == 10
        pieces = iter(response)
    readers: list[Callable[[], bytes]] = [
        lambda: response.content,
        response.read,
        lambda: next(pieces),
    ]
    for read in readers:
        with pytest.raises(LocalError, match=f"{base}/bytes/20m was closed before all of its"):
            read()
    response = client.send("GET", f"{base}/bytes/20m")
    client.close(abort=True)
    with pytest.raises(ConnectionError, match="closed here"):
        _ = response.content


def test_lines_of_text(each: Each) -> None:
    client, _, base = each
    text = "one\ntwo\r\nthrée\rfour\n\nlast"
    with client.stream("POST", f"{base}/echo", content=text) as response:
        assert list(response.iter_lines()) == ["one", "two", "thrée", "four", "", "last"]


def test_iteration_by_nothing_is_refused(client: AnyClient, server: Peer) -> None:
    with (
        client.stream("GET", server.url("h2")) as response,
        pytest.raises(ValueError, match="at least 1"),
    ):
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


def test_content_that_is_none(client: AnyClient) -> None:
    contents: tuple[object, ...] = (3, {"a": 1}, object())
    for content in contents:
        with pytest.raises(TypeError, match="content is bytes, str"):
            client.post("http://localhost:1/", content)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "content"), [("GET", None), ("POST", b"1"), ("POST", [b"1", b"2"])]
)
def test_informational_responses_are_told_as_they_come(
    make_client: MakeClient, method: str, content: Content
) -> None:
    told = threading.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await chaos.request(reader)
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        # The response waits for it.
        await asyncio.to_thread(told.wait)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    hints: list[tuple[int, list[tuple[str, str]]]] = []

    def tell(status: int, fields: list[tuple[str, str]]) -> None:
        hints.append((status, fields))
        told.set()

    with chaos.serve(script) as server:
        response = make_client().request(
            method, server.base, content=content, on_informational=tell
        )
    assert hints == response.informational == [(103, [("Link", "</a>")])]


def test_userinfo_of_the_url_is_sent(each: Each) -> None:
    client, _, base = each
    with_user = base.replace("://", "://user:secret@")
    assert "dXNlcjpzZWNyZXQ=".lower() in client.get(f"{with_user}/headers").text.lower()
