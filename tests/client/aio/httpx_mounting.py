"""A plugin for pytest under HTTPX's own tests: our transports are what the library's own were.

The library is that of SUITE_LIBRARY, `httpx` or `httpx2`. Every client that makes its own transport
makes ours.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from client.outcomes import VERSIONS

_LIBRARY = os.environ["SUITE_LIBRARY"]
library: Any = importlib.import_module(_LIBRARY)
ours: Any = importlib.import_module(f"trilane.client.{_LIBRARY}")


def _settings(http1: bool, http2: bool, options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the library's transports as ours."""
    versions = [name for name, wanted in (("h2", http2), ("h1", http1)) if wanted]
    kept = ("verify", "cert", "limits", "proxy", "uds", "local_address", "retries")
    return {"versions": versions, **{name: options[name] for name in kept if name in options}}


class Transport(ours.Transport):  # type: ignore[misc]
    """With the arguments of the library's `HTTPTransport`."""

    def __init__(self, *, http1: bool = True, http2: bool = False, **options: Any) -> None:
        super().__init__(**_settings(http1, http2, options))

    def handle_request(self, request: Any) -> Any:
        """Count the versions."""
        response = super().handle_request(request)
        VERSIONS[response.http_version] += 1
        return response


class AsyncTransport(ours.AsyncTransport):  # type: ignore[misc]
    """With the arguments of the library's `AsyncHTTPTransport`."""

    def __init__(self, *, http1: bool = True, http2: bool = False, **options: Any) -> None:
        super().__init__(**_settings(http1, http2, options))

    async def handle_async_request(self, request: Any) -> Any:
        """Count the versions."""
        response = await super().handle_async_request(request)
        VERSIONS[response.http_version] += 1
        return response


def pytest_configure() -> None:
    """Before a module of tests is imported."""
    if not os.environ["SUITE_BASELINE"]:
        for module in (library, library._client):
            module.HTTPTransport = Transport
            module.AsyncHTTPTransport = AsyncTransport
