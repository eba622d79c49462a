# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "certifi==2026.10.18",
#     "cffi==2.1.1",
#     "curl-cffi==0.16.3",
#     "hdrhistogram==0.10.8",
#     "pbr==7.1.3",
#     "pycparser==3.12; implementation_name != 'PyPy'",
#     "setuptools==84.2.1",
# ]
#
# [tool.trilane]
# name = "curl_cffi"
# title = "curl_cffi"
# library = "curl-cffi"
# note = "impersonates no browser"
# versions = ["h1", "h2", "h2c", "h3"]
# strategies = [
#     "serial", "threads", "processes", "asyncio_threads", "asyncio", "processes_asyncio",
#     "chunks", "multiplexed",
# ]
# ///
"""curl_cffi: a session with a handle per thread, or an asynchronous one over a multi handle."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from curl_cffi import AsyncCurl, CurlHttpVersion, CurlInfo, CurlMOpt, CurlOpt
from curl_cffi._wrapper import ffi, lib
from curl_cffi.requests import AsyncSession, Response, Session
from curl_cffi.requests.exceptions import RequestException

from trilane_contender import Answer, Broken, Library, Plan, run
from trilane_contender.curl import broken

ASKED = {
    "h1": CurlHttpVersion.V1_1,
    "h2": CurlHttpVersion.V2TLS,
    "h2c": CurlHttpVersion.V2_PRIOR_KNOWLEDGE,
    "h3": CurlHttpVersion.V3ONLY,
}
SPOKEN = {CurlHttpVersion.V1_1: "h1", CurlHttpVersion.V2_0: "h2", CurlHttpVersion.V3: "h3"}


def settings(plan: Plan) -> dict[str, Any]:
    """What both sessions are given."""
    return {
        "allow_redirects": False,
        "curl_infos": [CurlInfo.OS_ERRNO],
        "curl_options": {CurlOpt.PROXY: b"", CurlOpt.PIPEWAIT: 1},
        "discard_cookies": True,
        "http_version": ASKED[plan.version],
        "timeout": plan.timeout_s,
        "trust_env": False,
        "verify": plan.cacert or True,
    }


def request(plan: Plan) -> dict[str, Any]:
    """What every request is given. None as a value takes a header of libcurl away."""
    headers: dict[str, str | None] = dict.fromkeys(("accept", "content-type", "user-agent"))
    headers |= dict(plan.headers)
    if plan.gzip:
        # libcurl decodes only what it has asked for itself.
        del headers["accept-encoding"]
    return {
        "headers": headers,
        "content": plan.body,
        "accept_encoding": "gzip" if plan.gzip else None,
    }


def answer(response: Response) -> Answer:
    """The response, whose version libcurl tells for each transfer."""
    version = response.http_version
    return Answer(
        response.status_code, SPOKEN.get(version, f"HTTP version {version}"), response.content
    )


def failure(error: RequestException) -> Broken:
    """By libcurl's code, which the exception carries."""
    infos = error.response.infos if error.response is not None else {}
    return broken(int(error.code), str(error), infos.get(CurlInfo.OS_ERRNO, 0))


class Client:
    """One `Session`: every thread that uses it has a handle, and so a connection, of its own."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._request = request(plan)
        self._session = Session(**settings(plan))

    def fetch(self, path: str) -> Answer:
        """`session.request`."""
        try:
            response = self._session.request(
                self._plan.method, self._plan.target + path, **self._request
            )
        except RequestException as error:
            raise failure(error) from error
        return answer(response)

    def close(self) -> None:
        """Close the session."""
        self._session.close()


def limit(multi: AsyncCurl, option: CurlMOpt, value: int) -> None:
    """Set a number of the multi handle.

    `AsyncCurl.setopt` of curl_cffi 0.16 gives libcurl the address of the number in its place.
    """
    code = lib.curl_multi_setopt(multi._curlm, option, ffi.cast("void *", value))  # noqa: SLF001
    if code:
        raise RuntimeError(f"libcurl refuses {option.name} = {value}: error {code}")


class AsyncClient:
    """One `AsyncSession` whose multi handle opens as many connections as the plan allows."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._request = request(plan)
        at_once = max(plan.in_flight, plan.chunk)
        self._multi = AsyncCurl(cacert=plan.cacert or "")
        limit(self._multi, CurlMOpt.MAX_HOST_CONNECTIONS, plan.pool)
        limit(self._multi, CurlMOpt.MAX_CONCURRENT_STREAMS, at_once)
        self._session = AsyncSession(async_curl=self._multi, max_clients=at_once, **settings(plan))

    async def fetch(self, path: str) -> Answer:
        """`await session.request`."""
        try:
            response = await self._session.request(
                self._plan.method, self._plan.target + path, **self._request
            )
        except RequestException as error:
            raise failure(error) from error
        return answer(response)

    async def close(self) -> None:
        """Close the session, then the multi handle, which the session does not own."""
        await self._session.close()
        await self._multi.close()


if __name__ == "__main__":
    sys.exit(
        run(
            Library(
                distribution="curl-cffi",
                client=Client,
                async_client=AsyncClient,
                shared_by_threads=frozenset({"h1", "h2", "h2c", "h3"}),
            )
        )
    )
