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
"""Hello world from Twisted, over HTTP/1.1 and HTTP/2, as in the first part of the 2016 post.

As in the post every request is logged; `--no-access-log` leaves that out. Other than there it
listens on 127.0.0.1, with the certificate it is given.
"""

from __future__ import annotations

import argparse
import sys

from twisted.internet import endpoints, reactor
from twisted.python import log
from twisted.python.failure import Failure
from twisted.web import server
from twisted.web.resource import Resource


class Index(Resource):
    """Answers everything."""

    isLeaf = True

    def render_GET(self, request: server.Request) -> bytes:
        """The 22 bytes of the post."""
        return b"hello world (in HTTP2)"


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
    parser.add_argument("--no-access-log", action="store_true")
    options = parser.parse_args()
    log.startLogging(sys.stdout)
    site = (QuietSite if options.no_access_log else server.Site)(Index())
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
