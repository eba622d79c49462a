# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "aiohappyeyeballs==2.7.1",
#     "aiohttp==3.14.5",
#     "aiosignal==1.4.0",
#     "attrs==26.1.0",
#     "frozenlist==1.8.0",
#     "hdrhistogram==0.10.8",
#     "idna==3.20",
#     "multidict==7.2.1",
#     "pbr==7.1.3",
#     "propcache==0.5.4",
#     "setuptools==84.2.1",
#     "typing-extensions==4.16.0",
#     "uvloop==0.23.0",
#     "yarl==1.25.1",
# ]
#
# [tool.trilane]
# name = "aiohttp"
# title = "aiohttp"
# library = "aiohttp"
# versions = ["h1"]
# strategies = ["serial", "asyncio", "processes_asyncio"]
#
# [tool.trilane.variants.aiohttp-uvloop]
# title = "aiohttp on uvloop"
# strategies = ["serial", "asyncio"]
# ///
"""aiohttp: a client session whose connector holds as many connections as the plan allows."""

import contextlib
import functools
import ssl
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

import aiohttp

from trilane_contender import Answer, Library, Plan, run
from trilane_contender.bodies import PIECE, counted_async
from trilane_contender.uvloops import loop


@functools.cache
def trust(cacert: str | None) -> ssl.SSLContext:
    """One context for all sessions of a process, as aiohttp itself does by default."""
    return ssl.create_default_context(cafile=cacert)


class Client:
    """One `ClientSession`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=plan.pool, ssl=trust(plan.cacert) if plan.scheme == "https" else True
            ),
            timeout=aiohttp.ClientTimeout(
                total=None,
                connect=plan.queue_s + plan.timeout_s,
                sock_connect=plan.timeout_s,
                sock_read=plan.timeout_s,
            ),
            headers=plan.headers,
            skip_auto_headers=("user-agent", "accept", "accept-encoding", "content-type"),
        )

    async def fetch(self, path: str) -> Answer:
        """`session.request` and `read`."""
        plan = self._plan
        async with contextlib.AsyncExitStack() as stack:
            file = plan.body_file and stack.enter_context(plan.body_file.open("rb"))
            response = await stack.enter_async_context(
                self._session.request(
                    plan.method, plan.target + path, data=file or plan.body, allow_redirects=False
                )
            )
            version = response.version
            spoken = "h1" if version == aiohttp.HttpVersion11 else str(version)
            if plan.discard:
                size = await counted_async(response.content.iter_chunked(PIECE))
                return Answer(response.status, spoken, b"", size)
            body = await response.read()
            return Answer(response.status, spoken, body)

    async def close(self) -> None:
        """Close the connector."""
        await self._session.close()


KINDS = (
    (aiohttp.ClientSSLError, "tls"),
    (aiohttp.ServerDisconnectedError, "closed"),
    (aiohttp.ClientPayloadError, "body"),
    (aiohttp.ClientConnectionError, "connect"),
)

if __name__ == "__main__":
    sys.exit(
        run(
            Library(
                distribution="aiohttp",
                async_client=Client,
                streams_bodies=True,
                loop=loop if sys.argv[-1] == "aiohttp-uvloop" else None,
                kinds=KINDS,
            )
        )
    )
