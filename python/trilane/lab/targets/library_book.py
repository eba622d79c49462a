"""The book that every call asks for, and how to read it from an answer.

The service's definition says what each book holds (`proto/trilane/library/v1/library.proto`), so
what a server answers is checked against the formula, not against another server.
"""

from __future__ import annotations

import json
from typing import Any

from trilane.lab.model.documents import Json

_SHELF, _NUMBER = 1, 1
BOOK: Json = {
    "name": f"shelves/{_SHELF}/books/{_NUMBER}",
    "author": f"Author {(7 * _SHELF + _NUMBER) % 97}",
    "title": f"Book {_NUMBER} of shelf {_SHELF}",
    "pages": 100 + _NUMBER,
    "read": _NUMBER % 2 == 0,
}
# Field numbers of message Book.
_TEXTS = {1: "name", 2: "author", 3: "title"}
_NUMBERS = {4: "pages", 5: "read"}
_VARINT, _LENGTH = 0, 2
_VARINT_BYTES = 10
# gRPC and gRPC-Web: one byte of flags, four of length; a frame of trailers has the highest bit set.
_PREFIX = 5
_TRAILERS = 0x80


class WrongBook(ValueError):
    """An answer that is not the book; the message says what it is instead."""


def request() -> bytes:
    """GetBookRequest in its binary encoding: field 1, length-delimited."""
    name = str(BOOK["name"]).encode()
    return bytes([1 << 3 | _LENGTH, len(name)]) + name


def check(answer: Json) -> None:
    """Raises `WrongBook` unless it is the book; fields with their default values may be missing."""
    for field, wanted in BOOK.items():
        got = answer.get(field, type(wanted)())
        if got != wanted or type(got) is not type(wanted):
            raise WrongBook(f"{field} is {got!r} instead of {wanted!r}")
    for field, value in answer.items():
        if field not in BOOK and value not in (None, [], {}, "", 0):
            raise WrongBook(f"{field} is {value!r}, but the book has none")


def of_json(content: bytes) -> Json:
    """The book in an answer in JSON; raises `WrongBook`."""
    try:
        value: Any = json.loads(content)
    except ValueError as error:
        raise WrongBook(f"{content[:80]!r} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise WrongBook(f"{content[:80]!r} is not a JSON object")
    return value


def of_protobuf(content: bytes) -> Json:
    """The book in its binary encoding.

    Varints and length-delimited fields are all that the first five fields of a book need
    (https://protobuf.dev/programming-guides/encoding).

    Raises:
        WrongBook: the content ends within a field, or a field has another encoding.
    """
    book: Json = {}
    place = 0
    while place < len(content):
        tag, place = _varint(content, place)
        field, kind = tag >> 3, tag & 7
        if kind not in (_VARINT, _LENGTH):
            raise WrongBook(f"{content[:80]!r} has a field {field} of wire type {kind}")
        value, place = _varint(content, place)
        if kind == _VARINT:
            name = _NUMBERS.get(field, f"field {field}")
            book[name] = bool(value) if name == "read" else value
            continue
        if place + value > len(content):
            raise WrongBook(f"{content[:80]!r} ends within field {field}")
        name = _TEXTS.get(field, f"field {field}")
        book[name] = content[place : place + value].decode(errors="replace")
        place += value
    return book


def of_frames(content: bytes) -> tuple[Json, str]:
    """The book of the one message in an answer of gRPC or gRPC-Web, and the text of its trailers.

    gRPC has its trailers elsewhere: their text is empty.

    Raises:
        WrongBook: the frames are cut or compressed, or hold another number of messages than one.
    """
    books, trailers, place = [], "", 0
    while place < len(content):
        if place + _PREFIX > len(content):
            raise WrongBook(f"{content[:80]!r} ends within a prefix")
        flags, length = content[place], int.from_bytes(content[place + 1 : place + _PREFIX], "big")
        message = content[place + _PREFIX : place + _PREFIX + length]
        if len(message) != length:
            raise WrongBook(f"{content[:80]!r} ends within a message of {length} bytes")
        if flags == 0:
            books.append(message)
        elif flags == _TRAILERS:
            trailers = message.decode(errors="replace")
        else:
            raise WrongBook(f"a message has the flags {flags}, but none was to be compressed")
        place += _PREFIX + length
    if len(books) != 1:
        raise WrongBook(f"there are {len(books)} messages instead of one")
    return of_protobuf(books[0]), trailers


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(content[place : place + _VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, place + index + 1
    raise WrongBook(f"{content[:80]!r} is not a protobuf message")
