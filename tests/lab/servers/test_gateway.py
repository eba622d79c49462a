"""`trilane gateway` and `trilane serve --upstream`: what is theirs alone.

That every binding of a service works is tested where it is for the embedded server:
`ours` is a gateway too.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from peers import embedded, grpc_python
from peers.authority import Authority
from peers.grpc_schema import FILE, PROTO, SERVICE, Schema, as_json
from peers.running import Peers
from repository import native

from .conftest import Start
from .gateways import UNAVAILABLE, UNAVAILABLE_CODE, Own, gateway, said
from .library import PATIENCE_S, Library
from .test_embedded_rest import check_own_endpoints, refusal
from .web import JSON, PROTOBUF, Web

BOOK = "/v1/shelves/1/books/1"
GET_BOOK = f"/{SERVICE}/GetBook"
NOT_FOUND = 404
UNIMPLEMENTED, UNIMPLEMENTED_CODE = 501, 12
UNAUTHENTICATED, UNAUTHENTICATED_CODE = 401, 16


@pytest.mark.parametrize("media_type", [JSON, PROTOBUF])
@pytest.mark.parametrize("listener", ["h1", "h2c", "h2", "h3"])
def test_every_method_has_a_path_without_a_rule(
    library_server: Start, schema: Schema, listener: str, media_type: str
) -> None:
    request = schema.make("GetBookRequest", name="shelves/1/books/1")
    content = (
        request.SerializeToString() if media_type == PROTOBUF else b'{"name":"shelves/1/books/1"}'
    )
    with Web.open(library_server("gateway"), listener) as web:
        answer = web.ask("POST", GET_BOOK, content, content_type=media_type)
        assert (answer.status, answer.media_type) == (200, media_type)
        if media_type == JSON:
            assert json.loads(answer.content) == as_json(1, 1)
        else:
            book = schema.make("Book")
            book.ParseFromString(answer.content)
            assert book.title == "Book 1 of shelf 1"
        by_query = web.ask("GET", f"{GET_BOOK}?name=shelves/1/books/1")
        assert json.loads(by_query.content) == as_json(1, 1)
        assert "allow" in web.ask("GET", GET_BOOK.replace("GetBook", "DeleteBook")).fields
        assert web.ask("GET", "/hello").status == NOT_FOUND


def test_metadata_goes_along(own: Own, authority: Authority) -> None:
    peer = own(lambda folder: grpc_python.start(folder, authority.local()))
    with Web.open(gateway(own, peer.bases["h2c"]), "h1") as web:
        blob = base64.b64encode(b"\x00\xff").decode().rstrip("=")
        good = {"grpc_metadata_x_blob_hex": "00ff", "grpc_metadata_x_blob_bin": blob}
        answer = web.ask("GET", BOOK, b"", **good)
        assert json.loads(answer.content) == as_json(1, 1)
        # The same without the prefix is a field of HTTP, which is nobody's metadata.
        assert web.ask("GET", BOOK, x_blob_hex="00ff").status == 200
        wrong = web.ask("GET", BOOK, grpc_metadata_x_blob_hex="00")
        assert "x-blob-bin came as" in refusal(wrong, UNAUTHENTICATED, UNAUTHENTICATED_CODE)
        late = {"grpc_timeout": "60S", "grpc_metadata_x_timeout_below": "61"}
        assert web.ask("GET", BOOK, b"", **late).status == 200
        late["grpc_metadata_x_timeout_below"] = "1"
        assert "the deadline is" in refusal(
            web.ask("GET", BOOK, b"", **late), UNAUTHENTICATED, UNAUTHENTICATED_CODE
        )


def test_an_upstream_that_goes_and_comes_back(own: Own, authority: Authority) -> None:
    peer = own(lambda folder: grpc_python.start(folder, authority.local()))
    url = peer.bases["h2c"]
    with Web.open(gateway(own, url), "h1") as web:
        assert web.ask("GET", BOOK).status == 200
        peer.stop()
        text = refusal(web.ask("GET", BOOK), UNAVAILABLE, UNAVAILABLE_CODE)
        assert f"{url.removeprefix('http://')} cannot be reached: " in text
        port = int(url.rpartition(":")[2])
        own(lambda folder: grpc_python.start(folder, authority.local(), port=port))
        assert json.loads(web.ask("GET", BOOK).content) == as_json(1, 1)


def test_an_upstream_over_tls(own: Own, peers: Peers, schema: Schema) -> None:
    peer = peers["grpc-python"]
    flags = ("--upstream-cacert", str(peer.ca))
    with Library.open(gateway(own, peer.bases["h2"], flags=flags), "h2c", schema) as library:
        assert library.ask("GetBook", name="shelves/1/books/1").title == "Book 1 of shelf 1"
    url = peer.bases["h2"]
    assert "--upstream-cacert" in said("--upstream", url, code=1)


def test_services_from_files(own: Own, authority: Authority, schema: Schema) -> None:
    peer = own(lambda folder: grpc_python.start(folder, authority.local(), reflection=""))
    url = peer.bases["h2c"]
    assert "offers no reflection" in said("--upstream", url, code=2)
    flags = ("--proto", str(PROTO / FILE))
    found = gateway(own, url, flags=flags)
    with Web.open(found, "h2") as web:
        assert json.loads(web.ask("GET", BOOK).content) == as_json(1, 1)
    with Library.open(found, "h2c", schema) as library:
        assert library.ask("GetBook", name="shelves/2/books/1").title == "Book 1 of shelf 2"


@pytest.fixture
def echo(proto: Path) -> Iterator[tuple[str, Path]]:
    """A server of one service that no other has, which gives back what it gets; and its file."""

    def say(request: bytes, context: Any) -> bytes:
        context.send_initial_metadata((("x-shelf", "1"),))
        return request

    same: Any = grpc.unary_unary_rpc_method_handler(say)
    handler = grpc.method_handlers_generic_handler("demo.v1.Echo", {"Say": same})
    # Nobody else is to have its port, whose calls would be shared.
    alone = [("grpc.so_reuseport", 0)]
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[handler], options=alone)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"grpc://127.0.0.1:{port}", proto
    server.stop(None).wait(PATIENCE_S)


def test_beside_the_embedded_servers_own(
    own: Own, echo: tuple[str, Path], schema: Schema, peers: Peers
) -> None:
    url, file = echo
    flags = ("--upstream", url, "--proto", str(file))
    peer = own(lambda folder: embedded.start(native(), folder, flags=flags))
    with Web.open(peer, "h2") as web:
        check_own_endpoints(web)
        assert json.loads(web.ask("GET", BOOK).content) == as_json(1, 1)
        assert json.loads(web.ask("GET", "/say/hello").content) == {"text": "hello"}
        answer = web.ask("POST", "/demo.v1.Echo/Say", b'{"text":"x"}', content_type=JSON)
        assert json.loads(answer.content) == {"text": "x"}
        assert answer.fields["grpc-metadata-x-shelf"] == "1"
    with Library.open(peer, "h2c", schema) as library:
        assert library.ask("GetBook", name="shelves/1/books/1").title == "Book 1 of shelf 1"
        # Field 1, one letter.
        assert library.raw("/demo.v1.Echo/Say")(b"\n\x01x", timeout=PATIENCE_S) == b"\n\x01x"
    done = subprocess.run(
        # Before it takes its ports, which others may have.
        [native(), "serve", "--upstream", peers["grpc-go"].bases["h2c"]],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "type trilane gateway" in done.stderr


def test_services_of_two_upstreams(own: Own, peers: Peers, echo: tuple[str, Path]) -> None:
    behind = gateway(own, echo[0], flags=("--proto", str(echo[1])))
    # A gateway describes its services, so that another one can be before it.
    urls = (peers["grpc-go"].bases["h2c"], behind.bases["h2c"])
    with Web.open(gateway(own, *urls), "h1") as web:
        assert json.loads(web.ask("GET", BOOK).content) == as_json(1, 1)
        assert json.loads(web.ask("GET", "/say/hello").content) == {"text": "hello"}
    alone = gateway(own, *urls, flags=("--service", "demo.v1.Echo"))
    with Web.open(alone, "h1") as web:
        assert web.ask("GET", BOOK).status == NOT_FOUND
        assert json.loads(web.ask("GET", "/say/hello").content) == {"text": "hello"}


def test_an_upstream_that_does_not_speak_grpc(own: Own, peers: Peers, proto: Path) -> None:
    url = peers["nginx"].bases["h2c"]
    with Web.open(gateway(own, url, flags=("--proto", str(proto))), "h1") as web:
        # gRPC's mapping of HTTP status 404.
        text = refusal(web.ask("GET", "/say/hello"), UNIMPLEMENTED, UNIMPLEMENTED_CODE)
        assert text == f"{url.removeprefix('http://')} answers with HTTP status 404 Not Found"


def test_what_is_no_upstream(peers: Peers) -> None:
    other = peers["nginx"].bases["h2c"]
    assert "reflection" in said("--upstream", other, code=2)
    assert "type for example grpc://" in said("--upstream", "localhost:50051", code=2)
    assert "type for example --upstream" in said(code=2)
    go = peers["grpc-go"].bases["h2c"]
    assert "there is no" in said("--upstream", go, "--service", "a.B", code=2)
