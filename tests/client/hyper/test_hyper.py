"""What hyper's users find under its names: ids, fields in bytes, decoded content, clear errors."""

from __future__ import annotations

import gzip
import ssl
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from client.waits import PATIENCE_S
from peers import chaos
from peers.peer import Peer
from peers.proxy import proxy
from trilane.client import errors, hyper
from trilane.client.hyper import HTTPHeaderMap
from trilane.client.hyper.contrib import HTTP20Adapter

KINDS = {
    "h1": hyper.HTTP11Connection,
    "h1s": hyper.HTTP11Connection,
    "h2": hyper.HTTP20Connection,
    "h2c": hyper.HTTP20Connection,
}


def connected(kind: Any, server: Peer, listener: str, **options: Any) -> Any:
    url = urlsplit(server.bases[listener])
    options = {"secure": url.scheme == "https", "ca": str(server.ca), **options}
    return kind(url.netloc, timeout=PATIENCE_S, **options)


@pytest.mark.parametrize("listener", list(KINDS))
def test_each_version(listener: str, server: Peer) -> None:
    kind: type[hyper.HTTP11Response] = hyper.HTTP11Response
    with connected(KINDS[listener], server, listener) as connection:
        ids = [connection.request("GET", f"/bytes/{size}") for size in (1, 2, 3)]
        if listener.startswith("h2"):
            kind = hyper.HTTP20Response
            assert ids == [1, 3, 5]
        for ident, size in reversed(list(zip(ids, (1, 2, 3), strict=True))):
            response = connection.get_response(ident)
            assert type(response) is kind
            assert (response.status, len(response.read())) == (200, size)
            assert response.read() == b""
        connection.request("POST", "/echo", "später", {"content-type": "text/plain"})
        with connection.getresponse() as response:
            assert response.read(3) + response.read() == "später".encode()
            assert len(response.trailers) == 0
        assert list(connection.get_pushes()) == []


def test_settings_of_our_client(server: Peer) -> None:
    port = urlsplit(server.bases["h2"]).port
    with hyper.HTTP20Connection(
        "shop.example", port, secure=True, verify=False, resolver={"shop.example": "127.0.0.1"}
    ) as connection:
        connection.request("GET", "/hello")
        assert connection.getresponse().read() == b"hello world"
    pins = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
    with (
        connected(hyper.HTTP20Connection, server, "h2", pins=pins) as connection,
        pytest.raises(errors.TLSError),
    ):
        connection.request("GET", "/hello")
    with pytest.raises(ValueError, match="minimum_tls"):
        hyper.HTTP20Connection("localhost", port, minimum_tls="TLSv1")
    # Python's `ssl`, which this context needs, has no pins.
    context = ssl.create_default_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        connected(
            hyper.HTTP11Connection, server, "h1s", ca=None, ssl_context=context, pins=pins
        ) as connection,
        pytest.raises(ValueError, match="pins and minimum_tls"),
    ):
        connection.request("GET", "/hello")


@pytest.mark.parametrize("listener", ["h1s", "h2"])
def test_the_version_is_agreed_on(listener: str, server: Peer) -> None:
    url = urlsplit(server.bases[listener])
    connection = hyper.HTTPConnection(url.hostname or "", url.port, secure=True, ca=str(server.ca))
    connection.request("GET", "/hello")
    response = connection.get_response()
    assert isinstance(response, hyper.HTTP20Response)
    assert response.stream_id == 1
    assert response.headers[b"content-length"] == response.headers["Content-Length"] == [b"11"]
    assert b"".join(response.read_chunked()) == b"hello world"
    connection.close()
    connection.connect()
    connection.request("GET", "/hello")
    assert connection.get_response().read() == b"hello world"
    connection.close()


def test_a_context_of_ssl(server: Peer) -> None:
    context = ssl.create_default_context(cafile=str(server.ca))
    connection = connected(hyper.HTTP20Connection, server, "h2", ca=None, ssl_context=context)
    connection.request("GET", "/hello")
    assert connection.get_response().read() == b"hello world"
    connection.close()


@pytest.mark.parametrize("amount", [None, 1000])
def test_content_is_decoded_unless_it_is_asked_for_as_sent(amount: int | None) -> None:
    text = b"some text, and more of it. " * 5000
    coded = gzip.compress(text)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(coded)}\r\n\r\n"
    with chaos.serve(chaos.answer(head.encode() + coded, then="go on")) as server:
        for decode, expected in ((True, text), (False, coded)):
            connection = hyper.HTTP11Connection(server.base.rpartition("/")[2])
            connection.request("GET", "/")
            response = connection.get_response()
            pieces = []
            while piece := response.read(amount, decode_content=decode):
                pieces.append(piece)
            assert b"".join(pieces) == expected
            connection.request("GET", "/")
            chunks = connection.get_response().read_chunked(decode_content=decode)
            assert b"".join(chunks) == expected
            connection.close()


