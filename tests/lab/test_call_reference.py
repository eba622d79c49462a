"""A call is made and checked by other code than that of the contenders, before it is measured."""

from __future__ import annotations

import contextlib
import http.server
import threading
import zlib
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from synthetic.books import ENCODED, as_json
from trilane.lab.clients import call_reference
from trilane.lab.clients.reference import NoReference, Reference
from trilane.lab.targets.calls import Call, frame

TRAILERS = b"grpc-status: 0\r\n"


class _Handler(http.server.BaseHTTPRequestHandler):
    answers: ClassVar[dict[str, tuple[int, bytes]]] = {}
    asked: ClassVar[list[tuple[str, str, bytes, dict[str, str]]]] = []

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        fields = {name.lower(): value for name, value in self.headers.items()}
        self.asked.append((self.command, self.path, body, fields))
        status, content = self.answers[self.path]
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _answer  # noqa: N815 - names of the standard library

    def log_message(self, *_arguments: Any) -> None:
        """Nothing: pytest shows what matters."""


@contextlib.contextmanager
def serving(**answers: tuple[int, bytes]) -> Iterator[str]:
    """A server of HTTP/1.1 with these answers by path."""
    _Handler.answers = {f"/{path}": answer for path, answer in answers.items()}
    _Handler.asked = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_calls_over_h1_are_read_by_the_standard_library_and_checked() -> None:
    web = frame(ENCODED) + b"\x80" + frame(TRAILERS)[1:]
    with serving(j=(200, as_json()), p=(200, ENCODED), w=(200, web)) as origin:
        read = call_reference.read
        found = read(Call("/j", "GET"), "json", "h1", origin, None)
        assert found == Reference(
            (("/j", zlib.crc32(as_json())),), (len(as_json()),), complete=False
        )
        headers = (("content-type", "application/proto"),)
        read(Call("/p", "POST", headers, b"\x0a\x01x"), "protobuf", "h1", origin, None)
        read(Call("/w", "POST", (), b"\0"), "grpc-web", "h1", origin, None)
    method, path, body, fields = _Handler.asked[1]
    assert (method, path, body) == ("POST", "/p", b"\x0a\x01x")
    assert fields["content-type"] == "application/proto"
    assert fields["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("message", "status", "content", "told"),
    [
        ("json", 404, b'{"code": 5}', "status 404, b'{\"code\": 5}'"),
        ("json", 200, as_json(title="Dune"), "this is not the book: title is 'Dune'"),
        ("protobuf", 200, as_json(), "this is not the book"),
        ("grpc-web", 200, frame(ENCODED), "the trailers are ''"),
        (
            "grpc-web",
            200,
            frame(ENCODED) + b"\x80" + frame(b"grpc-status: 13\r\n")[1:],
            "grpc-status: 13",
        ),
    ],
)
def test_a_wrong_answer_makes_no_reference(
    message: str, status: int, content: bytes, told: str
) -> None:
    with serving(x=(status, content)) as origin, pytest.raises(NoReference) as caught:
        call_reference.read(Call("/x", "POST"), message, "h1", origin, None)
    assert told in str(caught.value)
    assert f"/x over h1, {message}: " in str(caught.value)


def test_a_server_that_is_not_there_makes_no_reference() -> None:
    with pytest.raises(NoReference, match=r"127\.0\.0\.1:1/x over h1, json: .*refused"):
        call_reference.read(Call("/x", "GET"), "json", "h1", "http://127.0.0.1:1", None)
    with pytest.raises(NoReference, match=r"127\.0\.0\.1:1/x over h2c, grpc: "):
        call_reference.read(Call("/x", message="{}"), "grpc", "h2c", "http://127.0.0.1:1", None)
