"""REST by transcoding, of the embedded server and through the gateway: every binding, both formats.

That it is the same over every version is in the tests of the crate `serve`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from google.protobuf import json_format

from peers.grpc_schema import Message, Schema, as_json
from peers.peer import Peer

from .conftest import Start
from .web import JSON, PROTOBUF, Answer, Web

BAD_REQUEST, NOT_FOUND = 400, 404
INVALID_CODE, NOT_FOUND_CODE = 3, 5
in_both_formats = pytest.mark.parametrize("media_type", [JSON, PROTOBUF])


@pytest.fixture
def web(ours: Peer) -> Iterator[Web]:
    with Web.open(ours, "h1") as found:
        yield found


def read(schema: Schema, answer: Answer, kind: str, media_type: str) -> Message:
    """The message in a response that must be good, by Google's own reader."""
    assert answer.status == 200, answer
    assert answer.media_type == media_type
    message = schema.make(kind)
    if media_type == JSON:
        json_format.Parse(answer.content, message, descriptor_pool=schema.pool)
    else:
        message.ParseFromString(answer.content)
    return message


def written(message: Message, media_type: str) -> bytes:
    if media_type == JSON:
        return json_format.MessageToJson(message).encode()
    content: bytes = message.SerializeToString()
    return content


def refusal(answer: Answer, status: int, code: int) -> str:
    """The message of a response that is a google.rpc.Status in JSON."""
    assert answer.status == status, answer
    assert answer.media_type == JSON
    found = json.loads(answer.content)
    assert found["code"] == code, found
    assert isinstance(found["message"], str)
    assert found["message"]
    assert set(found) <= {"code", "message", "details"}
    text: str = found["message"]
    return text


@in_both_formats
def test_a_book(web: Web, schema: Schema, media_type: str) -> None:
    answer = web.ask("GET", "/v1/shelves/3/books/9", accept=media_type)
    assert read(schema, answer, "Book", media_type) == schema.book(3, 9)
    assert answer.version == web.says


def test_json_is_that_of_proto3(web: Web) -> None:
    answer = web.ask("GET", "/v1/shelves/3/books/8")
    assert answer.media_type == JSON
    found = json.loads(answer.content)
    # A field at its default may be left out or written.
    assert {key: value for key, value in found.items() if value} == as_json(3, 8)


@in_both_formats
def test_a_page_of_books(web: Web, schema: Schema, media_type: str) -> None:
    query = "pageSize=3&filter.read=true&filter.minPages=120&filter.authors=Author+34"
    for path in (query, query.replace("pageSize", "page_size").replace("minPages", "min_pages")):
        answer = web.ask("GET", f"/v1/shelves/2/books?{path}", accept=media_type)
        found = read(schema, answer, "ListBooksResponse", media_type)
        assert [book.name for book in found.books] == ["shelves/2/books/20"]
        assert found.next_page_token == ""
    both = "filter.authors=Author+34&filter.authors=Author%2035&pageSize=1"
    answer = web.ask("GET", f"/v1/shelves/2/books?{both}", accept=media_type)
    found = read(schema, answer, "ListBooksResponse", media_type)
    assert [book.author for book in found.books] == ["Author 34"]
    token = quote(found.next_page_token, safe="")
    answer = web.ask("GET", f"/v1/shelves/2/books?{both}&pageToken={token}", accept=media_type)
    found = read(schema, answer, "ListBooksResponse", media_type)
    assert [book.author for book in found.books] == ["Author 35"]


def test_the_body_of_a_response_may_be_one_field(web: Web, schema: Schema) -> None:
    answer = web.ask("GET", "/v1/shelves/2/titles?pageSize=2")
    assert answer.status == 200
    found = json.loads(answer.content)
    assert [book["title"] for book in found] == ["Book 1 of shelf 2", "Book 2 of shelf 2"]


@in_both_formats
def test_a_book_from_its_creation_to_its_end(web: Web, schema: Schema, media_type: str) -> None:
    given = schema.make(
        "Book", title="Ümit 🧀", pages=-3, labels=["a", ""], edition={"year": 2026, "format": 2}
    )
    sent = {"content_type": media_type, "accept": media_type}
    content = written(given, media_type)
    answer = web.ask("POST", "/v1/shelves/7/books", content, **sent)
    book = read(schema, answer, "Book", media_type)
    given.name = book.name
    assert book == given
    path = f"/v1/{book.name}"
    assert read(schema, web.ask("GET", path, accept=media_type), "Book", media_type) == given

    part = written(schema.make("Book", title="New", pages=77), media_type)
    answer = web.ask("PATCH", f"{path}?updateMask=title", part, **sent)
    given.title = "New"
    assert read(schema, answer, "Book", media_type) == given

    answer = web.ask("PATCH", f"{path}?update_mask=title,pages", part, **sent)
    given.pages = 77
    assert read(schema, answer, "Book", media_type) == given

    answer = web.ask("DELETE", path, accept=media_type)
    assert read(schema, answer, "google.protobuf.Empty", media_type).ByteSize() == 0
    refusal(web.ask("GET", path), NOT_FOUND, NOT_FOUND_CODE)


def test_what_is_missing_or_wrong(web: Web) -> None:
    assert "shelves/1/books/99999" in refusal(
        web.ask("GET", "/v1/shelves/1/books/99999"), NOT_FOUND, NOT_FOUND_CODE
    )
    refusal(web.ask("GET", "/v1/shelves/one/books/1"), BAD_REQUEST, INVALID_CODE)
    refusal(web.ask("GET", "/v1/shelves/1/books?pageSize=-1"), BAD_REQUEST, INVALID_CODE)
    for query, word in (
        ("pageSize=many", "pageSize"),
        ("nonsense=1", "nonsense"),
        ("filter=1", "filter"),
        ("filter.nonsense=1", "nonsense"),
        ("filter.read=perhaps", "read"),
        ("parent=shelves/2", "parent"),
        ("pageSize=99999999999", "pageSize"),
    ):
        answer = web.ask("GET", f"/v1/shelves/1/books?{query}")
        assert word in refusal(answer, BAD_REQUEST, INVALID_CODE), query


