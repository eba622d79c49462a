# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "anyio==4.16.0",
#     "h11==0.16.0",
#     "h2==4.4.1",
#     "hdrhistogram==0.10.8",
#     "hpack==4.2.0",
#     "httpcore2==2.16.2",
#     "httpx2==2.16.2",
#     "hyperframe==6.1.0",
#     "idna==3.20",
#     "pbr==7.1.3",
#     "setuptools==84.2.1",
#     "truststore==0.10.5",
#     "typing-extensions==4.16.0 ; python_full_version < '3.15'",
# ]
#
# [tool.trilane]
# name = "httpx2"
# title = "HTTPX2"
# library = "httpx2"
# versions = ["h1", "h2", "h2c"]
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
"""HTTPX2: a client, or an asynchronous one, with a pool as large as the plan allows."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane_contender import run
from trilane_contender.httpx_family import library

if __name__ == "__main__":
    sys.exit(run(library("httpx2")))
