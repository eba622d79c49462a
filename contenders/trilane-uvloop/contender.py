# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.trilane]
# name = "trilane-uvloop"
# title = "Trilane on uvloop"
# library = "trilane"
# runtime = "self"
# versions = ["h1", "h2", "h2c", "h3"]
# note = "the asynchronous client of the contender trilane, on event loops of uvloop"
#
# [tool.trilane.strategies]
# h1 = ["asyncio"]
# h2 = ["asyncio", "chunks", "multiplexed"]
# h2c = ["asyncio", "chunks", "multiplexed"]
# h3 = ["asyncio", "chunks", "multiplexed"]
# ///
"""Trilane's asynchronous client, as the contender `trilane` has it, on uvloop."""

import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE / "harness"), str(HERE / "trilane")]

from contender import KINDS, Awaiting

from trilane_contender import Library, run
from trilane_contender.missing import cannot
from trilane_contender.uvloops import loop

if __name__ == "__main__":
    if find_spec("uvloop") is None:
        sys.exit(cannot("uvloop is not installed beside trilane: python -m pip install uvloop"))
    sys.exit(
        run(
            Library(
                distribution="trilane",
                async_client=Awaiting,
                streams_bodies=True,
                loop=loop,
                kinds=KINDS,
            )
        )
    )