def test_content_that_does_not_fit(web: Web) -> None:
    for content, word in (
        (b'{"pages": "many"}', "pages"),
        (b'{"titel": "x"}', "titel"),
        (b'{"title": ', ""),
        (b"[]", ""),
        (b"\xff\xfe", ""),
        (b'{"edition": {"format": "VINYL"}}', "VINYL"),
    ):
        answer = web.ask("POST", "/v1/shelves/7/books", content, content_type=JSON)
        assert word in refusal(answer, BAD_REQUEST, INVALID_CODE), content
    answer = web.ask("POST", "/v1/shelves/7/books", b"\x0a\x7fx", content_type=PROTOBUF)
    assert answer.status == BAD_REQUEST
    answer = web.ask("POST", "/v1/shelves/7/books", b"a=b", content_type="text/plain")
    assert answer.status == 415, answer


def test_paths_and_methods_that_are_not_there(web: Web) -> None:
    for path in ("/v1/nothing", "/v1/shelves/1", "/v2/shelves/1/books", "/v1/books:burn"):
        answer = web.ask("GET", path)
        assert answer.status == NOT_FOUND, (path, answer)
    # A verb that no rule has is a part of the segment, and so of the name.
    answer = web.ask("GET", "/v1/shelves/1/books/1:burn")
    assert "1:burn" in refusal(answer, BAD_REQUEST, INVALID_CODE)
    answer = web.ask("PUT", "/v1/shelves/1/books/1", b"{}", content_type=JSON)
    assert answer.status == 405, answer
    allowed = {method.strip() for method in answer.fields["allow"].split(",")}
    assert {"GET", "PATCH", "DELETE"} <= allowed


def test_a_refusal_in_protobuf(web: Web, schema: Schema) -> None:
    answer = web.ask("GET", "/v1/shelves/1/books/99999", accept=PROTOBUF)
    assert answer.status == NOT_FOUND
    assert answer.media_type == PROTOBUF
    # google.rpc.Status: code is field 1, message field 2.
    assert answer.content.startswith(b"\x08\x05\x12")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/shelves/1/books/%31", "shelves/1/books/1"),
        ("/v1/shelves/%31/books/1", "shelves/1/books/1"),
        ("/v1/shelves/1/books/1?", "shelves/1/books/1"),
    ],
)
def test_percent_encoded_paths(web: Web, path: str, name: str) -> None:
    answer = web.ask("GET", path)
    assert answer.status == 200, answer
    assert json.loads(answer.content)["name"] == name


@pytest.mark.parametrize(
    "path",
    [
        "/v1/shelves/1/books/%2e%2e",
        "/v1/shelves/1/books/%00",
        "/v1/shelves/1/books/%ff",
        "/v1/shelves/1/books/%zz",
        "/v1/shelves/1/books/" + "9" * 5000,
        "/v1/shelves/1%2Fbooks%2F1/books/1",
    ],
)
def test_paths_that_try_something(web: Web, path: str) -> None:
    assert web.ask("GET", path).status in (BAD_REQUEST, NOT_FOUND, 414)
    assert web.ask("GET", "/v1/shelves/1/books/1").status == 200


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("*/*", JSON),
        ("application/*", JSON),
        ("application/protobuf;q=0.4, application/json;q=0.9", JSON),
        ("application/protobuf, application/json;q=0.9", PROTOBUF),
        ("application/json;q=0, application/protobuf", PROTOBUF),
        ("APPLICATION/JSON; charset=utf-8", JSON),
    ],
)
def test_the_format_is_negotiated(web: Web, accept: str, media_type: str) -> None:
    assert web.ask("GET", "/v1/shelves/1/books/1", accept=accept).media_type == media_type


@pytest.mark.parametrize("other", ["application/x-protobuf", "application/vnd.google.protobuf"])
def test_other_names_of_protobuf(web: Web, schema: Schema, other: str) -> None:
    answer = web.ask("GET", "/v1/shelves/3/books/9", accept=other)
    assert schema.type("Book").FromString(answer.content) == schema.book(3, 9)
    book = schema.make("Book", title="x").SerializeToString()
    answer = web.ask("POST", "/v1/shelves/7/books", book, content_type=other, accept=JSON)
    assert json.loads(answer.content)["title"] == "x"


def test_content_in_one_format_and_answer_in_the_other(web: Web, schema: Schema) -> None:
    book = schema.make("Book", title="mixed")
    answer = web.ask(
        "POST", "/v1/shelves/7/books", written(book, PROTOBUF), content_type=PROTOBUF, accept=JSON
    )
    assert json.loads(answer.content)["title"] == "mixed"
    answer = web.ask(
        "POST", "/v1/shelves/7/books", b'{"title":"mixed"}', content_type=JSON, accept=PROTOBUF
    )
    assert read(schema, answer, "Book", PROTOBUF).title == "mixed"


def test_what_was_there_is_still_there(library_server: Start) -> None:
    with Web.open(library_server("embedded"), "h1") as web:
        check_own_endpoints(web)


def check_own_endpoints(web: Web) -> None:
    assert web.ask("GET", "/hello").content == b"hello world"
    assert len(web.ask("GET", "/bytes/1024").content) == 1024
