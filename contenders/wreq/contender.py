# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "hdrhistogram==0.10.8",
#     "pbr==7.1.3",
#     "setuptools==84.2.1",
#     "wreq==0.13.0",
# ]
#
# [tool.trilane]
# name = "wreq"
# title = "wreq"
# library = "wreq"
# note = "BoringSSL and a fork of hyper; it impersonates no browser here"
# versions = ["h1", "h2", "h2c"]
# strategies = [
#     "serial", "threads", "processes", "asyncio_threads", "asyncio", "processes_asyncio",
#     "chunks", "multiplexed",
# ]
# ///
"""wreq: a client of Rust's behind a blocking and an asynchronous client."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

import wreq
import wreq.blocking
from wreq import Method, Version
from wreq.redirect import Policy

from trilane_contender import Answer, Library, Plan, run
from trilane_contender.reqwest import broken

SPOKEN = ((Version.HTTP_11, "h1"), (Version.HTTP_2, "h2"))
# They have no base of their own.
FAILURES = tuple(
    each
    for each in vars(wreq.exceptions).values()
    if isinstance(each, type) and issubclass(each, Exception)
)


def settings(plan: Plan) -> dict[str, Any]:
    """What both clients are given."""
    return {
        "headers": dict(plan.headers),
        "redirect": Policy.none(),
        "cookie_store": False,
        "referer": False,
        "timeout": timedelta(seconds=plan.timeout_s),
        "pool_max_idle_per_host": plan.pool,
        "http1_only": plan.version == "h1",
        "http2_only": plan.version != "h1",
        "tls_verify": True if plan.cacert is None else Path(plan.cacert),
        "no_proxy": True,
        "gzip": plan.gzip,
        "brotli": False,
        "deflate": False,
        "zstd": False,
    }


def method(plan: Plan) -> Method:
    """The plan's method, by wreq's name."""
    found: Method = getattr(Method, plan.method)
    return found


def answer(response: Any, body: bytes) -> Answer:
    """What it has answered."""
    version = next((name for each, name in SPOKEN if each == response.version), "")
    return Answer(response.status.as_int(), version or str(response.version), body)


class Client:
    """One blocking client, which all threads may use."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._client = wreq.blocking.Client(**settings(plan))

    def fetch(self, path: str) -> Answer:
        """`client.request`, then its body."""
        plan = self._plan
        options = {} if plan.body is None else {"body": plan.body}
        try:
            response = self._client.request(method(plan), plan.target + path, **options)
            return answer(response, bytes(response.bytes()))
        except FAILURES as error:
            raise broken(error) from error

    def close(self) -> None:
        """Close the client."""
        self._client.close()


class AsyncClient:
    """One client for event loops."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._client = wreq.Client(**settings(plan))

    async def fetch(self, path: str) -> Answer:
        """`await client.request`, then its body."""
        plan = self._plan
        options = {} if plan.body is None else {"body": plan.body}
        try:
            response = await self._client.request(method(plan), plan.target + path, **options)
            return answer(response, bytes(await response.bytes()))
        except FAILURES as error:
            raise broken(error) from error

    async def close(self) -> None:
        """Close the client."""
        self._client.close()


if __name__ == "__main__":
    sys.exit(
        run(
            Library(
                distribution="wreq",
                client=Client,
                async_client=AsyncClient,
                shared_by_threads=frozenset({"h1", "h2", "h2c"}),
            )
        )
    )
