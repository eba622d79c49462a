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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane_contender.httpx_family import over_trilane

if __name__ == "__main__":
    sys.exit(over_trilane("httpx2"))
