"""Responses that travel between processes, and stay when their connections are gone."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from typing import Any

import pytest

from client.face import AnyClient, AnyResponse, Each, LoopResponse
from peers.peer import Peer
from trilane.client import errors


def own(response: AnyResponse) -> Any:
    """The response that users have."""
    return response.asynchronous if isinstance(response, LoopResponse) else response


HEAD = ("status", "reason", "method", "url", "version", "stream_id", "fields", "informational")


def test_a_response_that_was_read_travels(each: Each) -> None:
    client, version, base = each
    place = base.replace("://", "://me:secret@")
    response = own(client.get(f"{place}/bytes/1000"))
    kept = pickle.dumps(response)
    assert b"secret" not in kept
    again = pickle.loads(kept)  # noqa: S301 - our own
    assert type(again) is type(response)
    assert [getattr(again, name) for name in HEAD] == [getattr(response, name) for name in HEAD]
    assert again.version == version
    assert again.headers == response.headers
    assert again.trailers == response.trailers
    assert again.content == response.content
    assert len(again.content) == 1000
    assert again.is_closed
    request = again.request
    assert (request.method, request.url) == ("GET", response.url)
    assert request.headers["accept-encoding"] == response.request.headers["accept-encoding"]
    assert "authorization" in response.request.headers
    assert "authorization" not in request.headers
    assert repr(again) == repr(response)
    again.close()
    assert copy.copy(response).content == copy.deepcopy(response).content == response.content


def test_it_reads_as_before(each: Each) -> None:
    client, _, base = each
    kept = pickle.dumps(own(client.get(f"{base}/hello")))
    again = pickle.loads(kept)  # noqa: S301 - our own
    assert (again.text, again.is_success, again.charset) == ("hello world", True, "utf-8")
    if hasattr(again, "iter_bytes"):
        assert b"".join(again.iter_bytes(3)) == b"".join(again.iter_raw(2)) == b"hello world"
        assert list(again.iter_lines()) == ["hello world"]
        assert (again.read(5), again.read()) == (b"hello", b" world")


def test_it_travels_to_another_process(client: AnyClient, server: Peer) -> None:
    response = own(client.get(server.url("h2")))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_content, (response,)) == b"hello world"


def _content(response: Any) -> bytes:
    content: bytes = response.content
    return content


def test_one_that_was_not_read_says_so(each: Each) -> None:
    client, _, base = each
    with client.stream("GET", f"{base}/bytes/1000") as response:
        with pytest.raises(errors.LocalError, match=r"before all of its content has been read"):
            pickle.dumps(own(response))
        assert len(response.read(10)) == 10
        with pytest.raises(errors.LocalError, match=r"before all of its content has been read"):
            copy.copy(own(response))
