"""The library service under grpcio's client: we answer as grpcio and grpc-go do."""

from __future__ import annotations

import asyncio
import queue
import threading
import time

import grpc
import pytest

from peers.grpc_schema import BOOKS, SERVICE, SHELVES, Schema
from peers.peer import Peer

from .library import PATIENCE_S, Library, address, credentials, every_server, refused

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
WRONG_NAMES = [
    "",
    "nonsense",
    "shelves/1",
    "shelves/1/books",
    "shelves/1/books/",
    "shelves//books/1",
    "shelves/1/books/1/more",
    "/shelves/1/books/1",
    "shelves/one/books/1",
    "shelves/1/books/1.5",
    "shelves/-1/books/1",
    "shelf/1/books/1",
]


@every_server
def test_every_book_of_the_start(library: Library) -> None:
    for shelf in range(1, SHELVES - 1):
        answer = library.ask("ListBooks", parent=f"shelves/{shelf}", page_size=BOOKS)
        assert list(answer.books[:BOOKS]) == [
            library.schema.book(shelf, book) for book in range(1, BOOKS + 1)
        ]
    for shelf, book in [(1, 1), (3, 9), (SHELVES, BOOKS), (8, 96)]:
        assert library.get(f"shelves/{shelf}/books/{book}") == library.schema.book(shelf, book)


@every_server
def test_wrong_names(library: Library) -> None:
    for name in WRONG_NAMES:
        code, message = library.refusal("GetBook", name=name)
        assert code is INVALID, (name, message)
        assert message
    name = "nonsense"
    assert library.refusal("DeleteBook", name=name)[0] is INVALID
    assert library.refusal("UpdateBook", book={"name": name})[0] is INVALID
    assert library.refusal("ListBooks", parent=name)[0] is INVALID
    assert library.refusal("CreateBook", parent=name, book={})[0] is INVALID


@every_server
def test_names_of_nothing(library: Library) -> None:
    for name in ("shelves/1/books/99999", "shelves/99/books/1"):
        for method in ("GetBook", "DeleteBook"):
            code, message = library.refusal(method, name=name)
            assert code is NOT_FOUND, message
            assert name in message
        assert library.refusal("UpdateBook", book={"name": name})[0] is NOT_FOUND
    assert library.refusal("ListBooks", parent="shelves/99")[0] is NOT_FOUND
    assert library.refusal("CreateBook", parent="shelves/99", book={})[0] is NOT_FOUND
    assert refused(lambda: list(library.watch(parent="shelves/99")))[0] is NOT_FOUND


@every_server
def test_pages(library: Library) -> None:
    for size in (1, 7, 33, 50, 99):
        token, found = "", []
        for _ in range(BOOKS):
            answer = library.ask("ListBooks", parent="shelves/4", page_size=size, page_token=token)
            assert 0 < len(answer.books) <= size
            found += [book.name for book in answer.books]
            token = answer.next_page_token
            if not token:
                break
        assert found == [f"shelves/4/books/{number}" for number in range(1, BOOKS + 1)]
    assert len(library.ask("ListBooks", parent="shelves/4").books) == 20
    assert len(library.ask("ListBooks", parent="shelves/4", page_size=5000).books) == BOOKS
    assert library.refusal("ListBooks", parent="shelves/4", page_size=-1)[0] is INVALID
    for token in ("nonsense", "!", "1" * 5000):
        assert library.refusal("ListBooks", parent="shelves/4", page_token=token)[0] is INVALID


@every_server
def test_filters(library: Library) -> None:
    def names(**wanted: object) -> list[int]:
        answer = library.ask("ListBooks", parent="shelves/5", page_size=100, filter=wanted)
        return [int(book.name.rpartition("/")[2]) for book in answer.books]

    every = range(1, BOOKS + 1)
    assert names() == list(every)
    assert names(read=True) == [n for n in every if n % 2 == 0]
    assert names(read=False) == [n for n in every if n % 2]
    assert names(min_pages=190) == [n for n in every if 100 + n >= 190]
    authors = ["Author 36", "Author 40", "nobody"]
    assert names(authors=authors) == [n for n in every if (35 + n) % 97 in (36, 40)]
    assert names(authors=authors, read=True, min_pages=150) == [98]
    assert names(authors=["nobody"]) == []
    page = library.ask("ListBooks", parent="shelves/5", page_size=3, filter={"read": True})
    rest = library.ask(
        "ListBooks",
        parent="shelves/5",
        page_size=2,
        page_token=page.next_page_token,
        filter={"read": True},
    )
    assert [book.pages for book in [*page.books, *rest.books]] == [102, 104, 106, 108, 110]


