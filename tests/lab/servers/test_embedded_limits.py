"""What the library service does when there is too much, and when it is told to end."""

from __future__ import annotations

import itertools
import queue
import signal
import threading
from collections.abc import Callable
from typing import Any

import grpc

from peers.grpc_schema import Schema
from peers.peer import Peer

from .library import PATIENCE_S, Library, refused

Start = Callable[[str], Peer]
MOST_CREATED = 10_000
# In a debug build on a busy machine.
LONG_S = 120.0


def test_books_without_end(library_server: Start, schema: Schema) -> None:
    # A server of its own: it takes no more books afterwards.
    with Library.open(library_server("embedded full"), "h2c", schema) as library:
        make = schema.make
        request = make("CreateBookRequest", parent="shelves/1", book={"title": "x"})
        requests = itertools.repeat(request, MOST_CREATED)
        assert library.stub("ImportBooks")(requests, timeout=LONG_S).created == MOST_CREATED
        code, message = library.refusal("CreateBook", parent="shelves/1", book={})
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED, message
        assert f"{MOST_CREATED:,}" in message or str(MOST_CREATED) in message
        assert library.refusal("CreateBook", parent="shelves/2", book={})[0] is code
        # What is there can be read, changed and removed; that makes room.
        assert library.get("shelves/1/books/100") == schema.book(1, 100)
        library.ask("DeleteBook", name="shelves/1/books/101")
        assert library.ask("CreateBook", parent="shelves/2", book={}).name


def test_many_followers(library_server: Start, schema: Schema) -> None:
    with Library.open(library_server("embedded"), "h2c", schema) as library:
        calls = [library.watch(parent="shelves/5", follow=True) for _ in range(200)]
        for call in calls:
            assert next(call).book.name == "shelves/5/books/1"
        assert library.get("shelves/1/books/1").pages == 101
        for call in calls:
            call.cancel()


def test_the_server_ends_while_streams_are_open(library_server: Start, schema: Schema) -> None:
    peer = library_server("embedded ending")
    ended: list[grpc.StatusCode] = []
    asked: queue.Queue[str | None] = queue.Queue()

    def read(call: Any) -> None:
        code, _ = refused(lambda: list(call))
        ended.append(code)

    with Library.open(peer, "h2c", schema) as library:
        calls = [
            library.watch(parent="shelves/5", follow=True, timeout=LONG_S),
            library.watch(parent="shelves/5", count=10**6, interval={"nanos": 10**6}),
            library.look_up(iter(asked.get, None), timeout=LONG_S),
        ]
        readers = [threading.Thread(target=read, args=(call,)) for call in calls]
        for reader in readers:
            reader.start()
        assert library.get("shelves/1/books/1").pages == 101
        peer.process.signal(signal.SIGTERM)
        for reader in readers:
            reader.join(PATIENCE_S)
            assert not reader.is_alive()
    asked.put(None)
    assert set(ended) <= {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}, ended
