# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.trilane]
# name = "httpx2-trilane"
# title = "HTTPX2 over Trilane"
# library = "httpx2"
# runtime = "self"
# versions = ["h1", "h2", "h2c", "h3"]
# note = "HTTPX2's clients on trilane.client.httpx2, both of the installation that measures"
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
"""HTTPX2's clients with the transports of `trilane.client.httpx2` in the place of its own."""

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
    import httpx2  # noqa: PLC0415 - not before it is known to be installed

    from trilane.client.httpx2 import AsyncTransport, Transport  # noqa: PLC0415

    kind = AsyncTransport if asynchronous else Transport
    limits = httpx2.Limits(max_connections=plan.pool, keepalive_expiry=None)
    return kind(plan.cacert or True, versions=ASKED[plan.version], limits=limits)


if __name__ == "__main__":
    if find_spec("httpx2") is None:
        sys.exit(cannot("httpx2 is not installed beside trilane: python -m pip install httpx2"))
    from trilane.client.errors import VersionUnavailable

    sys.exit(
        run(
            library(
                "httpx2",
                transport,
                shared_by_threads=frozenset(ASKED),
                kinds=((VersionUnavailable, "protocol"),),
            )
        )
    )