@every_server
def test_a_book_from_its_creation_to_its_end(library: Library) -> None:
    schema = library.schema
    given = {
        "name": "shelves/1/books/1",
        "author": "Ümit 🧀",
        "title": "",
        "pages": -7,
        "read": True,
        "labels": ["a", "", "b" * 1000],
        "edition": {"publisher": "P", "year": 2026, "format": 3},
    }
    book = library.ask("CreateBook", parent="shelves/10", book=given)
    number = int(book.name.removeprefix("shelves/10/books/"))
    assert number > BOOKS
    assert book == schema.make("Book", **(given | {"name": book.name}))
    assert library.get(book.name) == book
    another = library.ask("CreateBook", parent="shelves/10", book={})
    assert int(another.name.rpartition("/")[2]) == number + 1

    changed = library.ask(
        "UpdateBook",
        book={"name": book.name, "title": "New", "pages": 9, "edition": {"year": 1}},
        update_mask={"paths": ["title", "edition.year"]},
    )
    wanted = schema.make("Book")
    wanted.CopyFrom(book)
    wanted.title, wanted.edition.year = "New", 1
    assert changed == wanted == library.get(book.name)

    whole = library.ask("UpdateBook", book={"name": book.name, "pages": 12})
    assert whole == schema.make("Book", name=book.name, pages=12) == library.get(book.name)

    library.ask("DeleteBook", name=book.name)
    assert library.refusal("GetBook", name=book.name)[0] is NOT_FOUND
    assert library.refusal("DeleteBook", name=book.name)[0] is NOT_FOUND
    library.ask("DeleteBook", name=another.name)


@every_server
def test_bounds_of_a_book(library: Library) -> None:
    for labels in (["x"] * 101, ["x" * 1001]):
        for method, fields in (
            ("CreateBook", {"parent": "shelves/10", "book": {"labels": labels}}),
            ("UpdateBook", {"book": {"name": "shelves/10/books/1", "labels": labels}}),
        ):
            code, message = library.refusal(method, **fields)
            assert code in (INVALID, EXHAUSTED), (method, message)
    assert library.refusal("CreateBook", parent="shelves/10")[0] is INVALID
    assert library.refusal("UpdateBook")[0] is INVALID
    unknown = {"paths": ["no_such_field"]}
    code, message = library.refusal(
        "UpdateBook", book={"name": "shelves/10/books/1"}, update_mask=unknown
    )
    assert code is INVALID
    assert "no_such_field" in message
    assert library.get("shelves/10/books/1") == library.schema.book(10, 1)


@every_server
def test_watching(library: Library) -> None:
    for count in (1, 7, BOOKS, BOOKS + 5):
        seen = list(library.watch(parent="shelves/6", count=count))
        assert [message.book for message in seen] == [
            library.schema.book(6, n % BOOKS + 1) for n in range(count)
        ]
        assert {message.change for message in seen} == {1}
    once = list(library.watch(parent="shelves/6"))
    assert [message.book for message in once] == [
        library.schema.book(6, number) for number in range(1, BOOKS + 1)
    ]
    assert refused(lambda: list(library.watch(parent="shelves/6", count=-1)))[0] is INVALID
    assert refused(lambda: list(library.watch(parent="nonsense")))[0] is INVALID


@every_server
def test_pauses_between_messages(library: Library) -> None:
    began = time.monotonic()
    assert len(list(library.watch(parent="shelves/6", count=3, interval={"nanos": 10**8}))) == 3
    assert time.monotonic() - began >= 0.2
    # The first does not wait, and nothing waits after the last: both would take an hour.
    assert len(list(library.watch(parent="shelves/6", count=1, interval={"seconds": 3600}))) == 1


@every_server
def test_leaving_an_endless_stream(library: Library) -> None:
    for _ in range(20):
        call = library.watch(parent="shelves/6", count=10**6, interval={"nanos": 1_000_000})
        assert next(call).book.name == "shelves/6/books/1"
        call.cancel()
        with pytest.raises(grpc.RpcError):
            for _ in call:
                pass
        assert call.code() is grpc.StatusCode.CANCELLED
    assert library.get("shelves/1/books/1").pages == 101


@every_server
def test_deadlines(library: Library, request: pytest.FixtureRequest) -> None:
    call = library.watch(timeout=0.5, parent="shelves/6", interval={"seconds": 3600})
    codes = {grpc.StatusCode.DEADLINE_EXCEEDED}
    if "grpc-go" in request.node.name:
        # It resets the stream at the deadline, which grpcio may see before its own clock says so.
        codes.add(grpc.StatusCode.CANCELLED)
    assert refused(lambda: list(call))[0] in codes


@every_server
def test_importing(library: Library) -> None:
    answer = library.bring({"parent": "shelves/10", "book": {"title": f"T {n}"}} for n in range(25))
    assert answer.created == 25
    assert library.bring([]).created == 0
    code, _ = refused(lambda: library.bring([{"parent": "shelves/10"}, {"parent": "nonsense"}]))
    assert code is INVALID


