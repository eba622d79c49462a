"""The library service in Python, after the comments in `proto/trilane/library/v1/library.proto`.

Beside that it has opinions about metadata, so that a client whose responses are not seen can be
tested: see `conditions`.
"""

from __future__ import annotations

import base64
import re
import threading
import time
from collections.abc import Iterator
from typing import Any, NoReturn

import grpc
from google.protobuf import field_mask_pb2

from .grpc_schema import BOOKS, SHELVES, Message, Schema

_BOOK = re.compile(r"shelves/([1-9][0-9]{0,8})/books/([1-9][0-9]{0,8})")
_SHELF = re.compile(r"shelves/([1-9][0-9]{0,8})")
_CREATED_LIMIT = 10_000
Context = Any


def conditions(context: Context) -> None:
    """Ends the call with UNAUTHENTICATED unless what the metadata says of itself is so.

    `x-blob-hex`: the bytes that came as `x-blob-bin`, in hexadecimal. `x-timeout-below`: seconds
    that the deadline of the call has to be nearer than. `x-answer: gzip` asks for compression.
    """
    found = dict(context.invocation_metadata())
    if (wanted := found.get("x-blob-hex")) is not None:
        blob = found.get("x-blob-bin", b"")
        if not isinstance(blob, bytes) or blob.hex() != wanted:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, f"x-blob-bin came as {blob!r}")
    if (limit := found.get("x-timeout-below")) is not None:
        left = context.time_remaining()
        if left is None or left > float(limit):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, f"the deadline is {left} s away")
    if found.get("x-answer") == "gzip":
        context.set_compression(grpc.Compression.Gzip)


class Library:
    """The books; one lock for all of them."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._lock = threading.Lock()
        self._created = 0
        self._shelves: dict[int, dict[int, Message]] = {
            shelf: {book: schema.book(shelf, book) for book in range(1, BOOKS + 1)}
            for shelf in range(1, SHELVES + 1)
        }

    def get_book(self, request: Message, context: Context) -> Message:
        """GetBook."""
        conditions(context)
        return self._find(request.name, context)

    def list_books(self, request: Message, context: Context) -> Message:
        """ListBooks; the token is the number of the last book, in base 64."""
        conditions(context)
        if request.page_size < 0:
            _wrong(context, "page_size is negative")
        size = min(request.page_size or 20, 100)
        after = self._token(request.page_token, context)
        with self._lock:
            books = sorted(self._shelf(request.parent, context).items())
        left = [
            (number, book)
            for number, book in books
            if number > after and self._passes(book, request.filter)
        ]
        token = ""
        if len(left) > size:
            token = base64.urlsafe_b64encode(str(left[size - 1][0]).encode()).decode()
        found = [book for _, book in left[:size]]
        return self._schema.make("ListBooksResponse", books=found, next_page_token=token)

    def create_book(self, request: Message, context: Context) -> Message:
        """CreateBook."""
        conditions(context)
        return self._create(request, context)

    def update_book(self, request: Message, context: Context) -> Message:
        """UpdateBook."""
        conditions(context)
        _bounded(request, context)
        book = self._find(request.book.name, context)
        changed = self._schema.make("Book")
        changed.CopyFrom(book)
        mask = request.update_mask
        if not mask.paths or list(mask.paths) == ["*"]:
            mask = field_mask_pb2.FieldMask(paths=[field.name for field in book.DESCRIPTOR.fields])
        mask = field_mask_pb2.FieldMask(paths=mask.paths)
        if not mask.IsValidForDescriptor(book.DESCRIPTOR):
            _wrong(context, f"update_mask names no fields of a book: {list(mask.paths)}")
        mask.MergeMessage(
            request.book, changed, replace_message_field=True, replace_repeated_field=True
        )
        changed.name = book.name
        shelf, number = self._numbers(book.name, context)
        with self._lock:
            self._shelves[shelf][number] = changed
        return changed

    def delete_book(self, request: Message, context: Context) -> Message:
        """DeleteBook."""
        conditions(context)
        self._find(request.name, context)
        shelf, number = self._numbers(request.name, context)
        with self._lock:
            self._shelves[shelf].pop(number, None)
        return self._schema.type("google.protobuf.Empty")()

    def watch_books(self, request: Message, context: Context) -> Iterator[Message]:
        """WatchBooks, without the changes: nothing here follows."""
        conditions(context)
        if request.count < 0:
            _wrong(context, "count is negative")
        with self._lock:
            books = [book for _, book in sorted(self._shelf(request.parent, context).items())]
        pause = request.interval.seconds + request.interval.nanos / 1e9
        sent = 0
        while books and context.is_active():
            for book in books:
                if sent and pause:
                    time.sleep(min(pause, max(context.time_remaining() or pause, 0)))
                yield self._schema.make("WatchBooksResponse", book=book, change=1)
                sent += 1
                if sent == request.count or not context.is_active():
                    return
            if request.count == 0:
                return

    def import_books(self, requests: Iterator[Message], context: Context) -> Message:
        """ImportBooks."""
        conditions(context)
        created = 0
        for request in requests:
            self._create(request, context)
            created += 1
        return self._schema.make("ImportBooksResponse", created=created)

    def look_up_books(self, requests: Iterator[Message], context: Context) -> Iterator[Message]:
        """LookUpBooks."""
        conditions(context)
        for request in requests:
            yield self._find(request.name, context)

    def _create(self, request: Message, context: Context) -> Message:
        _bounded(request, context)
        with self._lock:
            shelf = self._shelf(request.parent, context)
            if self._created >= _CREATED_LIMIT:
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "10,000 books were created")
            self._created += 1
            number = max(shelf, default=0) + 1
            book = self._schema.make("Book")
            book.CopyFrom(request.book)
            book.name = f"{request.parent}/books/{number}"
            shelf[number] = book
        return book

    def _find(self, name: str, context: Context) -> Message:
        shelf, number = self._numbers(name, context)
        with self._lock:
            book = self._shelves.get(shelf, {}).get(number)
        if book is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no book {name}")
        return book

    def _shelf(self, name: str, context: Context) -> dict[int, Message]:
        found = _SHELF.fullmatch(name)
        if found is None:
            _wrong(context, f"{name!r} is not shelves/{{shelf}}")
        shelf = self._shelves.get(int(found[1]))
        if shelf is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no shelf {name}")
            raise AssertionError("abort raises")
        return shelf

    @staticmethod
    def _numbers(name: str, context: Context) -> tuple[int, int]:
        found = _BOOK.fullmatch(name)
        if found is None:
            _wrong(context, f"{name!r} is not shelves/{{shelf}}/books/{{book}}")
        return int(found[1]), int(found[2])

    @staticmethod
    def _token(token: str, context: Context) -> int:
        if not token:
            return 0
        try:
            return int(base64.urlsafe_b64decode(token))
        except ValueError:
            _wrong(context, "page_token is none of mine")

    @staticmethod
    def _passes(book: Message, wanted: Message) -> bool:
        if wanted.authors and book.author not in wanted.authors:
            return False
        if wanted.HasField("read") and book.read != wanted.read:
            return False
        return bool(book.pages >= wanted.min_pages)


def _bounded(request: Message, context: Context) -> None:
    if not request.HasField("book"):
        _wrong(context, "book is missing")
    book = request.book
    if len(book.labels) > 100 or any(len(label) > 1000 for label in book.labels):
        _wrong(context, "labels: at most 100, each at most 1,000 characters")


def _wrong(context: Context, message: str) -> NoReturn:
    context.abort(grpc.StatusCode.INVALID_ARGUMENT, message)
    raise AssertionError("abort raises")
