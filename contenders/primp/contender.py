# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "hdrhistogram==0.10.8",
#     "pbr==7.1.3",
#     "primp==2.0.1",
#     "setuptools==84.2.1",
# ]
#
# [tool.trilane]
# name = "primp"
# title = "primp"
# library = "primp"
# note = "no HTTP/1.1: primp cannot be told to speak it over TLS, nor does it tell what it spoke"
# versions = ["h2", "h2c"]
# strategies = [
#     "serial", "threads", "processes", "asyncio_threads", "asyncio", "processes_asyncio",
#     "chunks", "multiplexed",
# ]
# ///
"""primp: reqwest behind a synchronous and an asynchronous client, impersonating no browser.

primp has no word for the version of a response. `http2_only` makes it speak HTTP/2 from the first
byte, so a server that does not is a failure and never an answer: what is answered was HTTP/2.
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

import primp

from trilane_contender import Answer, Library, Plan, run
from trilane_contender.reqwest import broken, without_proxies

SPOKEN = "h2"


def settings(plan: Plan) -> dict[str, Any]:
    """What both clients are given."""
    return {
        "ca_cert_file": plan.cacert,
        "cookie_store": False,
        "follow_redirects": False,
        "headers": dict(plan.headers),
        "http2_only": True,
        "referer": False,
        "timeout": plan.timeout_s,
    }


class Client:
    """One `Client`, which all threads may use."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._client = primp.Client(**settings(plan))

    def fetch(self, path: str) -> Answer:
        """`client.request`."""
        plan = self._plan
        try:
            response = self._client.request(plan.method, plan.target + path, content=plan.body)
            return Answer(response.status_code, SPOKEN, response.content)
        except primp.PrimpError as error:
            raise broken(error) from error

    def close(self) -> None:
        """primp closes its connections when the client is dropped."""
        del self._client


class AsyncClient:
    """One `AsyncClient`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._client = primp.AsyncClient(**settings(plan))

    async def fetch(self, path: str) -> Answer:
        """`await client.request`, then its body."""
        plan = self._plan
        try:
            response = await self._client.request(
                plan.method, plan.target + path, content=plan.body
            )
            body = await response.aread()
            return Answer(response.status_code, SPOKEN, body)
        except primp.PrimpError as error:
            raise broken(error) from error

    async def close(self) -> None:
        """primp closes its connections when the client is dropped."""
        del self._client


if __name__ == "__main__":
    without_proxies()
    sys.exit(
        run(
            Library(
                distribution="primp",
                client=Client,
                async_client=AsyncClient,
                shared_by_threads=frozenset({"h2", "h2c"}),
            )
        )
    )
