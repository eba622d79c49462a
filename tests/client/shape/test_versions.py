"""The same code over HTTP/1.1, HTTP/2 and HTTP/3."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import pytest

from client.shape.conftest import VERSIONS, Connect
from client.waits import PATIENCE_S
from trilane.client import errors
from trilane.client.http import HTTPConnection, HTTPResponse

# The embedded server echoes as it reads: what nobody reads yet must fit into windows.
LARGE = 1 << 20


def content(size: int) -> bytes:
    return (b"0123456789abcdef" * (size // 16 + 1))[:size]


@pytest.mark.parametrize(
    ("name", "listener"),
    [("nginx", "h1s"), ("gonet", "h2c"), ("nghttpd", "h2")]
    + [(name, one) for name in ("caddy", "hypercorn") for one in ("h1", "h3")],
)
def test_other_peoples_servers_answer(name: str, listener: str, connect: Connect) -> None:
    if (name, listener) == ("nginx", "h1s"):
        # Its TLS port for HTTP/1.1 alone: ALPN must fall back to what is left.
        connection = connect(name, listener, versions=("h2", "h1"))
    else:
        connection = connect(name, listener)
    for _ in range(3):
        connection.request("GET", "/hello")
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b"hello world")
        assert response.version == {"h1": 11, "h2": 20, "h3": 30}[VERSIONS[listener]]


def test_many_responses_are_read_in_any_order(embedded: HTTPConnection) -> None:
    ids = [embedded.request("GET", f"/bytes/{number * 100}") for number in range(100)]
    assert len(set(ids)) == 100
    for number, ident in reversed(list(enumerate(ids))):
        response = embedded.get_response(ident)
        assert len(response.read()) == number * 100


def test_without_an_id_it_is_the_oldest(embedded: HTTPConnection) -> None:
    for number in (1, 2, 3):
        embedded.request("GET", f"/bytes/{number}")
    assert [len(embedded.getresponse().read()) for _ in range(3)] == [1, 2, 3]


def test_more_requests_than_the_server_takes_at_once_wait(connect: Connect) -> None:
    # nginx allows 128 streams here.
    connection = connect("nginx", "h2")
    ids = [connection.request("GET", "/hello") for _ in range(300)]
    assert ids == [1 + 2 * number for number in range(300)]
    for ident in reversed(ids):
        assert connection.get_response(ident).read() == b"hello world"


@pytest.mark.parametrize("listener", ["h2", "h3"])
def test_one_stream_is_cancelled_and_the_others_go_on(listener: str, connect: Connect) -> None:
    connection = connect("embedded", listener)
    gone = connection.request("GET", "/bytes/50m")
    kept = connection.request("GET", "/bytes/1000")
    given_up = connection.get_response(connection.request("GET", "/bytes/50m"))
    assert len(given_up.read(1000)) == 1000
    given_up.close()
    connection.cancel(gone)
    assert len(connection.get_response(kept).read()) == 1000
    connection.request("GET", "/hello")
    assert connection.getresponse().read() == b"hello world"


@pytest.mark.parametrize("end", ["close", "cancel"])
def test_content_that_was_given_up_is_not_empty(end: str, embedded: HTTPConnection) -> None:
    readers: list[Callable[[HTTPResponse], object]] = [
        lambda response: response.read(),
        lambda response: response.read(10),
        lambda response: response.read1(),
        lambda response: response.readinto(bytearray(10)),
        lambda response: response.readinto1(bytearray(10)),
        lambda response: response.peek(),
        lambda response: response.readline(),
        list,
    ]
    for begun in (False, True):
        response = embedded.get_response(embedded.request("GET", "/bytes/5m"))
        if begun:
            assert len(response.read(10)) == 10
        getattr(response, end)()
        for read in readers:
            with pytest.raises(errors.LocalError, match="was closed before all of its content"):
                read(response)
    for path, content in (("/hello", b"hello world"), ("/status/204", b"")):
        response = embedded.get_response(embedded.request("GET", path))
        assert response.read() == content
        getattr(response, end)()
        assert response.read() == response.readline() == b""


def test_text_comes_back_from_a_file(embedded: HTTPConnection) -> None:
    embedded.request("POST", "/echo", io.StringIO(content(LARGE).decode()))
    response = embedded.getresponse()
    assert (response.status, response.read()) == (200, content(LARGE))


# More than the native part keeps for a thread that sends.
MANY_MIB = 80


@pytest.mark.parametrize("how", ["blocks", "one block", "send"])
def test_an_upload_is_not_held_up_by_its_own_answer(how: str, connect: Connect) -> None:
    connection = connect("embedded", "h1")
    block = content(1 << 20)
    if how == "send":
        connection.putrequest("POST", "/echo")
        connection.putheader("Content-Length", str(MANY_MIB << 20))
        connection.endheaders()
        for _ in range(MANY_MIB):
            connection.send(block)
    else:
        blocks = iter([block * MANY_MIB]) if how == "one block" else repeat(block, MANY_MIB)
        connection.request("POST", "/echo", blocks)
    response = connection.getresponse()
    for _ in range(MANY_MIB):
        assert response.read(1 << 20) == block
    assert response.read() == b""


def test_an_early_answer_has_a_limit(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilane.client.http._pipeline.MOST_CONTENT", 4 << 20)
    connection = connect("embedded", "h1")
    with pytest.raises(errors.LimitExceeded, match="before all of the request's content was sent"):
        connection.request("POST", "/echo", repeat(content(1 << 20), MANY_MIB))
    connection.request("GET", "/hello")
    assert connection.getresponse().read() == b"hello world"


def test_content_by_send_comes_back(embedded: HTTPConnection) -> None:
    embedded.putrequest("POST", "/echo")
    embedded.putheader("Content-Length", str(LARGE))
    embedded.endheaders()
    for at in range(0, LARGE, 1 << 16):
        embedded.send(content(LARGE)[at : at + (1 << 16)])
    assert embedded.getresponse().read() == content(LARGE)


def test_content_that_fails_behind_others_fails_its_own_request(connect: Connect) -> None:
    """Though it is taken by whoever waits for a response behind it."""
    connection = connect("embedded", "h1")
    mine = ConnectionResetError("mine")

    def broken() -> Iterator[bytes]:
        yield b"some"
        raise mine

    first = connection.request("GET", "/hello")
    second = connection.request("PUT", "/echo", broken())
    third = connection.request("GET", "/bytes/3")
    assert len(connection.get_response(third).read()) == 3
    with pytest.raises(ConnectionResetError) as caught:
        connection.get_response(second)
    assert caught.value is mine
    assert connection.get_response(first).read() == b"hello world"


def test_content_is_a_file(embedded: HTTPConnection) -> None:
    size = 200_000
    embedded.request("GET", f"/bytes/{size}")
    whole = embedded.getresponse().read()
    embedded.request("GET", f"/bytes/{size}")
    response = embedded.getresponse()
    assert response.length == size
    assert response.peek(1)[:1] == whole[:1]
    buffer = bytearray(1000)
    assert response.readinto(buffer) == 1000
    parts = [bytes(buffer), response.read(70_000), response.read1(), response.readline()]
    assert response.length == size - sum(map(len, parts))
    parts.append(response.read(1 << 60))
    assert b"".join(parts) == whole
    embedded.request("GET", f"/bytes/{size}")
    assert io.BufferedReader(embedded.getresponse(), 4096).read() == whole


def test_no_content(embedded: HTTPConnection) -> None:
    for method, path, status in (("HEAD", "/bytes/1000", 200), ("GET", "/status/204", 204)):
        embedded.request(method, path)
        response = embedded.getresponse()
        assert (response.status, response.length, response.read()) == (status, 0, b"")
    embedded.request("GET", "/hello")
    assert embedded.getresponse().read() == b"hello world"


def test_fields_are_case_insensitive(embedded: HTTPConnection) -> None:
    embedded.request("GET", "/headers", headers={"X-One": "1", "Connection": "keep-alive"})
    response = embedded.getresponse()
    assert response.getheader("CONTENT-TYPE") == response.headers["content-type"]
    assert dict(response.getheaders()).keys() == set(response.headers.keys())
    assert b"x-one" in response.read().lower()


def test_a_head_that_comes_late_can_be_waited_for_again(embedded: HTTPConnection) -> None:
    embedded.connect()
    embedded.sock.settimeout(0.05)
    ident = embedded.request("GET", "/delay/400ms")
    with pytest.raises(TimeoutError):
        embedded.get_response(ident)
    embedded.sock.settimeout(PATIENCE_S)
    assert embedded.get_response(ident).status == 200


def test_the_socket_is_shown(embedded: HTTPConnection) -> None:
    embedded.connect()
    sock: Any = embedded.sock
    assert sock.getpeername()[1] == embedded.port
    assert sock.getsockname()[1] > 0
    assert sock.gettimeout() == PATIENCE_S
    assert sock.fileno() > 0
    if embedded.secure:
        assert sock.version() == "TLSv1.3"
        assert sock.selected_alpn_protocol() in ("http/1.1", "h2", "h3")
        certificate = sock.getpeercert(True)
        assert certificate.startswith(b"\x30")
    sock.close()


def test_threads_share_a_connection(embedded: HTTPConnection) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        for turn in range(8):
            size = number * 100 + turn
            ident = embedded.request("GET", f"/bytes/{size}")
            length = len(embedded.get_response(ident).read())
            if length != size:
                wrong.append((size, length))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert not any(thread.is_alive() for thread in threads)


def test_nobody_listens() -> None:
    connection = HTTPConnection("127.0.0.1", 9, timeout=5)
    with pytest.raises(ConnectionRefusedError):
        connection.request("GET", "/")
    assert connection.sock is None


def test_a_certificate_that_is_not_trusted(connect: Connect) -> None:
    connection = connect("embedded", "h2", ca=None)
    with pytest.raises(errors.TLSError):
        connection.request("GET", "/")
