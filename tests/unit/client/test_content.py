"""Content, timeouts and fields: what callers give becomes what is sent."""

from __future__ import annotations

import array
import io
import os
from pathlib import Path

import pytest

from trilane.client._flow.content import AT_ONCE, BLOCK, Block, Content, Upload, upload
from trilane.client._flow.request import Request
from trilane.client._flow.timeouts import TimeoutGiven, Timeouts, timeouts
from trilane.client.errors import InvalidRequest
from trilane.client.fields import Headers


def _all(given: Upload) -> bytes:
    return b"".join(bytes(block) for block in given.blocks())


@pytest.mark.parametrize(
    ("content", "method", "sent"),
    [
        (None, "GET", None),
        (None, "DELETE", None),
        (None, "POST", b""),
        (b"", "GET", b""),
        ("ü", "POST", b"\xc3\xbc"),
        (bytearray(b"ab"), "POST", b"ab"),
        (memoryview(b"abcd")[::2], "POST", b"ac"),
        (array.array("H", [1, 2]), "POST", array.array("H", [1, 2]).tobytes()),
    ],
)
def test_content_in_memory_goes_with_the_head(
    content: Content, method: str, sent: bytes | None
) -> None:
    if isinstance(content, array.array):
        content = memoryview(content)
    assert upload(content, method) == (sent, None)


def test_large_content_in_memory_is_not_copied_at_once() -> None:
    large = bytes(AT_ONCE + 1)
    body, following = upload(large, "POST")
    assert body is None
    assert following is not None
    assert following.length == len(large)
    assert _all(following) == large
    assert following.replayable
    assert _all(following) == large
    assert max(len(block) for block in following.blocks()) == BLOCK


def test_a_file_is_sent_from_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        file.seek(4)
        _, following = upload(file, "PUT")
        assert following is not None
        assert following.length == 6
        assert _all(following) == b"456789"
        assert following.replayable
        assert _all(following) == b"456789"
    with path.open(encoding="utf-8") as text:
        _, following = upload(text, "PUT")
        assert following is not None
        assert following.length is None
        assert _all(following) == b"0123456789"


def test_a_pipe_is_sent_once() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as file:
        os.write(writing, b"once")
        os.close(writing)
        _, following = upload(file, "PUT")
        assert following is not None
        assert following.length is None
        assert following.replayable
        assert _all(following) == b"once"
        assert not following.replayable


def test_an_object_that_only_reads() -> None:
    class Reader:
        def __init__(self) -> None:
            self.left = io.BytesIO(b"content")

        def read(self, amount: int) -> bytes:
            return self.left.read(amount)

    _, following = upload(Reader(), "PUT")
    assert following is not None
    assert _all(following) == b"content"
    assert not following.replayable


def test_a_file_whose_seek_says_nothing() -> None:
    class Quiet(io.BytesIO):
        def seek(self, *where: int) -> None:  # type: ignore[override]
            super().seek(*where)

    file = Quiet(b"skipped content")
    file.seek(8)
    _, following = upload(file, "PUT")
    assert following is not None
    assert following.length == 7
    assert _all(following) == b"content"
    assert following.replayable
    assert _all(following) == b"content"


def test_an_iterable_is_sent_once_and_a_list_too() -> None:
    blocks: list[Block | str] = [b"a", b"", "ü"]
    for content in (iter(blocks), blocks):
        _, following = upload(content, "PUT")
        assert following is not None
        assert following.length is None
        assert following.replayable
        assert _all(following) == b"a\xc3\xbc"
        assert not following.replayable


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (..., Timeouts()),
        (None, Timeouts(None, None, None, None)),
        (3, Timeouts(3.0, 3.0, 3.0, 3.0)),
        ((1, None), Timeouts(1, None, None, 1)),
        (Timeouts(read=2), Timeouts(10.0, 2, 60.0, 60.0)),
    ],
)
def test_timeouts(given: TimeoutGiven, meant: Timeouts) -> None:
    assert timeouts(given, Timeouts()) == meant


@pytest.mark.parametrize("given", [-1, float("nan"), Timeouts(pool=-0.5)])
def test_timeouts_out_of_range(given: TimeoutGiven) -> None:
    with pytest.raises(ValueError, match="give 0 or more"):
        timeouts(given, Timeouts())


def test_headers_have_no_case_and_several_values() -> None:
    headers = Headers([("Set-Cookie", "a=1"), ("X", "1"), ("set-cookie", "b=2")])
    assert headers["SET-COOKIE"] == "a=1, b=2"
    assert headers.get_all("Set-cookie") == ["a=1", "b=2"]
    assert headers.get_all("none") == []
    assert headers.get("none") is None
    assert "x" in headers
    assert list(headers) == ["set-cookie", "x"]
    assert len(headers) == 2
    assert headers.pairs[0] == ("Set-Cookie", "a=1")
    assert "Set-Cookie" in repr(headers)


def test_what_the_fields_say_about_the_sending() -> None:
    request = Request(
        "POST", "/", "a", [("Expect", "100-Continue"), ("Content-Length", "3")], iter([b"abc"])
    )
    request.believe()
    assert request.expects
    assert request.length is None
    request = Request("POST", "/", "a", [(b"transfer-encoding", b" Chunked")], b"abc")
    request.believe()
    assert request.fields == []
    assert request.upload is not None
    assert request.length is None
    with pytest.raises(InvalidRequest, match="only chunked"):
        Request("POST", "/", "a", [("transfer-encoding", "gzip, chunked")], b"a").believe()


def test_nothing_is_expected_without_content() -> None:
    request = Request("GET", "/", "a", [("expect", "100-continue")])
    request.believe()
    request.expect_continue()
    assert not request.expects
    assert request.fields == []
