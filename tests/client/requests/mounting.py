"""A plugin for pytest under Requests' own tests: `TrilaneAdapter` is what Requests' adapter was.

Every `requests.Session()` mounts it, and the tests that make an `HTTPAdapter` of their own make
ours. The settings are in the environment, see `suite.py`; what was seen goes to SUITE_OUTCOMES.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests.adapters
import requests.sessions
from pytest_httpbin import serve  # type: ignore[import-not-found]

from trilane.client._adapters.requests_pool import HTTPSPool
from trilane.client.requests import TrilaneAdapter

_LINES = 12
_OVER = os.environ["SUITE_OVER"]
_HTTPBIN = os.environ.get("SUITE_HTTPBIN", "")
_CASES: dict[str, tuple[str, str]] = {}
_VERSIONS: Counter[int] = Counter()


class Mounted(TrilaneAdapter):
    """The adapter; with httpbin it speaks the version of SUITE_OVER."""

    def build_response(self, req: Any, resp: Any) -> requests.Response:
        """Count the versions."""
        _VERSIONS[resp.version] += 1
        return super().build_response(req, resp)

    def _take_over(self, manager: Any, socks: Any = None) -> None:
        super()._take_over(manager, socks)
        if _HTTPBIN:
            manager.pool_classes_by_scheme["https"] = _pool


def _pool(host: str, port: int, **options: Any) -> HTTPSPool:
    """A pool that speaks SUITE_OVER with httpbin, and HTTP/1.1 with the servers of the cases."""
    over = (_OVER,) if _HTTPBIN.endswith(f":{port}") else ("h1",)
    return HTTPSPool(host, port, **options, versions=over)


def pytest_configure() -> None:
    """Before a module of tests is imported."""
    if not os.environ["SUITE_BASELINE"]:
        vars(requests.adapters)["HTTPAdapter"] = Mounted
        vars(requests.sessions)["HTTPAdapter"] = Mounted
    if _HTTPBIN:
        vars(requests.adapters)["DEFAULT_CA_BUNDLE_PATH"] = os.environ["SUITE_CA"]
        running = types.SimpleNamespace(url=_HTTPBIN)
        serve.Server = lambda application: contextlib.nullcontext(running)  # noqa: ARG005


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


@pytest.fixture(scope="module", autouse=True)
def _tarpit(request: pytest.FixtureRequest) -> Iterator[None]:
    """An address that never answers, also where 10.255.255.1 has no route: a full backlog."""
    if not hasattr(request.module, "TARPIT"):
        yield
        return
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        # Linux drops a SYN when the queue of connections that nobody accepted is full.
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        request.module.TARPIT = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield
