"""A server that knows no more than HTTP/1.1, over TLS, and says so by ALPN."""

from __future__ import annotations

import contextlib
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HELLO = b"hello world"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10.0

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(HELLO)))
        self.end_headers()
        self.wfile.write(HELLO)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """The log of pytest is for what fails."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that speak something else are what the test is about."""


@contextlib.contextmanager
def old_server(cert: Path, key: Path) -> Iterator[str]:
    """Its origin, while it runs."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    context.set_alpn_protocols(["http/1.1"])
    server = _Server(("127.0.0.1", 0), _Handler)
    # The handshake belongs into the thread of the connection, not into the one that accepts.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
