"""Content that was coded: gzip and others are undone, within limits."""

from __future__ import annotations

import gzip
import zlib

import pytest

from client.face import AnyClient, MakeClient
from peers import chaos
from trilane.client import errors

TEXT = b"some text, and more of it. " * 5000


@pytest.fixture
def one(make_client: MakeClient) -> AnyClient:
    return make_client()


def _coded(coding: str, content: bytes) -> chaos.Script:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(content)}\r\n"
    return chaos.answer(head.encode() + b"\r\n" + content, then="go on")


CODED = {
    "gzip": gzip.compress(TEXT),
    "X-GZIP": gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "gzip, identity, deflate": zlib.compress(gzip.compress(TEXT)),
    "identity": TEXT,
    "rot13": TEXT,
}


@pytest.mark.parametrize("coding", CODED)
def test_content_is_decoded(one: AnyClient, coding: str) -> None:
    content = CODED[coding]
    with chaos.serve(_coded(coding, content)) as server:
        assert one.get(server.base).content == TEXT
        with one.stream("GET", server.base) as response:
            assert response.read(10) == TEXT[:10]
            assert b"".join(response.iter_bytes(100)) == TEXT[10:]
        with one.stream("GET", server.base) as response:
            assert b"".join(response.iter_raw(5000)) == content
        assert one.get(server.base, decode=False).content == content
        with one.send("GET", server.base) as response:
            assert response.read() == content
        assert server.connections == 1


def test_content_that_was_decoded_is_given_again_decoded(one: AnyClient) -> None:
    with chaos.serve(_coded("gzip", gzip.compress(TEXT))) as server:
        response = one.get(server.base)
        assert b"".join(response.iter_bytes(100)) == b"".join(response) == TEXT
        with pytest.raises(errors.LocalError, match=r"decode=False"):
            list(response.iter_raw())


def test_content_in_a_broken_coding(one: AnyClient) -> None:
    for content in (b"no gzip", gzip.compress(TEXT)[:-10]):
        with chaos.serve(_coded("gzip", content)) as server, pytest.raises(errors.DecodingError):
            one.get(server.base)


def test_a_bomb_is_defused(one: AnyClient) -> None:
    bomb = gzip.compress(gzip.compress(bytes(20 << 20), 9), 9)
    with chaos.serve(_coded("gzip, gzip", bomb)) as server, pytest.raises(errors.DecodingError):
        one.get(server.base)


def test_decoded_content_has_the_callers_limit(make_client: MakeClient) -> None:
    with (
        chaos.serve(_coded("gzip", gzip.compress(TEXT))) as server,
        pytest.raises(errors.DecodingError, match="1000"),
    ):
        make_client(max_decoded=1000).get(server.base)
