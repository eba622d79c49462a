"""Callers that do more than ask once: what they must see, where a line of the table is too short.

Each is named by what it checks, and used by the row of that name.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import repeat
from tempfile import TemporaryFile
from typing import Any

import pytest

from client.waits import PATIENCE_S, until
from trilane.client.errors import ConnectionClosed, InvalidRequest, StreamReset

from .answers import answered, content, cuts, head, is_silent
from .behaviour import Cell
from .faces import Asks

BLOCK = bytes(range(256)) * 256
LARGE = 3 << 20
"""More than the window of a stream, and than what is handed over with a request."""


def one_connection(cell: Cell) -> None:
    ids = [cell.ask().request_id for _ in range(5)]
    first, step = {"h1": (1, 1), "h2": (1, 2), "h3": (0, 4)}[cell.version]
    assert ids == [first + step * number for number in range(5)]
    assert len({got.connection for got in cell.script.got}) == 1


def as_it_was_asked(cell: Cell) -> None:
    cell.ask()
    (got,) = cell.script.got
    assert (got.method, got.target) == (cell.asks.method, f"{cell.path}{cell.asks.path}")
    for name, value in cell.asks.fields:
        assert got.values(name.lower()) == [value]
    assert got.values("host") == [cell.base.partition("://")[2]]


def whole_content(cell: Cell) -> None:
    with TemporaryFile() as file:
        file.write(b"skipped" + BLOCK)
        file.seek(len(b"skipped"))
        kinds: list[tuple[Any, bytes]] = [
            *((kind(BLOCK), BLOCK) for kind in (bytes, bytearray, memoryview, io.BytesIO)),
            *((file, BLOCK), ("ASCII alone", b"ASCII alone"), (b"", b"")),
        ]
        for given, expected in kinds:
            assert cell.ask(content=given).content == expected
            got = cell.script.got[-1]
            assert bytes(got.content) == expected
            if not hasattr(given, "read"):
                assert got.values("content-length") == [str(len(expected))]


def content_in_blocks(cell: Cell) -> None:
    for blocks in ([b"", *(BLOCK[at : at + 1000] for at in range(0, len(BLOCK), 1000))], []):
        expected = b"".join(blocks)
        for given in (iter(blocks), cell.face.content(lambda: blocks)):  # noqa: B023 - at once
            assert cell.ask(content=given).content == expected
            assert cell.script.got[-1].values("content-length") == []


def trailers_of_the_request(cell: Cell) -> None:
    cell.ask()
    assert cell.script.got[0].trailers == [("x-sum", "1")]
    assert cell.script.got[0].content == b"hello"


def nothing_was_sent_of_it(cell: Cell) -> None:
    assert cell.ask().status == 417
    assert cell.script.got[0].content == b""


def as_it_comes(cell: Cell) -> None:
    with cell.begin() as response:
        assert response.status == 200
        assert response.read(0) == b""
        assert response.read(6) == b"hello "
        cell.script.go_on()
        assert response.read(3) == b"wor"
        assert response.read() == b"ld"
        assert response.read() == b""


def the_rest_is_not_missed(cell: Cell) -> None:
    with cell.begin() as response:
        assert response.read(5) == b"hello"


def closed_here(cell: Cell) -> None:
    with cell.begin() as response:
        assert response.read(5) == b"hello"
        cell.face.close()
        with pytest.raises(ConnectionError):
            response.read()


def before_its_content_was_sent(cell: Cell) -> None:
    for given in (repeat(BLOCK), cell.face.content(lambda: repeat(BLOCK))):
        with cell.begin(content=given) as response:
            assert (response.status, response.read()) == (413, b"no")


class MineError(Exception):
    """What a caller's own code raises."""


def its_own_error(cell: Cell) -> None:
    def broken() -> Iterator[bytes]:
        yield b"some"
        until(lambda: cell.script.got)
        raise MineError

    for given in (broken(), cell.face.content(broken)):
        with pytest.raises(MineError):
            cell.ask(content=given)


