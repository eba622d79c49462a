"""What is read of a response, alike by both clients: text, lines, limits, and errors that stay."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pytest

from trilane.client._flow.whole import Bounds
from trilane.client.errors import (
    DecodingError,
    Error,
    IncompleteBody,
    LimitExceeded,
    LocalError,
    ReadTimeout,
)

from .replies import KINDS, Make, Scripted

GZIP = [("content-encoding", "gzip")]


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Make:
    """What makes a response of either client."""
    return KINDS[request.param]


@pytest.mark.parametrize(
    ("content_type", "name"),
    [
        ("text/plain", "utf-8"),
        ("text/plain; charset=latin-1", "iso8859-1"),
        ("text/plain;CHARSET = 'x'", "utf-8"),
        ('text/plain; charset = "Latin-1"; x=y', "iso8859-1"),
        ("text/plain; charset=latin-1;x=y", "iso8859-1"),
        # A parameter of another name.
        ("text/plain; notcharset=latin-1", "utf-8"),
        ("text/plain; charset=unheard-of", "utf-8"),
        # Python has these, and none of them makes text of content.
        *((f"text/plain; charset={name}", "utf-8") for name in ("hex", "base64", "zip", "rot13")),
        *((f"text/plain; charset={name}", "utf-8") for name in ("idna", "punycode", "undefined")),
        ("text/plain; charset=unicode_escape", "utf-8"),
        ("text/plain; charset=raw_unicode_escape", "utf-8"),
    ],
)
def test_the_encoding_of_text(make: Make, content_type: str, name: str) -> None:
    content = b"gr\xc3\xbc\xdfe \\x41\\"
    response = make(Scripted([content], [("content-type", content_type)]))
    assert response.charset == name
    assert response.text == content.decode(name, "replace")
    assert list(response.iter_lines()) == [content.decode(name, "replace")]


@pytest.mark.parametrize("content_type", ["application/json", "text/json; charset=latin-1"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32-le", "latin-1"])
def test_json_in_the_encoding_that_it_is_in(make: Make, encoding: str, content_type: str) -> None:
    response = make(Scripted(['"grün"'.encode(encoding)], [("content-type", content_type)]))
    assert response.content
    if (encoding, content_type) == ("latin-1", "application/json"):
        with pytest.raises(UnicodeDecodeError):
            response.json()
    else:
        assert response.json() == "grün"


def test_json_in_an_encoding_that_was_set(make: Make) -> None:
    made = make(Scripted(['"щ"'.encode("koi8-r")], []))
    assert made.content
    with pytest.raises(UnicodeDecodeError):
        made.json()
    response: Any = getattr(made, "_response", made)
    response.encoding = "koi8-r"
    assert response.json() == "щ"
    response.encoding = "utf-8"
    with pytest.raises(ValueError, match="'utf-8' codec can't decode"):
        response.json()


def test_json_lines_may_begin_with_a_mark(make: Make) -> None:
    response = make(Scripted([b"\xef\xbb\xbf{}\n\n", b"1\n"], []))
    assert list(response.iter_json_lines()) == [{}, 1]


@pytest.mark.parametrize("step", [1, 2, 3, 100])
def test_lines_however_they_come(make: Make, step: int) -> None:
    content = "one\ntwo\r\nthrée\rfour\n\n\nlast".encode()
    pieces = [content[at : at + step] for at in range(0, len(content), step)]
    lines = list(make(Scripted(pieces)).iter_lines())
    assert lines == ["one", "two", "thrée", "four", "", "", "last"]
    assert list(make(Scripted([b"one\n"])).iter_lines()) == ["one"]
    assert list(make(Scripted([])).iter_lines()) == []


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_line_without_end_is_refused(make: Make, size: int) -> None:
    content = b"short\n" + b"x" * 11 + b"\nshort"
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    assert len(list(make(Scripted(pieces), Bounds(11)).iter_lines())) == 3
    response = make(Scripted(pieces), Bounds(10))
    with pytest.raises(LimitExceeded, match=r"a line .*http://a/ .*max_content=10 characters"):
        list(response.iter_lines())


READERS: dict[str, Callable[[Any], object]] = {
    "content": lambda response: response.content,
    "read": lambda response: response.read(),
    "read some": lambda response: response.read(100),
    "read what is there": lambda response: [response.read1(100), response.read1(100)],
    "iter_bytes": lambda response: list(response.iter_bytes()),
    "iter_bytes of a size": lambda response: list(response.iter_bytes(100)),
    "iter_raw": lambda response: list(response.iter_raw()),
    "iter_lines": lambda response: list(response.iter_lines()),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("again", READERS)
def test_an_error_stays(make: Make, reader: str, again: str) -> None:
    response = make(Scripted([b"hello", ReadTimeout("late", stream_id=1)]))
    with pytest.raises(ReadTimeout):
        READERS[reader](response)
    # An end here would be taken for that of the content.
    for _ in range(2):
        with pytest.raises(ReadTimeout, match=r"http://a/ sent no more .* within 7\.0 s") as caught:
            READERS[again](response)
        assert caught.value.stream_id == 1


@pytest.mark.parametrize(
    ("steps", "fields", "bounds", "error"),
    [
        ([b"hello", IncompleteBody("cut")], [], Bounds(), IncompleteBody),
        ([b"no gzip"], GZIP, Bounds(), DecodingError),
        ([gzip.compress(b"hello world")[:-3]], GZIP, Bounds(), DecodingError),
        ([b"hello", b" world"], [], Bounds(whole=6), LimitExceeded),
        ([b"hello", b" world"], [], Bounds(decoded=6), DecodingError),
        ([b"hello", KeyboardInterrupt()], [], Bounds(), LocalError),
    ],
)
def test_content_that_could_not_be_read_is_not_empty(
    make: Make,
    steps: list[bytes | BaseException],
    fields: list[tuple[str, str]],
    bounds: Bounds,
    error: type[Error],
) -> None:
    response = make(Scripted(steps, fields), bounds)
    first = KeyboardInterrupt if error is LocalError else error
    with pytest.raises(first):
        assert response.content
    with pytest.raises(error) as caught:
        assert response.content
    assert response.is_closed or make is KINDS["asyncio"]
    if isinstance(caught.value, IncompleteBody):
        assert caught.value.partial == b"hello"


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("reader", READERS)
def test_content_that_was_given_up_is_not_empty(make: Make, reader: str, begun: bool) -> None:
    response = make(Scripted([b"hello", b" world"]))
    if begun:
        assert response.read1(2) == b"he"
    response.close()
    for _ in range(2):
        with pytest.raises(LocalError, match=r"http://a/ was closed before all .* read it first"):
            READERS[reader](response)


def test_closing_gives_up_no_content_where_none_is_left(make: Make) -> None:
    empty = make(Scripted([]))
    empty.close()
    assert empty.content == b""
    pieces = make(Scripted([b"hello"]))
    assert pieces.read1() == b"hello"
    pieces.close()
    assert pieces.read1() == b""
    whole = make(Scripted([b"hello"], lie=True))
    assert whole.content == b"hello"
    whole.close()
    assert whole.content == whole.read() == b"hello"
    # All of it has come, and waits for the rest to be asked for.
    coded = make(Scripted([gzip.compress(b"hello world")], GZIP))
    assert coded.read1(5) == b"hello"
    coded.close()
    assert coded.read1() == b" world"


def test_what_came_before_a_cut_is_in_the_error(make: Make) -> None:
    cut = IncompleteBody("cut", partial=b"!")
    for reader in ("read some", "content", "iter_bytes of a size"):
        response = make(Scripted([b"hello", b" ", b"world", cut]))
        with pytest.raises(IncompleteBody) as caught:
            READERS[reader](response)
        assert caught.value.partial == b"hello world!"


@pytest.mark.parametrize("comes", ["at once", "in pieces", "announced"])
@pytest.mark.parametrize(
    ("whole", "decoded", "error"),
    [(5, 8, LimitExceeded), (8, 5, DecodingError), (5, 5, DecodingError), (5, None, LimitExceeded)],
)
def test_the_smaller_limit_is_the_one_that_counts(
    make: Make, comes: str, whole: int, decoded: int | None, error: type[Error]
) -> None:
    """However much of the content has come before it is read."""
    fields = [("content-length", "11")] if comes == "announced" else []
    exchange = Scripted([b"hello", b" world"], fields, lie=comes == "at once")
    response = make(exchange, Bounds(whole, decoded))
    with pytest.raises(error):
        response.load_at_once()


def test_coded_content_that_announces_too_much_is_refused(make: Make) -> None:
    fields = [*GZIP, ("content-length", "11")]
    with pytest.raises(LimitExceeded):
        make(Scripted([b"x" * 11], fields), Bounds(10, 5)).load_at_once()


def test_the_read_limit_is_for_each_wait() -> None:
    for read in (
        lambda response: response.content,
        lambda response: response.read(11),
        b"".join,
        lambda response: b"".join(response.iter_raw()),
    ):
        exchange = Scripted([b"hello", b" ", b"world"])
        assert read(KINDS["blocking"](exchange)) == b"hello world"
        assert exchange.limits == [7.0] * 3


def test_trailers_are_there_when_the_content_has_been_read(make: Make) -> None:
    """Though they may have come before."""

    class Trailing(Scripted):
        def trailers(self) -> list[tuple[str, str]]:
            return [("x-sum", "1")]

    response = make(Trailing([b"hello"], lie=True))
    assert response.trailers == {}
    assert response.content == b"hello"
    assert response.trailers == {"x-sum": "1"}
