# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "hdrhistogram==0.10.8",
#     "pbr==7.1.3",
#     "setuptools==84.2.1",
# ]
#
# [tool.trilane]
# name = "http-client"
# title = "http.client"
# versions = ["h1"]
# strategies = ["serial", "threads", "processes", "asyncio_threads"]
# ///
"""The standard library's http.client: one connection, no pool, no decoding."""

import gzip
import http.client
import ssl
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane_contender import Answer, Library, Plan, run
from trilane_contender.bodies import PIECE, counted


class Client:
    """One connection, opened by the first request and again after the server closed it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._headers = dict(plan.headers)
        if plan.scheme == "https":
            context = ssl.create_default_context(cafile=plan.cacert)
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                plan.host, plan.port, timeout=plan.timeout_s, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(
                plan.host, plan.port, timeout=plan.timeout_s
            )

    def fetch(self, path: str) -> Answer:
        """Request, getresponse, read: the three calls of its documentation."""
        try:
            self._send(path)
            response = self._connection.getresponse()
            version = "h1" if response.version == 11 else "h1.0"
            if self._plan.discard:
                size = counted(iter(lambda: response.read(PIECE), b""))
                return Answer(response.status, version, b"", size)
            body = response.read()
        except BaseException:
            # A connection in the middle of a response refuses the next request.
            self._connection.close()
            raise
        if response.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        return Answer(response.status, version, body)

    def _send(self, path: str) -> None:
        plan = self._plan
        if plan.body_file is None:
            self._connection.request(plan.method, path, body=plan.body, headers=self._headers)
            return
        length = {"content-length": str(plan.body_file.stat().st_size)}
        with plan.body_file.open("rb") as file:
            self._connection.request(plan.method, path, body=file, headers=self._headers | length)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


if __name__ == "__main__":
    sys.exit(run(Library(distribution=None, client=Client, streams_bodies=True)))
