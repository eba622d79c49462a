"""Clients of HTTPX and of its successor HTTPX2, which share their interface.

With their own transports, or with another one in the place of these.
"""

from __future__ import annotations

import contextlib
import functools
import ssl
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from trilane_contender.bodies import PIECE, counted, counted_async
from trilane_contender.client import Answer, Library
from trilane_contender.failures import Kinds
from trilane_contender.missing import cannot
from trilane_contender.plan import Plan
from trilane_contender.protocol import run

_SPOKEN = {"HTTP/1.1": "h1", "HTTP/2": "h2", "HTTP/3": "h3"}
# Of `trilane.client`, where HTTP/2 alone means prior knowledge over cleartext.
_ASKED = {"h1": ("h1",), "h2": ("h2",), "h2c": ("h2",), "h3": ("h3",)}

MakeTransport = Callable[[Plan, bool], Any]
"""Makes the transport for a plan, and whether it is to be an asynchronous one."""


def library(
    module: str,
    transport: MakeTransport | None = None,
    *,
    # Its documentation calls the client thread-safe; over HTTP/2 threads that read one connection
    # wait for each other's frames, and have been seen to corrupt its state.
    shared_by_threads: frozenset[str] = frozenset({"h1"}),
    loop: Callable[[], Any] | None = None,
    kinds: Kinds = (),
) -> Library:
    """The library of that module, which is also the name of its distribution.

    `transport`, which can be pickled, makes what takes the place of the library's own transports;
    `loop` makes event loops; `kinds` has exceptions of the transport's own, most special first.
    """
    loaded = import_module(module)
    return Library(
        distribution=module,
        client=partial(Client, module, transport),
        async_client=partial(AsyncClient, module, transport),
        shared_by_threads=shared_by_threads,
        streams_bodies=True,
        loop=loop,
        cannot=_cannot,
        kinds=(
            *kinds,
            (loaded.TimeoutException, "timeout"),
            (loaded.RemoteProtocolError, "protocol"),
            (loaded.LocalProtocolError, "protocol"),
            (loaded.DecodingError, "body"),
            (loaded.ConnectError, "connect"),
            (loaded.ReadError, "closed"),
            (loaded.WriteError, "closed"),
        ),
    )


def over_trilane(module: str) -> int:
    """Run the library of that module on the transports of `trilane.client` by the same name."""
    if find_spec(module) is None:
        return cannot(f"{module} is not installed beside trilane: python -m pip install {module}")
    from trilane.client.errors import VersionUnavailable  # noqa: PLC0415 - not of other contenders

    return run(
        library(
            module,
            partial(_ours, module),
            shared_by_threads=frozenset(_ASKED),
            kinds=((VersionUnavailable, "protocol"),),
        )
    )


def _ours(module: str, plan: Plan, asynchronous: bool) -> Any:
    """The transport of `trilane.client`, with the pool and the authority of the plan."""
    ours = import_module(f"trilane.client.{module}")
    kind = ours.AsyncTransport if asynchronous else ours.Transport
    limits = import_module(module).Limits(max_connections=plan.pool, keepalive_expiry=None)
    return kind(plan.cacert or True, versions=_ASKED[plan.version], limits=limits)


class Client:
    """One `Client`."""

    def __init__(self, module: str, transport: MakeTransport | None, plan: Plan) -> None:
        self._plan = plan
        given = _options(module, plan) if transport is None else _under(transport, module, plan)
        self._client = import_module(module).Client(**given)
        _only_ours(self._client, plan)

    def fetch(self, path: str) -> Answer:
        """`client.request`; the body is read and decoded before it returns."""
        plan, url = self._plan, self._plan.target + path
        with contextlib.ExitStack() as stack:
            file = plan.body_file and stack.enter_context(plan.body_file.open("rb"))
            content = file or plan.body
            if not plan.discard:
                return _answer(self._client.request(plan.method, url, content=content))
            response = stack.enter_context(self._client.stream(plan.method, url, content=content))
            size = counted(response.iter_bytes(PIECE))
            return Answer(response.status_code, _spoken(response), b"", size)

    def close(self) -> None:
        """Close the pool."""
        self._client.close()


class AsyncClient:
    """One `AsyncClient`."""

    def __init__(self, module: str, transport: MakeTransport | None, plan: Plan) -> None:
        self._plan = plan
        given = (
            _options(module, plan)
            if transport is None
            else _under(transport, module, plan, asynchronous=True)
        )
        self._client = import_module(module).AsyncClient(**given)
        _only_ours(self._client, plan)

    async def fetch(self, path: str) -> Answer:
        """`client.request`; without `discard` the body is read and decoded before it returns."""
        plan = self._plan
        url = plan.target + path
        if not plan.discard:
            return _answer(await self._client.request(plan.method, url, content=plan.body))
        async with self._client.stream(plan.method, url, content=plan.body) as response:
            size = await counted_async(response.aiter_bytes(PIECE))
            return Answer(response.status_code, _spoken(response), b"", size)

    async def close(self) -> None:
        """Close the pool."""
        await self._client.aclose()


def _under(
    transport: MakeTransport, module: str, plan: Plan, *, asynchronous: bool = False
) -> dict[str, Any]:
    """The arguments of a client whose transport is another one."""
    return {
        "transport": transport(plan, asynchronous),
        "timeout": import_module(module).Timeout(plan.timeout_s, pool=plan.queue_s),
        "follow_redirects": False,
        "trust_env": False,
    }


def _options(module: str, plan: Plan) -> dict[str, Any]:
    loaded = import_module(module)
    http1 = plan.version == "h1"
    return {
        # One or the other: with both, a server could choose, and cleartext would be HTTP/1.1.
        "http1": http1,
        "http2": not http1,
        "verify": _trust(plan.cacert) if plan.scheme == "https" else True,
        "timeout": loaded.Timeout(plan.timeout_s, pool=plan.queue_s),
        "limits": loaded.Limits(
            max_connections=plan.pool, max_keepalive_connections=plan.pool, keepalive_expiry=None
        ),
        "follow_redirects": False,
        "trust_env": False,
    }


def _only_ours(client: Any, plan: Plan) -> None:
    """Send the plan's headers and none of the library's defaults."""
    client.headers.clear()
    client.headers.update(plan.headers)


@functools.cache
def _trust(cacert: str | None) -> ssl.SSLContext:
    # A client given a context does not build one; a client per request would build many.
    return ssl.create_default_context(cafile=cacert)


def _answer(response: Any) -> Answer:
    return Answer(response.status_code, _spoken(response), response.content)


def _spoken(response: Any) -> str:
    version: str = response.http_version
    return _SPOKEN.get(version, version)


def _cannot(plan: Plan) -> str | None:
    if plan.body_file and plan.strategy not in {"serial", "threads"}:
        return f"files are sent by its blocking client only, not with {plan.strategy}"
    return None
