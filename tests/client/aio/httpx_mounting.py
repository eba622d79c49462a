"""A plugin for pytest under HTTPX's own tests: our transports are what HTTPX's own were.

Every client that makes its own transport makes ours. What was seen goes to SUITE_OUTCOMES.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from trilane.client import httpx as ours

_LINES = 12
_CASES: dict[str, tuple[str, str]] = {}
_VERSIONS: Counter[str] = Counter()


def _settings(http1: bool, http2: bool, options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of HTTPX's transports as ours."""
    versions = [name for name, wanted in (("h2", http2), ("h1", http1)) if wanted]
    kept = ("verify", "cert", "limits", "proxy", "uds", "local_address", "retries")
    return {"versions": versions, **{name: options[name] for name in kept if name in options}}


class Transport(ours.Transport):
    """With the arguments of `httpx.HTTPTransport`."""

    def __init__(self, *, http1: bool = True, http2: bool = False, **options: Any) -> None:
        super().__init__(**_settings(http1, http2, options))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Count the versions."""
        response: httpx.Response = super().handle_request(request)
        _VERSIONS[response.http_version] += 1
        return response


class AsyncTransport(ours.AsyncTransport):
    """With the arguments of `httpx.AsyncHTTPTransport`."""

    def __init__(self, *, http1: bool = True, http2: bool = False, **options: Any) -> None:
        super().__init__(**_settings(http1, http2, options))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Count the versions."""
        response: httpx.Response = await super().handle_async_request(request)
        _VERSIONS[response.http_version] += 1
        return response


def pytest_configure() -> None:
    """Before a module of tests is imported."""
    if not os.environ["SUITE_BASELINE"]:
        for module in (httpx, httpx._client):
            module.HTTPTransport = Transport  # type: ignore[assignment, misc, attr-defined, unused-ignore]
            module.AsyncHTTPTransport = AsyncTransport  # type: ignore[assignment, misc, attr-defined, unused-ignore]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep how a case went: a failure of its fixtures is a failure of the case."""
    if report.when != "call" and report.passed:
        return
    why = "" if report.passed else str(report.longreprtext).strip()
    if report.skipped and isinstance(report.longrepr, tuple):
        why = report.longrepr[2]
    if _CASES.get(report.nodeid, ("passed",))[0] != "failed":
        _CASES[report.nodeid] = report.outcome, "\n".join(why.splitlines()[-_LINES:])


def pytest_sessionfinish() -> None:
    """Write what was kept."""
    found = {"cases": _CASES, "versions": _VERSIONS}
    Path(os.environ["SUITE_OUTCOMES"]).write_text(json.dumps(found))
