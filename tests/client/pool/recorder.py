"""A server of the standard library that redirects, sets cookies, and tells what it got."""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import parse_http_list, parse_keqv_list

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For `verify` of HTTPX, which else reads all authorities of the system for each client."""


@dataclass
class Got:
    """A request as it arrived."""

    method: str
    path: str
    fields: list[tuple[str, str]]
    body: bytes

    def field(self, name: str) -> str | None:
        """The value of a field; None without it. Several are an error."""
        found = [value for key, value in self.fields if key.lower() == name]
        assert len(found) <= 1, found
        return found[0] if found else None


class QuietHandler(BaseHTTPRequestHandler):
    """Answers over connections that are kept, and logs nothing."""

    protocol_version = "HTTP/1.1"
    # Content is written after its head: it would wait for the acknowledgement of that, 40 ms.
    disable_nagle_algorithm = True
    owner: Any
    """The server's."""

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


class Serving:
    """A server of the standard library on a free port, until `close`."""

    def __init__(self, handler: type[QuietHandler]) -> None:
        """Requests are for objects of the handler, whose `owner` is this."""
        own = type(handler.__name__, (handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), own)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Recorder(Serving):
    """The server; `got` has all requests in their order."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self._lock = threading.Lock()
        super().__init__(_Handler)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def other(self) -> str:
        """The same server as another origin."""
        return f"http://localhost:{self.port}"

    def redirect(self, status: int, to: str, *, at: str | None = None) -> str:
        """A URL, on another origin where it is named, that redirects."""
        query = urllib.parse.urlencode({"status": status, "to": to})
        return f"{at or self.base}/redirect?{query}"

    def setting(self, *cookies: str, at: str | None = None) -> str:
        """A URL that sets cookies."""
        query = urllib.parse.urlencode([("cookie", each) for each in cookies])
        return f"{at or self.base}/set?{query}"

    def add(self, got: Got) -> int:
        """How many came to that path, this one counted."""
        with self._lock:
            self.got.append(got)
            return sum(each.path == got.path for each in self.got)

    def forget(self) -> list[Got]:
        """What came since the last time."""
        with self._lock:
            got, self.got = self.got, []
            return got


class _Handler(QuietHandler):
    def _any(self) -> None:
        body = self._body()
        parts = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(parts.query)
        got = Got(self.command, self.path, list(self.headers.items()), body)
        times = self.owner.add(got)
        if parts.path == "/redirect":
            self._answer(int(query["status"][0]), [("Location", query["to"][0])], b"elsewhere")
        elif parts.path == "/set":
            self._answer(200, [("Set-Cookie", each) for each in query["cookie"]], b"set")
        elif parts.path == "/status":
            self._answer(int(query["status"][0]), [], b"so it is")
        elif parts.path == "/flaky":
            fails = times <= int(query["times"][0])
            fields = [("Retry-After", each) for each in query.get("after", [])]
            self._answer(503 if fails else 200, fields if fails else [], b"")
        elif parts.path == "/digest":
            self._digest(query.get("algorithm", ["MD5"])[0])
        else:
            told: dict[str, Any] = {
                "method": got.method,
                "path": got.path,
                "fields": got.fields,
                "body": base64.b64encode(body).decode(),
            }
            self._answer(200, [("Content-Type", "application/json")], json.dumps(told).encode())

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _any  # noqa: N815

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("transfer-encoding", ""):
            whole = b""
            while size := int(self.rfile.readline(), 16):
                whole += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return whole
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def _answer(self, status: int, fields: list[tuple[str, str]], content: bytes) -> None:
        self.send_response(status)
        for field in fields:
            self.send_header(*field)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            # Some clients leave before their answer.
            with suppress(ConnectionError):
                self.wfile.write(content)

    def _digest(self, algorithm: str) -> None:
        """RFC 7616 for Mufasa, whose nonce is one for all."""
        given = self.headers.get("authorization", "")
        if given.startswith("Digest ") and self._is_right(given.removeprefix("Digest "), algorithm):
            self._answer(200, [], b"roar")
            return
        challenge = f'Digest realm="zoo", qop="auth, auth-int", nonce="n", algorithm={algorithm}'
        offers = ('Basic realm="zoo"', challenge)
        self._answer(401, [("WWW-Authenticate", offer) for offer in offers], b"who?")

    def _is_right(self, given: str, algorithm: str) -> bool:
        said = parse_keqv_list(parse_http_list(given))

        def digest(text: str) -> str:
            name = {"MD5": "md5", "SHA-256": "sha256"}[algorithm.removesuffix("-sess")]
            return hashlib.new(name, text.encode()).hexdigest()

        first = digest(f"{said['username']}:zoo:Circle of Life")
        if algorithm.endswith("-sess"):
            # RFC 7616 §3.4.2: once for a session, by what the client said first.
            if said["nc"] == "00000001":
                self.server.sessions = {"n": said["cnonce"]}  # type: ignore[attr-defined]
            first = digest(f"{first}:n:{self.server.sessions['n']}")  # type: ignore[attr-defined]
        second = digest(f"{self.command}:{self.path}")
        middle = f"n:{said['nc']}:{said['cnonce']}:auth"
        return said["uri"] == self.path and said["response"] == digest(f"{first}:{middle}:{second}")


@contextmanager
def recording() -> Iterator[Recorder]:
    """A server while the context lasts."""
    recorder = Recorder()
    try:
        yield recorder
    finally:
        recorder.close()
