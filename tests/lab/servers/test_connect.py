"""Connect on the embedded server and the gateway, with requests that connect-go answers alike."""

from __future__ import annotations

import base64
import gzip
import json
import re
import struct
from collections.abc import Iterator
from concurrent import futures
from typing import Any
from urllib.parse import urlencode

import grpc
import pytest

from peers import embedded
from peers.grpc_schema import FILE, SERVICE, Schema, as_json
from peers.grpc_schema import PROTO as PROTO_FOLDER
from peers.peer import Peer
from repository import native

from .conftest import Start
from .gateways import Own, gateway
from .library import PATIENCE_S
from .web import JSON, Answer, Web

PROTO = "application/proto"
STREAM_JSON, STREAM_PROTO = "application/connect+json", "application/connect+proto"
VERSION = {"connect_protocol_version": "1"}
GET_BOOK = f"/{SERVICE}/GetBook"
BOOK = b'{"name":"shelves/1/books/1"}'
PLAIN, COMPRESSED, END = 0, 1, 2
PROTO_FLAGS = ("--proto", str(PROTO_FOLDER / FILE), "--proto-path", str(PROTO_FOLDER))

# connect-go is held to the same as we are: a test that it fails is wrong. That ours say the same
# over every version, the tests of the crate `serve` show.
SERVERS = [("embedded", "h1"), ("embedded", "h3"), ("gateway", "h2"), ("connect-go", "h2c")]


@pytest.fixture(params=SERVERS, ids="-".join)
def web(request: pytest.FixtureRequest, library_server: Start) -> Iterator[Web]:
    name, listener = request.param
    with Web.open(library_server(name), listener) as found:
        yield found


def post(web: Web, method: str, content: bytes, kind: str, **fields: str) -> Answer:
    return web.ask("POST", f"/{SERVICE}/{method}", content, content_type=kind, **VERSION, **fields)


def envelope(message: bytes, flags: int = PLAIN) -> bytes:
    return struct.pack(">BI", flags, len(message)) + message


def messages(answer: Answer) -> tuple[list[bytes], dict[str, Any]]:
    """The messages of a stream, and what its end says."""
    assert answer.status == 200, answer
    found: list[bytes] = []
    rest = answer.content
    while True:
        flags, length = struct.unpack(">BI", rest[:5])
        message, rest = rest[5 : 5 + length], rest[5 + length :]
        if flags & COMPRESSED:
            message = gzip.decompress(message)
        if flags & END:
            assert rest == b""
            end: dict[str, Any] = json.loads(message)
            return found, end
        found.append(message)


def refusal(answer: Answer, status: int, code: str) -> str:
    """The message of an error."""
    assert answer.status == status, answer
    assert answer.media_type == JSON
    found = json.loads(answer.content)
    assert found["code"] == code, found
    return str(found["message"])


def test_one_message(web: Web, schema: Schema) -> None:
    answer = post(web, "GetBook", BOOK, JSON)
    assert (answer.status, answer.media_type, answer.version) == (200, JSON, web.says)
    assert json.loads(answer.content) == as_json(1, 1)
    request = schema.make("GetBookRequest", name="shelves/1/books/1")
    answer = post(web, "GetBook", request.SerializeToString(), PROTO)
    assert (answer.status, answer.media_type) == (200, PROTO)
    book = schema.make("Book")
    book.ParseFromString(answer.content)
    assert book == schema.book(1, 1)
    # What a newer schema has is passed over.
    newer = b'{"name":"shelves/1/books/1","shelfMark":{"a":[1]}}'
    assert post(web, "GetBook", newer, JSON).status == 200


