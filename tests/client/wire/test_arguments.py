"""Arguments of every wrong kind: an exception, never a panic, which would end the process."""

from __future__ import annotations

import array
import math
from collections.abc import Callable

import pytest

from peers.process import HOST, free_port
from trilane import _core
from trilane.client import errors

REFUSED = (errors.Error, TypeError, ValueError, OverflowError, BufferError)
NUMBERS: list[object] = [
    math.nan,
    math.inf,
    -math.inf,
    -1,
    1e300,
    1e-320,
    1 << 31,
    1 << 63,
    1 << 64,
    -(1 << 63),
    1 << 100,
    "1",
    None,
    b"",
]


def _survives(call: Callable[[], object]) -> bool:
    """Whether it returned; what it raises has to be one of the expected, with words."""
    try:
        call()
    except REFUSED as error:
        if not str(error):
            raise
        return False
    return True


@pytest.fixture(params=["h1", "h2"])
def exchange(request: pytest.FixtureRequest) -> _core.Exchange:
    connection = _core.Connection.memory(request.param)
    return connection.submit("POST", "/", [], streaming=True)


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_numbers(exchange: _core.Exchange, number: object) -> None:
    # A connection in memory never waits, however long it may.
    given: list[Callable[[], object]] = [
        lambda: exchange.head(number),  # type: ignore[arg-type]
        lambda: exchange.read(5, number),  # type: ignore[arg-type]
        lambda: exchange.read(number, 0),  # type: ignore[arg-type]
        lambda: exchange.read1(number, 0),  # type: ignore[arg-type]
        lambda: exchange.watch(number),  # type: ignore[arg-type]
        lambda: exchange.wait_informational(number),  # type: ignore[arg-type]
    ]
    assert not any(_survives(call) for call in given)
    # The content may be written at once, whatever the limit.
    _survives(lambda: exchange.write(b"x", number))  # type: ignore[arg-type]


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
@pytest.mark.parametrize("name", ["timeout", "race", "port"])
def test_numbers_of_connect(name: str, number: object) -> None:
    port = free_port()
    given: dict[str, object] = {"timeout": 2.0, "race": 0.1, "port": port, name: number}
    assert not _survives(
        lambda: _core.connect(  # type: ignore[call-overload]
            HOST,
            versions=("h3", "h2"),
            tls=_core.Tls(insecure=True),
            **given,
        )
    )


@pytest.mark.parametrize(
    "buffer",
    [b"abc", memoryview(b"abc"), memoryview(bytearray(9))[::2], "text", None, 5, array.array("i")],
    ids=["bytes", "view", "stepped view", "text", "none", "number", "array"],
)
def test_buffers(exchange: _core.Exchange, buffer: object) -> None:
    _survives(lambda: exchange.readinto(buffer, 0))  # type: ignore[arg-type]
    _survives(lambda: exchange.write(buffer, 0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields",
    [
        [("a",)],
        [("a", "b", "c")],
        ["ab"],
        "ab",
        [1],
        None,
        5,
        [("a", 1)],
        [("é", "b")],
        [("a", "€")],
        {"a": "b"},
        [("", "")],
        [("a\n", "")],
        [("a", "\0")],
    ],
    ids=repr,
)
@pytest.mark.parametrize("version", ["h1", "h2"])
def test_fields(version: str, fields: object) -> None:
    connection = _core.Connection.memory(version)
    assert not _survives(
        lambda: connection.submit("GET", "/", fields)  # type: ignore[arg-type]
    )
    # The connection is as good as new.
    assert _survives(lambda: connection.submit("GET", "/", []))


@pytest.mark.parametrize("text", ["", " ", "€", "\0", "a b", "a\r\nb", "\ud800", None, b"x", 5])
def test_texts(text: object) -> None:
    connection = _core.Connection.memory("h2")
    given: list[Callable[[], object]] = [
        lambda: connection.submit(text, "/", []),  # type: ignore[arg-type]
        lambda: connection.submit("GET", text, []),  # type: ignore[arg-type]
        lambda: _core.Connection.memory(text),  # type: ignore[arg-type]
        lambda: _core.Connection.memory("h1", scheme=text),  # type: ignore[arg-type]
        lambda: _core.connect(text, 1, timeout=0.5),  # type: ignore[call-overload]
        lambda: _core.Decoder([text]),  # type: ignore[list-item]
    ]
    assert not any(_survives(call) for call in given)


@pytest.mark.parametrize(
    "certificates",
    [
        {"certificate": ("a", b"")},
        {"certificate": ("a", b"x"), "key": ("b", b"y")},
        {"authorities": [("a", b"junk")]},
        {"authorities": [("a", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")]},
        {"key": ("a", b"")},
        {"authorities": "a"},
        {"certificate": b"a"},
    ],
    ids=repr,
)
def test_certificates(certificates: dict[str, object]) -> None:
    assert not _survives(
        lambda: _core.Tls(platform=False, **certificates)  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("made", [_core.Connection, _core.Exchange])
def test_what_only_the_library_makes(made: type) -> None:
    with pytest.raises(TypeError):
        made()
