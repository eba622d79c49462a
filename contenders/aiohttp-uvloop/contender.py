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
# name = "aiohttp-uvloop"
# title = "aiohttp on uvloop"
# library = "aiohttp"
# versions = ["h1"]
# strategies = ["serial", "asyncio"]
# ///
"""aiohttp, as the contender `aiohttp` has it, on uvloop."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE / "harness"), str(HERE / "aiohttp")]

from contender import KINDS, Client

from trilane_contender import Library, run
from trilane_contender.uvloops import loop

if __name__ == "__main__":
    sys.exit(
        run(
            Library(
                distribution="aiohttp",
                async_client=Client,
                streams_bodies=True,
                loop=loop,
                kinds=KINDS,
            )
        )
    )
