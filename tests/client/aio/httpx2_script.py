# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "anyio==4.16.0",
#     "h11==0.16.0",
#     "httpcore2==2.16.2",
#     "httpx2==2.16.2",
#     "idna==3.20",
#     "truststore==0.10.5",
#     "typing-extensions==4.16.0 ; python_full_version < '3.15'",
# ]
# ///
"""Run the checks of `httpx_checks` under HTTPX2: base URL of the server, path of its authority."""

from __future__ import annotations

import sys

import httpx2  # type: ignore[import-not-found, unused-ignore]

from client.aio import httpx_checks
from trilane.client import httpx2 as ours

if __name__ == "__main__":
    httpx_checks.everything(httpx2, ours, *sys.argv[1:])
    print(f"HTTPX2 {httpx2.__version__} did everything")