@every_server
def test_looking_up(library: Library) -> None:
    names = [f"shelves/{n % 7 + 1}/books/{n % 99 + 1}" for n in range(500)]
    assert [book.name for book in library.look_up(names)] == names
    assert list(library.look_up([])) == []
    found: list[str] = []

    def all_of_them() -> None:
        asked = ["shelves/1/books/1", "shelves/1/books/99999", *names]
        found.extend(book.name for book in library.look_up(asked))

    assert refused(all_of_them)[0] is NOT_FOUND
    assert found == ["shelves/1/books/1"]


@every_server
def test_each_is_answered_before_the_next_is_asked(library: Library) -> None:
    asked: queue.Queue[str | None] = queue.Queue()
    call = library.look_up(iter(asked.get, None))
    for number in (3, 1, 2):
        asked.put(f"shelves/2/books/{number}")
        assert next(call) == library.schema.book(2, number)
    asked.put(None)
    assert list(call) == []
    assert call.code() is grpc.StatusCode.OK


@every_server
def test_many_calls_at_once(library: Library) -> None:
    wrong: list[object] = []

    def work(shelf: int) -> None:
        for number in range(1, 60):
            name = f"shelves/{shelf}/books/{number}"
            if (book := library.get(name)).name != name:
                wrong.append(book)

    threads = [threading.Thread(target=work, args=(shelf,)) for shelf in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S * 2)
    assert wrong == []


@every_server
def test_methods_that_are_not_there(library: Library) -> None:
    for path in (f"/{SERVICE}/BurnBook", "/no.such.Service/GetBook"):
        stub = library.raw(path)
        assert refused(lambda stub=stub: stub(b"", timeout=PATIENCE_S))[0] is (  # type: ignore[misc]
            grpc.StatusCode.UNIMPLEMENTED
        )


@every_server
def test_bytes_that_are_no_message(library: Library) -> None:
    stub = library.raw(f"/{SERVICE}/GetBook")
    # Field 1 with a length that is longer than the message.
    code, _ = refused(lambda: stub(b"\x0a\x7fx", timeout=PATIENCE_S))
    assert code in (grpc.StatusCode.INTERNAL, INVALID, grpc.StatusCode.UNKNOWN)
    assert library.get("shelves/1/books/1").pages == 101


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.NoCompression])
def test_compression(library: Library, compression: grpc.Compression) -> None:
    labels = ["x" * 1000] * 100
    request = library.schema.make("CreateBookRequest", parent="shelves/10", book={"labels": labels})
    book = library.stub("CreateBook")(request, timeout=PATIENCE_S, compression=compression)
    assert list(book.labels) == labels
    library.ask("DeleteBook", name=book.name)
    names = [library.schema.make("GetBookRequest", name=f"shelves/1/books/{n}") for n in (1, 2)]
    call = library.stub("LookUpBooks")(iter(names), timeout=PATIENCE_S, compression=compression)
    assert [book.pages for book in call] == [101, 102]


def test_deflate_is_not_spoken(library: Library) -> None:
    request = library.schema.make("GetBookRequest", name="shelves/1/books/1")
    code, message = refused(
        lambda: library.stub("GetBook")(
            request, timeout=PATIENCE_S, compression=grpc.Compression.Deflate
        )
    )
    assert code is grpc.StatusCode.UNIMPLEMENTED, message


@pytest.mark.parametrize("listener", ["h2c", "h2"])
def test_grpcio_with_asyncio(ours: Peer, schema: Schema, listener: str) -> None:
    where = address(ours, listener)

    async def main() -> None:
        async with (
            grpc.aio.insecure_channel(where)
            if listener == "h2c"
            else grpc.aio.secure_channel(where, credentials(ours))
        ) as channel:
            get = schema.stub(channel, "GetBook")
            names = [f"shelves/1/books/{number}" for number in range(1, 101)]
            books = await asyncio.gather(
                *(
                    get(schema.make("GetBookRequest", name=name), timeout=PATIENCE_S)
                    for name in names
                )
            )
            assert [book.name for book in books] == names

            request = schema.make("WatchBooksRequest", parent="shelves/1", count=150)
            call = schema.stub(channel, "WatchBooks")(request, timeout=PATIENCE_S)
            assert len([message async for message in call]) == 150

            talk = schema.stub(channel, "LookUpBooks")(timeout=PATIENCE_S)
            for number in (9, 5):
                await talk.write(schema.make("GetBookRequest", name=f"shelves/3/books/{number}"))
                assert await talk.read() == schema.book(3, number)
            await talk.done_writing()
            assert await talk.read() is grpc.aio.EOF

            request = schema.make("WatchBooksRequest", parent="shelves/1", interval={"seconds": 9})
            endless = schema.stub(channel, "WatchBooks")(request, timeout=PATIENCE_S)
            assert (await endless.read()).book == schema.book(1, 1)
            endless.cancel()
            with pytest.raises(asyncio.CancelledError):
                await endless.read()

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S * 2))
