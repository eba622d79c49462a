"""The independent reading, against the embedded server and a scripted one."""

from __future__ import annotations

import http.server
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from trilane.lab.clients import reference
from trilane.lab.clients.reference import NoReference
from trilane.lab.experiment.workload import Workload

PAGES = {
    "/": b'<a href="/one">1</a> <a href="ORIGIN/two/">2</a> <a href="//other/">x</a>',
    "/one": b'<a href="/">home</a> <a href="/two">2</a>',
    "/two": b'<a href="/three">3</a> <a href="https://elsewhere/four">4</a>',
    "/three": b"the end",
    "/ids": b'["a", "b", "c"]',
    "/item/a": b"A",
    "/item/b": b"BB",
    "/item/c": b"CCC",
    "/nojson": b"<html>",
}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        page = PAGES.get(self.path.rstrip("/") or "/")
        body = (page or b"").replace(b"ORIGIN", f"http://{self.headers['host']}".encode())
        self.send_response(200 if page is not None else 404)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        self.send_response(200)
        self.send_header("content-length", str(length))
        self.end_headers()
        self.wfile.write(self.rfile.read(length))

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def crc(*paths: str) -> int:
    return sum(zlib.crc32(PAGES[path]) for path in paths)


def test_urls_are_taken_in_turn(origin: str) -> None:
    workload = Workload(paths=("/one", "/two", "/three"), count=7)
    read = reference.read(workload, origin, None, {})
    assert read.digest(workload) == 2 * crc("/one", "/two", "/three") + crc("/one")


def test_bodies_are_counted_as_well(origin: str) -> None:
    workload = Workload(paths=("/one", "/two"), count=3, repeat=2, discard=True)
    read = reference.read(workload, origin, None, {})
    assert read.size(workload) == 2 * (2 * len(PAGES["/one"]) + len(PAGES["/two"]))
    assert reference.Reference((), complete=False).size(workload) is None


def test_a_file_is_sent(origin: str, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(bytes(100_000))
    workload = Workload(paths=("/echo",), count=1, method="POST", file_bytes=100_000)
    read = reference.read(workload, origin, None, {}, tmp_path / "body")
    assert read.digest(workload) == zlib.crc32(bytes(100_000))


def test_an_index_and_its_items(origin: str) -> None:
    workload = Workload(kind="index", paths=(), index="/ids", item="/item/{id}", count=2)
    read = reference.read(workload, origin, None, {})
    assert read.paths == ["/ids", "/item/a", "/item/b"]
    assert read.digest(workload) == crc("/ids", "/item/a", "/item/b")


def test_a_crawl_reads_every_page_of_the_origin_once(origin: str) -> None:
    workload = Workload(kind="crawl", paths=(), start="/", count=10)
    read = reference.read(workload, origin, None, {})
    assert read.paths == ["/", "/one", "/two", "/three"]
    first = zlib.crc32(PAGES["/"].replace(b"ORIGIN", origin.encode()))
    assert read.digest(workload) == first + crc("/one", "/two", "/three")


def test_a_crawl_that_is_cut_short_claims_nothing(origin: str) -> None:
    workload = Workload(kind="crawl", paths=(), start="/", count=2)
    read = reference.read(workload, origin, None, {})
    assert len(read.paths) == 2
    assert read.digest(workload) is None


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (Workload(paths=("/missing",), count=1), "status 404"),
        (Workload(kind="index", paths=(), index="/nojson", item="/{id}"), "not a JSON list"),
    ],
)
def test_a_server_that_does_not_serve_it_is_an_error(
    workload: Workload, message: str, origin: str
) -> None:
    with pytest.raises(NoReference, match=message):
        reference.read(workload, origin, None, {})


def test_a_server_that_is_not_there_is_an_error() -> None:
    with pytest.raises(NoReference, match="did not answer"):
        reference.read(Workload(count=1), "http://127.0.0.1:9", None, {})
