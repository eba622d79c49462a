"""`trilane gateway` for browsers: CORS, and gzip."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import pytest

from peers.peer import Peer
from peers.running import Peers

from .gateways import Own, gateway
from .test_embedded_rest import refusal
from .web import JSON, VERSIONS, Answer, Web

BOOK = "/v1/shelves/1/books/1"
BOOKS = "/v1/shelves/1/books"
PAGE = "https://app.example"
UNSUPPORTED, TOO_LARGE = 415, 413


@pytest.fixture
def open_to_pages(own: Own, peers: Peers) -> Peer:
    """A gateway for pages of one origin."""
    flags = ("--cors-origin", PAGE, "--cors-origin", "http://localhost:3000")
    return gateway(own, peers["grpc-go"].bases["h2c"], flags=flags)


@pytest.fixture
def web(own: Own, peers: Peers) -> Iterator[Web]:
    """A client of a gateway."""
    with Web.open(gateway(own, peers["grpc-go"].bases["h2c"]), "h1") as web:
        yield web


def preflight(web: Web, path: str, method: str, origin: str = PAGE, names: str = "") -> Answer:
    """What a browser asks before a request of a page."""
    asked = {"origin": origin, "access_control_request_method": method}
    if names:
        asked["access_control_request_headers"] = names
    return web.ask("OPTIONS", path, b"", **asked)


@pytest.mark.parametrize("listener", VERSIONS)
def test_a_page_of_the_origin_may_call(open_to_pages: Peer, listener: str) -> None:
    with Web.open(open_to_pages, listener) as web:
        asked = preflight(web, BOOK, "PATCH", names="authorization,content-type")
        assert (asked.status, asked.content) == (204, b"")
        assert asked.fields["access-control-allow-origin"] == PAGE
        assert asked.fields["access-control-allow-methods"] == "PATCH"
        assert asked.fields["access-control-allow-headers"] == "authorization,content-type"
        assert asked.fields["access-control-max-age"] == "7200"
        answer = web.ask("GET", BOOK, origin=PAGE)
        assert answer.status == 200
        assert answer.fields["access-control-allow-origin"] == PAGE
        assert "grpc-status" in answer.fields["access-control-expose-headers"]
        assert "origin" in answer.fields["vary"]
        # Errors can be read by the page too.
        missing = web.ask("GET", "/v1/shelves/1/books/999", origin=PAGE)
        assert missing.status == 404
        assert missing.fields["access-control-allow-origin"] == PAGE


def test_grpc_web_of_a_page(open_to_pages: Peer) -> None:
    with Web.open(open_to_pages, "h1") as web:
        path = "/trilane.library.v1.Library/GetBook"
        assert preflight(web, path, "POST", names="x-grpc-web,content-type").status == 204
        # Field 1: shelves/1/books/1.
        name = b"shelves/1/books/1"
        content = b"\0" + (len(name) + 2).to_bytes(4) + b"\n" + bytes([len(name)]) + name
        kind = "application/grpc-web+proto"
        answer = web.ask("POST", path, content, origin=PAGE, content_type=kind)
        assert answer.fields["access-control-allow-origin"] == PAGE
        assert b"grpc-status:0" in answer.content


def test_a_page_of_another_origin_may_not(open_to_pages: Peer) -> None:
    with Web.open(open_to_pages, "h1") as web:
        asked = preflight(web, BOOK, "GET", origin="https://other.example")
        assert asked.status == 204
        answer = web.ask("GET", BOOK, origin="https://other.example")
        assert answer.status == 200
        for found in (asked, answer):
            assert not [name for name in found.fields if name.startswith("access-control-")]
        # OPTIONS of somebody who is no page is that of HTTP.
        assert "PATCH" in web.ask("OPTIONS", BOOK).fields["allow"]


def test_all_origins_or_none(own: Own, peers: Peers, web: Web) -> None:
    assert "access-control-allow-origin" not in web.ask("GET", BOOK, origin=PAGE).fields
    peer = gateway(own, peers["grpc-go"].bases["h2c"], flags=("--cors-origin", "*"))
    with Web.open(peer, "h2") as open_to_all:
        answer = open_to_all.ask("GET", BOOK, origin=PAGE)
        assert answer.fields["access-control-allow-origin"] == "*"
        assert "vary" not in answer.fields


def test_long_answers_are_compressed(web: Web) -> None:
    plain = web.ask("GET", BOOKS, accept_encoding="identity")
    assert "content-encoding" not in plain.fields
    assert plain.fields["vary"] == "accept-encoding"
    packed = web.ask("GET", BOOKS, accept_encoding="br, gzip;q=0.5")
    assert packed.fields["content-encoding"] == "gzip"
    assert int(packed.fields["content-length"]) < len(plain.content) / 2
    # httpx has unpacked it.
    assert packed.content == plain.content
    short = web.ask("GET", BOOK, accept_encoding="gzip")
    assert "content-encoding" not in short.fields


def test_content_may_be_compressed(web: Web) -> None:
    book = {"title": "Packed", "author": "A", "pages": 3}
    content = gzip.compress(json.dumps(book).encode())
    coded = {"content_type": JSON, "content_encoding": "gzip"}
    answer = web.ask("POST", BOOKS, content, **coded)
    assert answer.status == 200, answer
    made = json.loads(answer.content)
    assert made["title"] == "Packed"
    assert web.ask("DELETE", f"/v1/{made['name']}").status == 200
    bomb = gzip.compress(b" " * (5 << 20))
    assert "expands to more than" in refusal(web.ask("POST", BOOKS, bomb, **coded), TOO_LARGE, 8)
    broken = web.ask("POST", BOOKS, content[:-1], **coded)
    assert "is not gzip" in refusal(broken, 400, 3)
    other = web.ask("POST", BOOKS, content, content_type=JSON, content_encoding="br")
    assert "has to be gzip" in refusal(other, UNSUPPORTED, 3)
    assert other.fields["accept-encoding"] == "gzip"
