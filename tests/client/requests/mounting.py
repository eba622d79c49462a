"""A plugin for pytest under Requests' own tests: `TrilaneAdapter` is what Requests' adapter was.

Every `requests.Session()` mounts it, and the tests that make an `HTTPAdapter` of their own make
ours. The settings are in the environment, see `suite.py`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import types
from collections.abc import Iterator
from typing import Any

import pytest
import requests.adapters
import requests.sessions
from pytest_httpbin import serve  # type: ignore[import-not-found]

from client.outcomes import VERSIONS
from trilane.client._adapters.requests_pool import HTTPSPool
from trilane.client.requests import TrilaneAdapter

_OVER = os.environ["SUITE_OVER"]
_HTTPBIN = os.environ.get("SUITE_HTTPBIN", "")


class Mounted(TrilaneAdapter):
    """The adapter; with httpbin it speaks the version of SUITE_OVER."""

    def build_response(self, req: Any, resp: Any) -> requests.Response:
        """Count the versions."""
        VERSIONS[str(resp.version)] += 1
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
