"""`Client` and `AsyncClient` have the same face, but for what is named here."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import pytest

from trilane.client._aio.client import AsyncClient
from trilane.client._aio.response import AsyncResponse
from trilane.client._aio.websocket import AsyncWebSocket
from trilane.client._pool import Client
from trilane.client._pool.response import Response
from trilane.client._pool.websocket import WebSocket

# What asyncio calls otherwise, or has in its own way.
RENAMED = {
    "aiter_bytes": "iter_bytes",
    "aiter_raw": "iter_raw",
    "aiter_lines": "iter_lines",
    "aiter_json_lines": "iter_json_lines",
    "aiter_events": "iter_events",
    "__aiter__": "__iter__",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
}
ONLY_BLOCKING = {
    # `asyncio.gather` does it.
    "get_all",
    # Reads that wait inside of somebody else's call.
    "readinto",
    # A finaliser may run in any thread, and connections belong to the loop's.
    "__del__",
}
ONLY_ASYNCHRONOUS = {
    # What waits is awaited: reading all of the content, and the end of what is closed.
    "aread",
    "aclose",
}
PARAMETERS_ONLY_BLOCKING = {
    # Tasks under way can be awaited before `close`, so an `AsyncClient` always aborts them.
    "abort",
}
PAIRS = [(Client, AsyncClient), (Response, AsyncResponse), (WebSocket, AsyncWebSocket)]


def _face(of: type) -> dict[str, Any]:
    """Its public members and its protocols, by the blocking name."""
    # Those of the class that both responses have in common first: its own take their place.
    members = {
        name: value for base in reversed(of.__mro__[:-1]) for name, value in vars(base).items()
    }
    return {
        RENAMED.get(name, name): value
        for name, value in members.items()
        if not name.startswith("_") or (name in RENAMED or name in RENAMED.values())
    }


@pytest.mark.parametrize(("blocking", "asynchronous"), PAIRS)
def test_the_same_names(blocking: type, asynchronous: type) -> None:
    one, other = set(_face(blocking)), set(_face(asynchronous))
    assert one - other <= ONLY_BLOCKING
    assert other - one <= ONLY_ASYNCHRONOUS


@pytest.mark.parametrize(("blocking", "asynchronous"), PAIRS)
def test_the_same_parameters(blocking: type, asynchronous: type) -> None:
    other = _face(asynchronous)
    for name, member in _face(blocking).items():
        if not inspect.isfunction(member) or name in ONLY_BLOCKING:
            continue
        given = _parameters(member)
        wanted = {key: given[key] for key in given if key not in PARAMETERS_ONLY_BLOCKING}
        assert wanted == _parameters(other[name]), name


def test_the_same_settings() -> None:
    assert _parameters(Client.__init__) == _parameters(AsyncClient.__init__)


def _parameters(function: Any) -> Mapping[str, tuple[object, object]]:
    """Kind and default of each; types differ, where asynchronous iterables are taken too."""
    return {
        name: (parameter.kind, parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
    }
