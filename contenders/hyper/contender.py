# /// script
# requires-python = ">=3.11,<3.12"
# dependencies = [
#     "certifi==2026.10.18",
#     "charset-normalizer==3.5.2",
#     "h2==2.6.2",
#     "hdrhistogram==0.10.8",
#     "hpack==3.0.0",
#     "hyper==0.7.0",
#     "hyperframe==3.2.0",
#     "idna==3.20",
#     "pbr==7.1.3",
#     "requests==2.34.2",
#     "setuptools==84.2.1",
#     "urllib3==2.8.0",
# ]
#
# [tool.trilane]
# name = "hyper"
# title = "hyper 0.7"
# library = "hyper"
# versions = ["h1", "h2", "h2c"]
# note = "archived in 2020; imported with the names that Python took away put back"
# strategies = [
#     "serial",
#     "threads",
#     "processes",
#     "asyncio_threads",
#     "chunks",
#     "multiplexed",
# ]
#
# [tool.trilane.variants.requests-hyper]
# title = "Requests with hyper's adapter"
# library = "requests"
# versions = ["h2"]
# strategies = ["serial", "threads", "processes", "asyncio_threads"]
# note = "hyper 0.7, archived in 2020, under a Requests of today; one request at a time"
# ///
"""hyper, the client of the first posts: http.client's shape, and stream ids over HTTP/2."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

import hyper_import

hyper_import.prepare()

import hyper
from hyper.common.exceptions import ConnectionResetError as HyperReset
from hyper.common.exceptions import InvalidResponseError, SocketError
from hyper.http20.exceptions import HTTP20Error

from trilane_contender import Answer, Library, Plan, run


class StreamClient:
    """One connection. Over HTTP/1.1 it takes one request at a time, and has no stream ids."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._headers = dict(plan.headers)
        # It names only the host where the port belongs to the authority.
        authority = f"{plan.host}:{plan.port}"
        self._headers["host" if plan.version == "h1" else ":authority"] = authority
        if plan.body is not None:
            self._headers["content-length"] = str(len(plan.body))
        hyper_import.limit(plan.timeout_s)
        self._connection = self._new()

    def submit(self, path: str) -> Any:
        """`request`; returns the id of the stream."""
        body = self._plan.body
        if self._plan.version != "h1":
            body = hyper_import.whole(body)
        return self._connection.request(self._plan.method, path, body=body, headers=self._headers)

    def collect(self, handle: Any) -> Answer:
        """`get_response` of that stream and `read`; it decodes gzip by itself."""
        if self._plan.version == "h1":
            hyper_import.make_room(self._connection)
        arguments = () if handle is None else (handle,)
        response = self._connection.get_response(*arguments)
        body = response.read()
        spoken = "h2" if isinstance(response, hyper.HTTP20Response) else "h1"
        return Answer(response.status, spoken, body)

    def close(self) -> None:
        """Close the connection, if there is one."""
        # Its own `close` fails where there is none yet.
        if self._connection._sock is not None:  # noqa: SLF001
            self._connection.close()

    def _new(self) -> Any:
        plan = self._plan
        if plan.scheme == "http" and plan.version == "h2c":
            # Without TLS its general connection begins with HTTP/1.1 and asks for an upgrade.
            return hyper.HTTP20Connection(plan.host, plan.port, secure=False)
        if plan.scheme == "http":
            connection = hyper.HTTP11Connection(plan.host, plan.port, secure=False)
            # Its first request would ask for HTTP/2.
            connection._send_http_upgrade = False  # noqa: SLF001
            return connection
        context = hyper_import.trust(plan)
        return hyper.HTTPConnection(plan.host, plan.port, secure=True, ssl_context=context)


class Client(StreamClient):
    """One request at a time."""

    def fetch(self, path: str) -> Answer:
        """A failed connection is given up, as its state is unknown."""
        try:
            return self.collect(self.submit(path))
        except BaseException:
            self.close()
            self._connection = self._new()
            raise


def library(variant: str) -> Library:
    """hyper by itself, or under Requests."""
    if variant == "requests-hyper":
        import over_requests  # noqa: PLC0415 - the other does without Requests

        return over_requests.LIBRARY
    return Library(
        distribution="hyper",
        client=Client,
        stream_client=StreamClient,
        kinds=(
            (HyperReset, "reset"),
            (SocketError, "closed"),
            (InvalidResponseError, "protocol"),
            (HTTP20Error, "protocol"),
        ),
    )


if __name__ == "__main__":
    sys.exit(run(library(sys.argv[-1])))
