# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.trilane]
# name = "httpx-trilane"
# title = "HTTPX over Trilane"
# library = "httpx"
# runtime = "self"
# versions = ["h1", "h2", "h2c", "h3"]
# note = "HTTPX's clients on trilane.client.httpx, both of the installation that measures"
#
# [tool.trilane.strategies]
# h1 = ["serial", "threads", "processes", "asyncio_threads", "asyncio", "processes_asyncio"]
# h2 = [
#     "serial", "threads", "processes", "asyncio_threads", "asyncio", "processes_asyncio",
#     "chunks", "multiplexed",
# ]
# h2c = [
#     "serial", "threads", "processes", "asyncio_threads", "asyncio", "processes_asyncio",
#     "chunks", "multiplexed",
# ]
# h3 = [
#     "serial", "threads", "processes", "asyncio_threads", "asyncio", "processes_asyncio",
#     "chunks", "multiplexed",
# ]
# ///
"""HTTPX's clients with the transports of `trilane.client.httpx` in the place of its own."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane_contender import Plan, run
from trilane_contender.httpx_family import library
from trilane_contender.missing import cannot

ASKED = {"h1": ("h1",), "h2": ("h2",), "h2c": ("h2",), "h3": ("h3",)}


def transport(plan: Plan, asynchronous: bool) -> Any:
    """Ours, with the pool and the authority of the plan."""
    import httpx  # noqa: PLC0415 - not before it is known to be installed

    from trilane.client.httpx import AsyncTransport, Transport  # noqa: PLC0415

    kind = AsyncTransport if asynchronous else Transport
    limits = httpx.Limits(max_connections=plan.pool, keepalive_expiry=None)
    return kind(plan.cacert or True, versions=ASKED[plan.version], limits=limits)


if __name__ == "__main__":
    if find_spec("httpx") is None:
        sys.exit(cannot("httpx is not installed beside trilane: python -m pip install httpx"))
    from trilane.client.errors import VersionUnavailable

    sys.exit(
        run(
            library(
                "httpx",
                transport,
                shared_by_threads=frozenset(ASKED),
                kinds=((VersionUnavailable, "protocol"),),
            )
        )
    )
