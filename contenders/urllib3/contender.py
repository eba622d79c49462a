# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "h2==4.4.1",
#     "hdrhistogram==0.10.8",
#     "hpack==4.2.0",
#     "hyperframe==6.1.0",
#     "pbr==7.1.3",
#     "setuptools==84.2.1",
#     "urllib3==2.8.0",
# ]
#
# [tool.trilane]
# name = "urllib3"
# title = "urllib3"
# library = "urllib3"
# versions = ["h1", "h2"]
# note = "HTTP/2 is urllib3's experimental one: one request at a time, deadlocks with threads"
#
# [tool.trilane.strategies]
# h1 = ["serial", "threads", "processes", "asyncio_threads"]
# h2 = ["serial", "processes"]
# ///
"""urllib3: a pool manager, shared by all threads as its documentation says it may be."""

import gzip
import ssl
import sys
from http.client import RemoteDisconnected
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

import urllib3
import urllib3.http2
from urllib3.connectionpool import HTTPSConnectionPool
from urllib3.http2.connection import HTTP2Connection
from urllib3.util import SKIP_HEADER

from trilane_contender import Answer, Broken, Library, Plan, run

_SPOKEN = {11: "h1", 20: "h2"}


class CheckedConnection(HTTP2Connection):
    """Its HTTP/2 connection with what it does not check yet, so that it cannot hang."""

    def connect(self) -> None:
        """A server that does not choose HTTP/2 would be spoken to in HTTP/2 all the same."""
        super().connect()
        if self.sock.selected_alpn_protocol() != "h2":
            self.close()
            raise Broken("protocol", "the server did not choose h2")
        self.sock = EndingSocket(self.sock)


class EndingSocket:
    """A socket whose end is an error: the connection would read on for ever, and find nothing."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock

    def recv(self, size: int) -> bytes:
        """At least one byte."""
        got = self._sock.recv(size)
        if not got:
            raise RemoteDisconnected("the server closed the connection")
        return got

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class Client:
    """One `PoolManager`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._headers = dict(plan.headers)
        if plan.version == "h2":
            # For the whole process; ALPN then offers nothing else.
            urllib3.http2.inject_into_urllib3()
            HTTPSConnectionPool.ConnectionCls = CheckedConnection
        else:
            # Its HTTP/2 knows no way to leave a header out.
            self._headers.setdefault("user-agent", SKIP_HEADER)
        self._pool = urllib3.PoolManager(
            maxsize=plan.pool,
            ca_certs=plan.cacert,
            timeout=urllib3.Timeout(connect=plan.timeout_s, read=plan.timeout_s),
            retries=False,
        )

    def fetch(self, path: str) -> Answer:
        """`request`; the body is read before it returns."""
        response = self._pool.request(
            self._plan.method,
            self._plan.target + path,
            body=self._plan.body,
            headers=self._headers,
            redirect=False,
        )
        body = response.data
        # Over HTTP/2 it does not decode yet.
        if response.version == 20 and response.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        return Answer(response.status, _SPOKEN.get(response.version, f"{response.version}"), body)

    def close(self) -> None:
        """Close all pools."""
        self._pool.clear()


if __name__ == "__main__":
    sys.exit(
        run(
            Library(
                distribution="urllib3",
                client=Client,
                shared_by_threads=frozenset({"h1"}),
                kinds=(
                    (urllib3.exceptions.SSLError, "tls"),
                    (urllib3.exceptions.TimeoutError, "timeout"),
                    (urllib3.exceptions.IncompleteRead, "body"),
                    (urllib3.exceptions.DecodeError, "body"),
                    (urllib3.exceptions.NewConnectionError, "connect"),
                ),
            )
        )
    )