def test_trailers_wait_for_the_content() -> None:
    answer = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n3\r\ndef\r\n0\r\nSum: 1\r\nSum: 2, 3\r\n\r\n"
    )
    with chaos.serve(chaos.answer(answer, then="go on")) as server:
        connection = hyper.HTTP11Connection(server.base.rpartition("/")[2])
        connection.request("GET", "/")
        response = connection.get_response()
        assert response.read(2) == b"ab"
        assert response.trailers[b"sum"] == [b"1", b"2", b"3"]
        assert response.read(1) + response.read() == b"cdef"
        connection.close()


@pytest.mark.parametrize("listener", ["h1", "h2"])
def test_a_proxy(listener: str, server: Peer) -> None:
    with proxy() as seen:
        place = seen.address.rpartition("/")[2]
        connection = connected(hyper.HTTPConnection, server, listener, proxy_host=place)
        connection.request("GET", "/hello")
        assert connection.get_response().read() == b"hello world"
        method = "CONNECT" if listener == "h2" else "GET"
        assert seen.lines[0].startswith(f"{method} ")
        connection.close()


def test_pseudo_fields(server: Peer) -> None:
    connection = connected(hyper.HTTP20Connection, server, "h2")
    connection.request("GET", "/headers", headers={b":authority": b"other.example"})
    assert connection.get_response().read()
    with pytest.raises(ValueError, match=":path is made of the arguments of request"):
        connection.request("GET", "/", headers={":path": "/other"})
    connection.close()


@pytest.mark.parametrize("option", [{"window_manager": object}, {"enable_push": True}])
def test_what_cannot_be_obeyed_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(option))}="):
        hyper.HTTPConnection("localhost", **option)


@pytest.mark.parametrize("name", ["putrequest", "ping", "window_manager"])
def test_what_is_not_here_says_so(name: str) -> None:
    connection = hyper.HTTP20Connection("localhost")
    with pytest.raises(AttributeError, match=f"has no attribute '{name}': "):
        getattr(connection, name)
    with pytest.raises(AttributeError, match=r"'HTTP20Push': no server may push"):
        getattr(hyper, "HTTP20Push")  # noqa: B009 - it is not there


def test_ports_and_security_are_hyper_s() -> None:
    for kind, port, secure in (
        (hyper.HTTPConnection, 80, False),
        (hyper.HTTP11Connection, 80, False),
        (hyper.HTTP20Connection, 443, True),
    ):
        made = kind("example.org")
        assert (made.host, made.port, made.secure) == ("example.org", port, secure)
        assert kind("example.org:443").secure
        assert repr(kind("[::1]:8080", secure=False)).endswith("Connection http://[::1]:8080>")


def test_the_adapter(server: Peer) -> None:
    for options in ({}, {"pool_maxsize": 2}):
        with requests.Session() as session:
            session.mount("https://", HTTP20Adapter(**options))
            response = session.get(server.url("h2"), verify=str(server.ca))
            assert (response.text, response.raw.version) == ("hello world", 20)
    assert hyper.HTTP20Adapter is HTTP20Adapter
    with pytest.raises(ValueError, match="window_manager cannot be obeyed"):
        HTTP20Adapter(window_manager=object)


def test_fields_are_a_map_of_bytes() -> None:
    made = HTTPHeaderMap(
        [
            ("Vary", 'accept, "a, b"'),
            ("vary", "origin"),
            ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("Set-Cookie", "a=1; expires=Sun, 06 Nov 1994 08:49:37 GMT"),
            ("empty", ""),
        ]
    )
    assert made["VARY"] == made[b"vary"] == [b"accept", b'"a, b"', b"origin"]
    assert made[b"date"] == [b"Sun, 06 Nov 1994 08:49:37 GMT"]
    assert made[b"set-cookie"] == [b"a=1; expires=Sun, 06 Nov 1994 08:49:37 GMT"]
    assert made[b"empty"] == [b""]
    assert len(made) == len(list(made)) == 6
    assert next(made.iter_raw()) == (b"Vary", b'accept, "a, b"')
    assert (made.get("none"), made.get("none", 3), b"none" in made) == (None, 3, False)
    assert next(made.keys()) == b"vary" == next(made.items())[0]
    assert next(made.values()) == b"accept"
    made["X"] = "y"
    del made["vary"]
    assert (made["x"], "vary" in made) == ([b"y"], False)
    for lost in (lambda: made["none"], lambda: made.__delitem__("none")):
        with pytest.raises(KeyError):
            lost()
    assert made != HTTPHeaderMap() == HTTPHeaderMap()


def test_every_name_of_hyper_is_here_or_says_why_not() -> None:
    """`hyper.__all__` of version 0.7."""
    names = {"HTTPConnection", "HTTP20Connection", "HTTP11Connection"}
    names |= {"HTTP20Response", "HTTP11Response", "HTTP20Push"}
    assert names - set(hyper.__all__) == {"HTTP20Push"}
    assert all(hasattr(hyper, name) for name in hyper.__all__)