def test_one_message_by_get(web: Web, schema: Schema) -> None:
    query = urlencode({"connect": "v1", "encoding": "json", "message": BOOK.decode()})
    answer = web.ask("GET", f"{GET_BOOK}?{query}")
    assert (answer.status, answer.media_type) == (200, JSON)
    assert json.loads(answer.content) == as_json(1, 1)
    message = schema.make("GetBookRequest", name="shelves/1/books/2").SerializeToString()
    for compression in ("", "gzip"):
        packed = gzip.compress(message) if compression else message
        text = base64.urlsafe_b64encode(packed).decode().rstrip("=")
        asked = {"connect": "v1", "encoding": "proto", "message": text, "base64": "1"}
        asked |= {"compression": compression} if compression else {}
        answer = web.ask("GET", f"{GET_BOOK}?{urlencode(asked)}")
        book = schema.make("Book")
        book.ParseFromString(answer.content)
        assert book == schema.book(1, 2)
    asked = {"connect": "v1", "encoding": "json", "message": "{}"}
    answer = web.ask("GET", f"/{SERVICE}/DeleteBook?{urlencode(asked)}")
    assert answer.status == 405


def test_compression(web: Web) -> None:
    content = b'{"parent":"shelves/1","pageSize":50}'
    plain = post(web, "ListBooks", content, JSON, accept_encoding="identity")
    assert len(json.loads(plain.content)["books"]) == 50
    assert "content-encoding" not in plain.fields
    content = gzip.compress(content)
    sent = {"content_encoding": "gzip"}
    zipped = post(web, "ListBooks", content, JSON, accept_encoding="gzip", **sent)
    assert zipped.fields["content-encoding"] == "gzip"
    answer = post(web, "ListBooks", content, JSON, content_encoding="br")
    assert "gzip" in refusal(answer, 501, "unimplemented")
    stream = {"connect_content_encoding": "gzip", "connect_accept_encoding": "gzip"}
    request = gzip.compress(b'{"parent":"shelves/5","count":2}')
    answer = post(web, "WatchBooks", envelope(request, COMPRESSED), STREAM_JSON, **stream)
    found, end = messages(answer)
    assert (len(found), end) == (2, {})


def test_errors(web: Web) -> None:
    answer = post(web, "GetBook", b'{"name":"shelves/1/books/0"}', JSON)
    assert "shelves/1/books/0" in refusal(answer, 404, "not_found")
    answer = post(web, "GetBook", b'{"name":"shelves/1/books/0"}'[:-1], JSON)
    assert refusal(answer, 400, "invalid_argument")
    late = post(web, "GetBook", BOOK, JSON, connect_timeout_ms="soon")
    assert refusal(late, 400, "invalid_argument")
    # Without a body of Connect the client takes the code from the HTTP status.
    assert post(web, "Burn", b"{}", JSON).status == 404
    assert post(web, "GetBook", b"{}", "application/thrift").status == 415
    assert post(web, "GetBook", b"", STREAM_JSON).status == 415
    assert post(web, "WatchBooks", b"{}", JSON).status == 415
    answer = web.ask("DELETE", GET_BOOK, b"", content_type=PROTO, **VERSION)
    assert answer.status == 405
    assert "POST" in answer.fields["allow"]


def test_streams(web: Web, schema: Schema) -> None:
    request = b'{"parent":"shelves/5","count":3}'
    answer = post(web, "WatchBooks", envelope(request), STREAM_JSON)
    assert answer.media_type == STREAM_JSON
    found, end = messages(answer)
    titles = [json.loads(message)["book"]["title"] for message in found]
    assert titles == [f"Book {number} of shelf 5" for number in (1, 2, 3)]
    assert end == {}

    late = {"connect_timeout_ms": "500"}
    request = b'{"parent":"shelves/5","follow":true}'
    answer = post(web, "WatchBooks", envelope(request), STREAM_JSON, **late)
    found, end = messages(answer)
    assert len(found) == 100
    assert end["error"]["code"] == "deadline_exceeded"

    one = envelope(b'{"parent":"shelves/7","book":{"title":"x"}}')
    found, end = messages(post(web, "ImportBooks", one * 3, STREAM_JSON))
    assert ([json.loads(message) for message in found], end) == ([{"created": 3}], {})


def test_streams_in_both_directions(web: Web, schema: Schema) -> None:
    names = [schema.make("GetBookRequest", name=f"shelves/6/books/{number}") for number in (1, 2)]
    content = b"".join(envelope(name.SerializeToString()) for name in names)
    found, end = messages(post(web, "LookUpBooks", content, STREAM_PROTO))
    books = [schema.type("Book").FromString(message) for message in found]
    assert (books, end) == ([schema.book(6, 1), schema.book(6, 2)], {})

    missing = content + envelope(b"\n\x11shelves/6/books/0")
    found, end = messages(post(web, "LookUpBooks", missing, STREAM_PROTO))
    assert len(found) == 2
    assert end["error"]["code"] == "not_found"
    assert "shelves/6/books/0" in end["error"]["message"]


def test_what_is_no_stream(web: Web) -> None:
    for content, code in [
        (b"", "unimplemented"),
        (envelope(b"{}") * 2, "unimplemented"),
    ]:
        _, end = messages(post(web, "WatchBooks", content, STREAM_JSON))
        assert end["error"]["code"] == code, end
    for content in [envelope(b"{}")[:6], b"\0\0", envelope(b"{", END)]:
        _, end = messages(post(web, "ImportBooks", content, STREAM_JSON))
        assert end["error"]["code"] in ("internal", "invalid_argument"), end
    stream = {"connect_content_encoding": "br"}
    _, end = messages(post(web, "ImportBooks", envelope(b"{}"), STREAM_JSON, **stream))
    assert end["error"]["code"] == "unimplemented"


