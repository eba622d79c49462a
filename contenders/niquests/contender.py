# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "charset-normalizer==3.5.2",
#     "h11==0.16.0",
#     "hdrhistogram==0.10.8",
#     "jh2==5.0.15",
#     "niquests==3.21.2",
#     "pbr==7.1.3",
#     "qh3==2.1.0 ; platform_python_implementation == 'CPython'",
#     "setuptools==84.2.1",
#     "urllib3-future==2.25.904",
#     "wassima==2.1.5",
# ]
#
# [tool.trilane]
# name = "niquests"
# title = "Niquests"
# library = "niquests"
# versions = ["h1", "h2", "h2c", "h3"]
# note = "chunks and multiplexed use its lazy responses and gather"
# strategies = [
#     "serial",
#     "threads",
#     "processes",
#     "asyncio_threads",
#     "asyncio",
#     "processes_asyncio",
#     "chunks",
#     "multiplexed",
# ]
# ///
"""Niquests: a session in the manner of Requests, over HTTP/1.1, HTTP/2 and HTTP/3."""

import contextlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

import niquests
import urllib3
from urllib3.util import SKIP_HEADER

from trilane_contender import Answer, Library, Plan, run
from trilane_contender.bodies import PIECE, counted

_SPOKEN = {11: "h1", 20: "h2", 30: "h3"}
# Left to itself it would begin with what the server offers and move on to HTTP/3 later.
_ONLY = {
    "h1": {"disable_http2": True, "disable_http3": True},
    "h2": {"disable_http1": True, "disable_http3": True},
    "h2c": {"disable_http1": True, "disable_http3": True},
    "h3": {"disable_http1": True, "disable_http2": True},
}


def _cannot(plan: Plan) -> str | None:
    if (plan.discard or plan.body_file) and plan.strategy not in {"serial", "threads"}:
        return f"bodies are streamed by its blocking session only, not with {plan.strategy}"
    return None


class Client:
    """One `Session`."""

    def __init__(self, plan: Plan, *, multiplexed: bool = False) -> None:
        self._request = _request(plan)
        self._target = plan.target
        self._file = plan.body_file
        self._discard = plan.discard
        self._session = niquests.Session(multiplexed=multiplexed, **_options(plan))
        self._session.trust_env = False

    def fetch(self, path: str) -> Answer:
        """`session.request`; the body is read and decoded before it returns."""
        with contextlib.ExitStack() as stack:
            request = self._request
            if self._file is not None:
                request = {**request, "data": stack.enter_context(self._file.open("rb"))}
            response = self._session.request(url=self._target + path, **request)
            return _counted(response) if self._discard else _answer(response)

    def close(self) -> None:
        """Close the pool."""
        self._session.close()


class StreamClient(Client):
    """One `Session` with lazy responses."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan, multiplexed=True)

    def submit(self, path: str) -> Any:
        """The response is a promise as long as nobody looks at it."""
        return self._session.request(url=self._target + path, **self._request)

    def collect(self, handle: Any) -> Answer:
        """Wait for this one; others that arrive meanwhile are kept."""
        self._session.gather(handle)
        return _answer(handle)


class AsyncClient:
    """One `AsyncSession`."""

    def __init__(self, plan: Plan) -> None:
        self._request = _request(plan)
        self._target = plan.target
        self._session = niquests.AsyncSession(**_options(plan))
        self._session.trust_env = False

    async def fetch(self, path: str) -> Answer:
        """`session.request`; the body is read and decoded before it returns."""
        return _answer(await self._session.request(url=self._target + path, **self._request))

    async def close(self) -> None:
        """Close the pool."""
        await self._session.close()


def _options(plan: Plan) -> dict[str, Any]:
    return {
        **_ONLY[plan.version],
        "pool_maxsize": plan.pool,
        "headers": {"user-agent": SKIP_HEADER, **dict(plan.headers)},
        "verify": plan.cacert or True,
        # Asking a certificate authority about revocation is no part of the request.
        "revocation_configuration": None,
    }


def _request(plan: Plan) -> dict[str, Any]:
    return {
        "method": plan.method,
        "data": plan.body,
        "timeout": plan.timeout_s,
        "allow_redirects": False,
        "stream": plan.discard,
    }


def _counted(response: niquests.Response) -> Answer:
    size = counted(response.iter_content(PIECE))
    version = response.http_version
    return Answer(response.status_code or 0, _SPOKEN.get(version or 0, f"{version}"), b"", size)


def _answer(response: niquests.Response) -> Answer:
    version = response.http_version
    body = response.content or b""
    return Answer(response.status_code or 0, _SPOKEN.get(version or 0, f"{version}"), body)


if __name__ == "__main__":
    sys.exit(
        run(
            Library(
                distribution="niquests",
                client=Client,
                async_client=AsyncClient,
                stream_client=StreamClient,
                cannot=_cannot,
                streams_bodies=True,
                # Its documentation promises it for every version.
                shared_by_threads=frozenset(_ONLY),
                kinds=(
                    (niquests.exceptions.SSLError, "tls"),
                    (niquests.exceptions.Timeout, "timeout"),
                    (niquests.exceptions.ChunkedEncodingError, "body"),
                    (niquests.exceptions.ContentDecodingError, "body"),
                    (urllib3.exceptions.ProtocolError, "protocol"),
                    (niquests.exceptions.ConnectionError, "connect"),
                ),
            )
        )
    )
