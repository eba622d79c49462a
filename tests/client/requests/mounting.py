"""A plugin for pytest under Requests' own tests: `TrilaneAdapter` is what Requests' adapter was.

Every `requests.Session()` mounts it, and the tests that make an `HTTPAdapter` of their own make
ours. The outcome of every case goes to the file that SUITE_OUTCOMES names.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests.adapters
import requests.sessions

_LINES = 12
_OUTCOMES: dict[str, tuple[str, str]] = {}


def pytest_configure() -> None:
    """Before a module of tests is imported."""
    if not os.environ["SUITE_BASELINE"]:
        from trilane.client.requests import TrilaneAdapter  # noqa: PLC0415

        requests.adapters.HTTPAdapter = TrilaneAdapter  # type: ignore[misc]
        requests.sessions.HTTPAdapter = TrilaneAdapter  # type: ignore[misc, attr-defined]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep how a case went: a failure of its fixtures is a failure of the case."""
    if report.when != "call" and report.passed:
        return
    outcome = "skipped" if hasattr(report, "wasxfail") and report.skipped else report.outcome
    why = "" if report.passed else str(report.longreprtext).strip()
    if report.skipped and isinstance(report.longrepr, tuple):
        why = report.longrepr[2]
    if _OUTCOMES.get(report.nodeid, ("passed",))[0] != "failed":
        _OUTCOMES[report.nodeid] = outcome, "\n".join(why.splitlines()[-_LINES:])


def pytest_sessionfinish() -> None:
    """Write what was kept."""
    Path(os.environ["SUITE_OUTCOMES"]).write_text(json.dumps(_OUTCOMES))


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