ECHO = """
syntax = "proto3";
package demo.v1;
message Line { string text = 1; }
service Echo {
  rpc Say(Line) returns (Line);
  rpc Fail(Line) returns (Line);
  rpc Repeat(Line) returns (stream Line);
}
"""
# google.rpc.Status with code 9 and one detail: demo.v1.Line with text "x".
LINE = b"\x0a\x01x"
ANY = b"\x0a\x20type.googleapis.com/demo.v1.Line" + b"\x12\x03" + LINE
DETAILS = b"\x08\x09\x1a" + bytes([len(ANY)]) + ANY


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A gateway to a server of grpcio that tells what metadata it got, and has some of its own."""
    folder = tmp_path_factory.mktemp("echo")
    file = folder / "echo.proto"
    file.write_text(ECHO)

    def tell(context: Any) -> bytes:
        context.send_initial_metadata(
            (("x-first", "1"), ("x-first", "2"), ("x-raw-bin", b"\0\xff"))
        )
        context.set_trailing_metadata((("x-last", "3"), ("x-last", "4"), ("y-last", "5")))
        names = sorted({key for key, _ in context.invocation_metadata()})
        found = dict(context.invocation_metadata())
        text = f"{','.join(names)};{found.get('x-blob-bin', b'').hex()}".encode()
        return b"\x0a" + bytes([len(text)]) + text

    def fail(request: bytes, context: Any) -> bytes:
        tell(context)
        details = (("x-last", "3"), ("grpc-status-details-bin", DETAILS))
        context.set_trailing_metadata(details)
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "nö")
        return request

    def repeat(_: bytes, context: Any) -> Iterator[bytes]:
        yield tell(context)
        yield LINE

    handlers: dict[str, Any] = {
        "Say": grpc.unary_unary_rpc_method_handler(lambda _, context: tell(context)),
        "Fail": grpc.unary_unary_rpc_method_handler(fail),
        "Repeat": grpc.unary_stream_rpc_method_handler(repeat),
    }
    handler = grpc.method_handlers_generic_handler("demo.v1.Echo", handlers)
    alone = [("grpc.so_reuseport", 0)]
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[handler], options=alone)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    flags = ("--proto", str(file))
    upstream = f"grpc://127.0.0.1:{port}"
    peer = embedded.start(native(), folder, gateway_to=[upstream], flags=flags)
    yield peer
    peer.stop()
    server.stop(None).wait(PATIENCE_S)


@pytest.mark.parametrize("listener", ["h1", "h3"])
def test_metadata_goes_along(echo: Peer, listener: str) -> None:
    blob = base64.b64encode(b"\x00\xff").decode().rstrip("=")
    sent = {"x_blob_bin": blob, "cookie": "a=b", "accept_encoding": "gzip"}
    with Web.open(echo, listener) as web:
        answer = web.ask("POST", "/demo.v1.Echo/Say", b"{}", content_type=JSON, **VERSION, **sent)
        names, _, hexed = json.loads(answer.content)["text"].partition(";")
        assert hexed == "00ff"
        got = set(names.split(","))
        assert {"cookie", "x-blob-bin"} <= got
        assert not {name for name in got if name.startswith(("connect-", "accept"))}
        assert "content-encoding" not in got
        fields = answer.fields
        assert (fields["x-first"], fields["trailer-x-last"]) == ("1, 2", "3, 4")
        assert fields["x-raw-bin"].rstrip("=") == blob
        assert "x-last" not in fields

        answer = web.ask("POST", "/demo.v1.Echo/Fail", b"{}", content_type=JSON, **VERSION)
        assert answer.status == 400
        detail = {"type": "demo.v1.Line", "value": "CgF4", "debug": {"text": "x"}}
        expected = {"code": "failed_precondition", "message": "nö", "details": [detail]}
        assert json.loads(answer.content) == expected
        assert (answer.fields["x-first"], answer.fields["trailer-x-last"]) == ("1, 2", "3")

        content = envelope(b"{}")
        answer = web.ask(
            "POST", "/demo.v1.Echo/Repeat", content, content_type=STREAM_JSON, **VERSION
        )
        found, end = messages(answer)
        assert answer.fields["x-first"] == "1, 2"
        assert json.loads(found[1]) == {"text": "x"}
        assert end == {"metadata": {"x-last": ["3", "4"], "y-last": ["5"]}}


def test_json_without_a_version_is_the_implicit_binding(echo: Peer) -> None:
    with Web.open(echo, "h1") as web:
        answer = web.ask("POST", "/demo.v1.Echo/Say", b"{}", content_type=JSON)
        assert answer.fields["grpc-metadata-x-first"] == "1, 2"
        answer = web.ask("POST", "/demo.v1.Echo/Fail", b"{}", content_type=JSON)
        assert json.loads(answer.content)["code"] == 9


def test_the_limit_of_messages_may_be_raised(own: Own, library_server: Start) -> None:
    url = library_server("connect-go").bases["h2c"]
    # What the schema does not have is passed over, and is content all the same.
    content = json.dumps({"name": "shelves/1/books/1", "shelfMark": "x" * (5 << 20)}).encode()
    with Web.open(gateway(own, url, flags=PROTO_FLAGS), "h1") as web:
        refusal(post(web, "GetBook", content, JSON), 429, "resource_exhausted")
    with Web.open(gateway(own, url, flags=(*PROTO_FLAGS, "--max-message", "6m")), "h1") as web:
        answer = post(web, "GetBook", content, JSON)
        assert (answer.status, json.loads(answer.content)) == (200, as_json(1, 1))


def test_grpc_web_may_have_json_where_the_server_does(own: Own, library_server: Start) -> None:
    url = library_server("connect-go").bases["h2c"]
    path = f"/{SERVICE}/GetBook"
    for kind in ("application/grpc-web+json", "application/grpc-web-text+json"):
        content = envelope(BOOK)
        if "text" in kind:
            content = base64.b64encode(content)
        for listener in ("h1", "h2"):
            with Web.open(gateway(own, url, flags=PROTO_FLAGS), listener) as web:
                answer = web.ask("POST", path, content, content_type=kind)
                assert (answer.status, answer.media_type) == (200, kind)
                found = answer.content
                if "text" in kind:
                    found = b"".join(base64.b64decode(part) for part in re_cut(found))
                length = int.from_bytes(found[1:5])
                assert json.loads(found[5 : 5 + length]) == as_json(1, 1)
                assert b"grpc-status:0" in found[5 + length :].replace(b" ", b"").lower()
    with Web.open(library_server("embedded"), "h1") as web:
        assert web.ask("POST", path, envelope(BOOK), content_type=kind).status == 415


def re_cut(text: bytes) -> list[bytes]:
    """The pieces of base64 that were written one after the other: padding ends each."""
    return re.findall(rb"[^=]+={0,2}", text)