def too_little_or_too_much(cell: Cell) -> None:
    fields = (("content-length", "3"),)
    for blocks in ([b"ab"], [b"ab", b"cd"]):
        for given in (iter(blocks), cell.face.content(lambda: blocks)):  # noqa: B023 - at once
            with pytest.raises(InvalidRequest, match=r"1 bytes (shorter|.*longer)"):
                cell.ask(content=given, fields=fields)


def refused_before_it_is_sent(cell: Cell) -> None:
    for field in (("X", "a\r\nY: b"), ("X\r\nY", "a"), ("X", "a\0"), ("", "a"), ("X Y", "a")):
        with pytest.raises(ValueError):  # noqa: PT011 - http.client's own, or InvalidRequest
            cell.ask(fields=(field,))
    with pytest.raises(ValueError):  # noqa: PT011
        cell.ask(method="GET / HTTP/1.1\r\nX: y")
    assert cell.script.got == []


def by_a_new_connection(cell: Cell) -> None:
    for _ in range(3):
        assert cell.ask().content == b"hello world"
        assert cell.script.ended.acquire(timeout=PATIENCE_S)
    assert len({got.connection for got in cell.script.got}) == 3


def once_more(cell: Cell) -> None:
    for _ in range(2):
        assert cell.ask().content == b"hello world"
    assert len(cell.script.got) == 3


def a_likely_loss(cell: Cell) -> None:
    assert cell.ask().content == b"hello world"
    with pytest.raises(ConnectionClosed) as caught:
        cell.ask()
    assert caught.value.retryable
    assert len(cell.script.got) == 2


def the_others_go_on(cell: Cell) -> None:
    slow = cell.script
    with cell.begin() as response:
        assert response.read(1) == b"h"
        cell.set([[cuts], answered()])
        with pytest.raises(StreamReset):
            cell.ask()
        assert cell.ask().content == b"hello world"
        slow.go_on()
        assert response.read() == b"ello world"
    assert {got.connection for got in cell.script.got} == {slow.got[0].connection}


def the_other_is_read(cell: Cell) -> None:
    with cell.begin() as response:
        assert response.read(1) == b"h"
        slow = cell.script
        cell.set([[head(), content(b"hello"), is_silent], answered()])
        with cell.begin() as other:
            assert other.read(5) == b"hello"
        slow.go_on()
        assert response.read() == b"ello world"
    assert {got.connection for got in cell.script.got} == {slow.got[0].connection}


def large_content(cell: Cell) -> None:
    whole = cell.face.ask(f"{cell.ours}/bytes/{LARGE}", cell.asks).content
    # It repeats after a mebibyte.
    assert whole == whole[: 1 << 20] * 3
    assert cell.face.ask(f"{cell.ours}/echo", Asks("POST", content=whole)).content == whole


def an_echo_of_any_length(cell: Cell) -> None:
    given = cell.face.content(lambda: [BLOCK] * 64)
    seen = cell.face.ask(f"{cell.ours}/echo", Asks("POST", content=given))
    assert seen.content == BLOCK * 64


def others_do_not_wait(cell: Cell) -> None:
    with cell.face.begin(f"{cell.ours}/bytes/{LARGE}", cell.asks) as slow:
        assert len(slow.read(10)) == 10
        for _ in range(10):
            seen = cell.face.ask(f"{cell.ours}/bytes/100k", cell.asks)
            assert len(seen.content) == 102_400
        assert len(slow.read()) == LARGE - 10


def each_its_own(cell: Cell) -> None:
    whole = cell.face.ask(f"{cell.ours}/bytes/100000", cell.asks).content
    sizes = range(0, 100_000, 2_000)
    contents = cell.face.together([f"{cell.ours}/bytes/{size}" for size in sizes])
    assert contents == [whole[:size] for size in sizes]
