# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "attrs==26.1.0",
#   "automat==25.4.16",
#   "cffi==2.1.1",
#   "constantly==23.10.4",
#   "cryptography==50.0.2",
#   "h2==4.4.1",
#   "hpack==4.2.0",
#   "hyperframe==6.1.0",
#   "hyperlink==21.0.0",
#   "idna==3.20",
#   "incremental==24.11.0",
#   "packaging==26.3",
#   "priority==1.3.0",
#   "pycparser==3.12",
#   "pyopenssl==26.4.0",
#   "service-identity==26.1.0",
#   "twisted[http2,tls]==26.10.0",
#   "typing-extensions==4.16.0",
#   "zope-interface==8.7",
# ]
# ///
"""3,000 books from Twisted, over HTTP/1.1 and HTTP/2, as in the second part of the 2016 post.

Its resources are the post's: `/` gives all ids, `/book?id=` one book, each made JSON anew for every
request. `/books` is a second name of the index. As in the post every request is logged;
`--no-access-log` leaves that out. Other than there it listens on 127.0.0.1 with the certificate it
is given, and writes JSON without spaces, so that its bytes are those of Trilane's embedded server.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from twisted.internet import endpoints, reactor
from twisted.python import log
from twisted.python.failure import Failure
from twisted.web import server
from twisted.web.resource import Resource


def dump(value: Any) -> bytes:
    """JSON as the embedded server writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf8")


class Hello(Resource):
    """The 11 bytes that tell that the server is ready."""

    isLeaf = True

    def render_GET(self, request: server.Request) -> bytes:
        """A greeting."""
        return b"hello world"


class Index(Resource):
    """All book ids."""

    def __init__(self, books: dict[str, Any]) -> None:
        super().__init__()
        self._books = books

    def render_GET(self, request: server.Request) -> bytes:
        """A JSON list of texts."""
        request.setHeader(b"content-type", b"application/json")
        return dump(list(self._books.keys()))


class Book(Resource):
    """Detailed data about each book."""

    isLeaf = True

    def __init__(self, books: dict[str, Any]) -> None:
        super().__init__()
        self._books = books

    def render_GET(self, request: server.Request) -> bytes:
        """A JSON object; 404 where there is no such book."""
        ids = request.args.get(b"id", [b""])
        book = self._books.get(ids[0].decode("utf8", "replace"))
        if not book:
            request.setResponseCode(404)
            return b""
        request.setHeader(b"content-type", b"application/json")
        return dump(book)


class QuietSite(server.Site):
    """A site that does not log its requests."""

    def log(self, request: server.Request) -> None:
        """Nothing."""


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--books", type=Path, required=True, help="JSON object: id to book")
    parser.add_argument("--no-access-log", action="store_true")
    options = parser.parse_args()
    log.startLogging(sys.stdout)
    books = json.loads(options.books.read_bytes())
    root = Resource()
    root.putChild(b"", Index(books))
    root.putChild(b"books", Index(books))
    root.putChild(b"book", Book(books))
    root.putChild(b"hello", Hello())
    site = (QuietSite if options.no_access_log else server.Site)(root)
    # Colons separate the parts of the description, so those in paths are marked.
    key, cert = (endpoints.quoteStringArgument(path) for path in (options.key, options.cert))
    description = f"ssl:port={options.port}:interface=127.0.0.1:privateKey={key}:certKey={cert}"
    endpoints.serverFromString(reactor, description).listen(site).addErrback(_cannot_listen)
    reactor.run()


def _cannot_listen(failure: Failure) -> None:
    sys.stderr.write(f"error: cannot listen: {failure.getErrorMessage()}\n")
    reactor.callWhenRunning(reactor.stop)


if __name__ == "__main__":
    main()
