"""`google.api.HttpBody` through the gateway: content as it is, in both directions, as it comes."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from peers import embedded
from peers.grpc_described import Described, serving
from peers.peer import Peer
from repository import native
from trilane.client import Client
from trilane.client.errors import StreamReset

from .library import PATIENCE_S
from .test_embedded_rest import refusal
from .web import Web

Own = Callable[[Callable[[Path], Peer]], Peer]

FILES = """
syntax = "proto3";
package demo.v1;
import "google/api/annotations.proto";
import "google/api/httpbody.proto";
message Part { string name = 1; string title = 2; google.api.HttpBody file = 3; }
message Receipt {
  repeated string names = 1;
  repeated string types = 2;
  uint32 messages = 3;
  uint32 bytes = 4;
  uint32 longest = 5;
  uint32 crc = 6;
  string title = 7;
}
message Wanted { string name = 1; }
message Page { string title = 1; google.api.HttpBody body = 2; }
service Files {
  rpc Upload(stream Part) returns (Receipt) {
    option (google.api.http) = { put: "/files/{name}" body: "file" };
  }
  rpc Download(Wanted) returns (stream google.api.HttpBody) {
    option (google.api.http) = { get: "/files/{name}" };
  }
  rpc Turn(google.api.HttpBody) returns (google.api.HttpBody) {
    option (google.api.http) = { post: "/turn" body: "*" };
  }
  rpc Talk(stream Part) returns (stream google.api.HttpBody) {
    option (google.api.http) = { post: "/talks/{name}" body: "file" };
  }
  rpc Show(Wanted) returns (Page) {
    option (google.api.http) = { get: "/pages/{name}" response_body: "body" };
  }
}
"""
SERVICE = "demo.v1.Files"
MIB = 1 << 20
LARGE = 64 * MIB
# What the gateway may need for content of any size, beyond what it needs anyhow.
LITTLE_KIB = 24 << 10
LONGEST = 64 << 10
NOT_FOUND, NOT_FOUND_CODE = 404, 5
INTERNAL, INTERNAL_CODE = 500, 13
UNSUPPORTED, INVALID_CODE = 415, 3
UNIMPLEMENTED, UNIMPLEMENTED_CODE = 501, 12


class Files:
    """The service: what it gets is told by receipts, and it waits where a test says so."""

    def __init__(self, described: Described) -> None:
        self.described = described
        self.arrived = threading.Event()
        self.go_on = threading.Event()

    def body(self, content_type: str, data: bytes) -> bytes:
        made = self.described.make("google.api.HttpBody", content_type=content_type, data=data)
        encoded: bytes = made.SerializeToString()
        return encoded

    def upload(self, requests: Iterator[bytes], _context: Any) -> bytes:
        receipt = self.described.make("demo.v1.Receipt")
        for request in requests:
            part = self.described.read("demo.v1.Part", request)
            receipt.messages += 1
            receipt.bytes += len(part.file.data)
            receipt.longest = max(receipt.longest, len(part.file.data))
            receipt.crc = zlib.crc32(part.file.data, receipt.crc)
            receipt.title = receipt.title or part.title
            receipt.names.extend([part.name] * bool(part.name))
            receipt.types.extend([part.file.content_type] * bool(part.file.content_type))
            self.arrived.set()
        encoded: bytes = receipt.SerializeToString()
        return encoded

    def download(self, request: bytes, context: Any) -> Iterator[bytes]:
        name = self.described.read("demo.v1.Wanted", request).name
        if name == "none":
            context.abort(grpc.StatusCode.NOT_FOUND, "there is no such file")
        if name == "empty":
            return
        yield self.body("text/plain; charset=utf-8", b"first")
        if name == "large":
            for _ in range(LARGE // MIB):
                yield self.body("", bytes(MIB))
        elif name == "broken":
            assert self.go_on.wait(PATIENCE_S)
            context.abort(grpc.StatusCode.DATA_LOSS, "the disk is gone")
        else:
            assert self.go_on.wait(PATIENCE_S)
            # The type of the first one counts.
            yield self.body("image/png", b" second")
            yield self.body("", b"")
            yield self.body("", b" third\n")

    def talk(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        kind = ""
        for request in requests:
            part = self.described.read("demo.v1.Part", request)
            if part.name == "refused":
                context.abort(grpc.StatusCode.NOT_FOUND, "nobody talks here")
            kind = kind or f"{part.file.content_type}+{part.name}"
            yield self.body(kind, part.file.data.upper())

    def turn(self, request: bytes, _context: Any) -> bytes:
        asked = self.described.read("google.api.HttpBody", request)
        return self.body(f"{asked.content_type}+turned", asked.data[::-1])

    def show(self, request: bytes, _context: Any) -> bytes:
        name = self.described.read("demo.v1.Wanted", request).name
        page = self.described.make("demo.v1.Page", title="not told")
        if name != "untyped":
            page.body.content_type = "text/html\n" if name == "odd" else "text/html"
        page.body.data = b"<p>"
        encoded: bytes = page.SerializeToString()
        return encoded


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Described:
    folder = tmp_path_factory.mktemp("files")
    file = folder / "files.proto"
    file.write_text(FILES)
    return Described(folder, file)


@pytest.fixture
def files(described: Described) -> Files:
    return Files(described)


@pytest.fixture
def peer(files: Files, own: Own) -> Iterator[Peer]:
    methods: dict[str, Any] = {
        "Upload": grpc.stream_unary_rpc_method_handler(files.upload),
        "Download": grpc.unary_stream_rpc_method_handler(files.download),
        "Turn": grpc.unary_unary_rpc_method_handler(files.turn),
        "Talk": grpc.stream_stream_rpc_method_handler(files.talk),
        "Show": grpc.unary_unary_rpc_method_handler(files.show),
    }
    with serving(SERVICE, methods) as url:
        flags = ("--descriptor-set", str(files.described.set), "--service", SERVICE)
        yield own(lambda folder: embedded.start(native(), folder, gateway_to=[url], flags=flags))


def http(peer: Peer, listener: str) -> httpx.Client:
    return httpx.Client(
        base_url=peer.bases[listener],
        http1=listener == "h1",
        http2=listener != "h1",
        trust_env=False,
        timeout=PATIENCE_S,
    )


def highest_kib(peer: Peer) -> int:
    lines = Path(f"/proc/{peer.process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])


@pytest.mark.parametrize("listener", ["h1", "h2c", "h2", "h3"])
def test_content_of_any_type_is_a_message(peer: Peer, listener: str) -> None:
    content = bytes(range(256))
    with Web.open(peer, listener) as web:
        answer = web.ask("POST", "/turn", content, content_type="image/png", accept="text/html")
        assert (answer.status, answer.content) == (200, content[::-1])
        assert answer.fields["content-type"] == "image/png+turned"
        # Content of a type that is spoken here is taken as it is, too.
        answer = web.ask("POST", "/turn", b"not JSON", content_type="application/json")
        assert (answer.status, answer.content) == (200, b"not JSON"[::-1])
        answer = web.ask("POST", f"/{SERVICE}/Turn", b"ab", content_type="a/b")
        assert (answer.content, answer.fields["content-type"]) == (b"ba", "a/b+turned")


@pytest.mark.parametrize("listener", ["h1", "h2c", "h2", "h3"])
def test_a_field_of_the_response_is_the_content(peer: Peer, listener: str) -> None:
    with Web.open(peer, listener) as web:
        answer = web.ask("GET", "/pages/a")
        assert (answer.content, answer.fields["content-type"]) == (b"<p>", "text/html")
        assert answer.fields["content-length"] == "3"
        answer = web.ask("HEAD", "/pages/a")
        assert (answer.content, answer.fields["content-length"]) == (b"", "3")
        answer = web.ask("GET", "/pages/untyped")
        assert (answer.content, "content-type" in answer.fields) == (b"<p>", False)
        text = refusal(web.ask("GET", "/pages/odd"), INTERNAL, INTERNAL_CODE)
        assert "content_type" in text


@pytest.mark.parametrize("listener", ["h1", "h2c"])
def test_an_upload_goes_on_while_it_comes(peer: Peer, files: Files, listener: str) -> None:
    rest = bytes(range(256)) * 1024

    def content() -> Iterator[bytes]:
        yield b"first"
        assert files.arrived.wait(PATIENCE_S), "the first piece waits for the others"
        yield rest

    with http(peer, listener) as client:
        answer = client.put(
            "/files/a%20b?title=T", content=content(), headers={"content-type": "video/mp4"}
        )
    assert answer.status_code == 200, answer.text
    receipt = answer.json()
    assert receipt["crc"] == zlib.crc32(b"first" + rest)
    assert receipt["bytes"] == len(b"first" + rest)
    assert receipt["messages"] > 1
    assert receipt["longest"] <= LONGEST
    # The first message alone has what is not content.
    assert (receipt["names"], receipt["types"], receipt["title"]) == (["a b"], ["video/mp4"], "T")


@pytest.mark.parametrize("listener", ["h1", "h2c", "h2", "h3"])
def test_an_upload_may_be_empty(peer: Peer, listener: str) -> None:
    with Web.open(peer, listener) as web:
        answer = web.ask("PUT", "/files/a", content_type="video/mp4")
        assert json.loads(answer.content) == {
            "names": ["a"], "types": ["video/mp4"], "messages": 1,
        }  # fmt: skip


@pytest.mark.parametrize("listener", ["h1", "h2c"])
def test_a_download_comes_as_it_is_made(peer: Peer, files: Files, listener: str) -> None:
    with http(peer, listener) as client, client.stream("GET", "/files/a") as answer:
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        pieces = answer.iter_raw()
        got = next(pieces)
        assert got == b"first"
        files.go_on.set()
        assert got + b"".join(pieces) == b"first second third\n"


@pytest.mark.parametrize("listener", ["h1", "h2c", "h2", "h3"])
def test_a_download_may_fail_or_be_empty(peer: Peer, listener: str) -> None:
    with Web.open(peer, listener) as web:
        text = refusal(web.ask("GET", "/files/none"), NOT_FOUND, NOT_FOUND_CODE)
        assert text == "there is no such file"
        answer = web.ask("GET", "/files/empty")
        assert (answer.status, answer.content) == (200, b"")


@pytest.mark.parametrize("listener", ["h1", "h2c"])
def test_a_download_that_fails_later_breaks_off(peer: Peer, files: Files, listener: str) -> None:
    with http(peer, listener) as client, client.stream("GET", "/files/broken") as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == b"first"
        files.go_on.set()
        with pytest.raises(httpx.RemoteProtocolError):
            next(pieces)


@pytest.mark.parametrize("listener", ["h1", "h2c"])
def test_large_content_needs_little_memory(peer: Peer, listener: str) -> None:
    with http(peer, listener) as client:
        assert client.get("/pages/a").status_code == 200
        before = highest_kib(peer)
        sent = client.put("/files/a", content=(bytes(MIB) for _ in range(LARGE // MIB)))
        assert sent.json()["bytes"] == LARGE
        with client.stream("GET", "/files/large") as answer:
            got = sum(len(piece) for piece in answer.iter_raw())
        assert got == LARGE + len(b"first")
    assert highest_kib(peer) - before < LITTLE_KIB


def test_a_download_over_http3_breaks_off_too(peer: Peer, files: Files) -> None:
    with (
        Client(versions=("h3",), verify=str(peer.ca), proxies=None) as client,
        client.stream("GET", peer.bases["h3"] + "/files/broken") as answer,
    ):
        pieces = answer.iter_raw()
        assert next(pieces) == b"first"
        files.go_on.set()
        with pytest.raises(StreamReset):
            next(pieces)


@pytest.mark.parametrize("listener", ["h2c", "h2", "h3"])
def test_content_goes_both_ways_at_a_time(peer: Peer, listener: str) -> None:
    answered = threading.Event()

    def content() -> Iterator[bytes]:
        yield b"one"
        assert answered.wait(PATIENCE_S), "the answer to the first piece waits for the others"
        yield b" two"

    kind = {"content-type": "text/plain"}
    with (
        Client(versions=(listener[:2],), verify=str(peer.ca), proxies=None) as client,
        client.stream(
            "POST", peer.url(listener, "/talks/a"), content=content(), headers=kind
        ) as answer,
    ):
        assert (answer.status, answer.headers["content-type"]) == (200, "text/plain+a")
        got = answer.read1()
        assert got == b"ONE"
        answered.set()
        assert got + answer.read() == b"ONE TWO"


def test_a_talk_may_be_refused_and_needs_streams_of_http(peer: Peer) -> None:
    with Web.open(peer, "h2") as web:
        text = refusal(web.ask("POST", "/talks/refused", b"x"), NOT_FOUND, NOT_FOUND_CODE)
        assert text == "nobody talks here"
        coded = web.ask("POST", "/talks/a", b"x", content_encoding="gzip")
        assert "content-encoding" in refusal(coded, UNSUPPORTED, INVALID_CODE)
    with Web.open(peer, "h1") as web:
        text = refusal(web.ask("POST", "/talks/a", b"x"), UNIMPLEMENTED, UNIMPLEMENTED_CODE)
        assert "both directions" in text
