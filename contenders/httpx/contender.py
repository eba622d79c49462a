# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "anyio==4.16.0",
#     "certifi==2026.10.18",
#     "h11==0.16.0",
#     "h2==4.4.1",
#     "hdrhistogram==0.10.8",
#     "hpack==4.2.0",
#     "httpcore==1.0.9",
#     "httpcore2==2.16.2",
#     "httpx==0.28.1",
#     "httpx2==2.16.2",
#     "hyperframe==6.1.0",
#     "idna==3.20",
#     "opentelemetry-api==1.45.2",
#     "pbr==7.1.3",
#     "pyqwest==0.12.0",
#     "setuptools==84.2.1",
#     "truststore==0.10.5",
#     "typing-extensions==4.16.0",
# ]
#
# [tool.trilane]
# name = "httpx"
# title = "HTTPX"
# library = "httpx"
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
#
# [tool.trilane.variants.httpx2]
# title = "HTTPX2"
# library = "httpx2"
#
# [tool.trilane.variants.httpx-trilane]
# title = "HTTPX over Trilane"
# runtime = "self"
# versions = ["h1", "h2", "h2c", "h3"]
# note = "HTTPX's clients on trilane.client.httpx, both of the installation that measures"
#
# [tool.trilane.variants.httpx2-trilane]
# title = "HTTPX2 over Trilane"
# library = "httpx2"
# runtime = "self"
# versions = ["h1", "h2", "h2c", "h3"]
# note = "HTTPX2's clients on trilane.client.httpx2, both of the installation that measures"
#
# [tool.trilane.variants.httpx-pyqwest]
# title = "HTTPX over pyqwest"
# versions = ["h1", "h2", "h2c", "h3"]
# note = "HTTPX's clients on pyqwest's own transports for it; OpenTelemetry is off"
# ///
"""HTTPX and its successor HTTPX2, which share their interface.

A client, or an asynchronous one, with a pool as large as the plan allows. It has the transports of
its library, or in their place those of `trilane.client` or of pyqwest.
"""

import contextlib
import functools
import ssl
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane_contender import Answer, Library, Plan, run
from trilane_contender.bodies import PIECE, counted, counted_async
from trilane_contender.missing import need

SPOKEN = {"HTTP/1.1": "h1", "HTTP/2": "h2", "HTTP/3": "h3"}
# Of `trilane.client`, where HTTP/2 alone means prior knowledge over cleartext.
ASKED = {"h1": ("h1",), "h2": ("h2",), "h2c": ("h2",), "h3": ("h3",)}

MakeTransport = Callable[[Plan, bool], Any]
"""Makes the transport for a plan, and whether it is to be an asynchronous one."""


class Client:
    """One `Client`."""

    def __init__(self, module: str, transport: MakeTransport | None, plan: Plan) -> None:
        self._plan = plan
        given = settings(module, transport, plan, asynchronous=False)
        self._client = import_module(module).Client(**given)
        only_ours(self._client, plan)

    def fetch(self, path: str) -> Answer:
        """`client.request`; the body is read and decoded before it returns."""
        plan, url = self._plan, self._plan.target + path
        with contextlib.ExitStack() as stack:
            file = plan.body_file and stack.enter_context(plan.body_file.open("rb"))
            content = file or plan.body
            if not plan.discard:
                return answer(self._client.request(plan.method, url, content=content))
            response = stack.enter_context(self._client.stream(plan.method, url, content=content))
            size = counted(response.iter_bytes(PIECE))
            return Answer(response.status_code, spoken(response), b"", size)

    def close(self) -> None:
        """Close the pool."""
        self._client.close()


class AsyncClient:
    """One `AsyncClient`."""

    def __init__(self, module: str, transport: MakeTransport | None, plan: Plan) -> None:
        self._plan = plan
        given = settings(module, transport, plan, asynchronous=True)
        self._client = import_module(module).AsyncClient(**given)
        only_ours(self._client, plan)

    async def fetch(self, path: str) -> Answer:
        """`client.request`; without `discard` the body is read and decoded before it returns."""
        plan = self._plan
        url = plan.target + path
        if not plan.discard:
            return answer(await self._client.request(plan.method, url, content=plan.body))
        async with self._client.stream(plan.method, url, content=plan.body) as response:
            size = await counted_async(response.aiter_bytes(PIECE))
            return Answer(response.status_code, spoken(response), b"", size)

    async def close(self) -> None:
        """Close the pool."""
        await self._client.aclose()


def settings(
    module: str, transport: MakeTransport | None, plan: Plan, *, asynchronous: bool
) -> dict[str, Any]:
    """The arguments of a client."""
    loaded = import_module(module)
    common = {
        "timeout": loaded.Timeout(plan.timeout_s, pool=plan.queue_s),
        "follow_redirects": False,
        "trust_env": False,
    }
    if transport is not None:
        return common | {"transport": transport(plan, asynchronous)}
    http1 = plan.version == "h1"
    return common | {
        # One or the other: with both, a server could choose, and cleartext would be HTTP/1.1.
        "http1": http1,
        "http2": not http1,
        "verify": trust(plan.cacert) if plan.scheme == "https" else True,
        "limits": loaded.Limits(
            max_connections=plan.pool, max_keepalive_connections=plan.pool, keepalive_expiry=None
        ),
    }


def only_ours(client: Any, plan: Plan) -> None:
    """Send the plan's headers and none of the library's defaults."""
    client.headers.clear()
    client.headers.update(plan.headers)


@functools.cache
def trust(cacert: str | None) -> ssl.SSLContext:
    """One context for all clients of a process: a client per request would build many."""
    return ssl.create_default_context(cafile=cacert)


def answer(response: Any) -> Answer:
    """What a response says whose body has been read."""
    return Answer(response.status_code, spoken(response), response.content)


def spoken(response: Any) -> str:
    """The version of a response as the lab names it."""
    version: str = response.http_version
    return SPOKEN.get(version, version)


def ours(module: str, plan: Plan, asynchronous: bool) -> Any:
    """The transport of `trilane.client`, with the pool and the authority of the plan."""
    here = import_module(f"trilane.client.{module}")
    kind = here.AsyncTransport if asynchronous else here.Transport
    limits = import_module(module).Limits(max_connections=plan.pool, keepalive_expiry=None)
    return kind(plan.cacert or True, versions=ASKED[plan.version], limits=limits)


def files_block(plan: Plan) -> str | None:
    """What its asynchronous client does not do."""
    if plan.body_file and plan.strategy not in {"serial", "threads"}:
        return f"files are sent by its blocking client only, not with {plan.strategy}"
    return None


def library(module: str, transport: MakeTransport | None = None) -> Library:
    """The library of that module, which is also the name of its distribution.

    `transport`, which can be pickled, makes what takes the place of the library's own transports.
    """
    loaded = import_module(module)
    return Library(
        distribution=module,
        client=partial(Client, module, transport),
        async_client=partial(AsyncClient, module, transport),
        # The documentation calls the client thread-safe. But over HTTP/2 its own transports have
        # been seen to corrupt their state, where threads wait for each other's frames.
        shared_by_threads=frozenset({"h1"} if transport is None else ASKED),
        streams_bodies=True,
        cannot=files_block,
        kinds=(
            (loaded.TimeoutException, "timeout"),
            (loaded.RemoteProtocolError, "protocol"),
            (loaded.LocalProtocolError, "protocol"),
            (loaded.DecodingError, "body"),
            (loaded.ConnectError, "connect"),
            (loaded.ReadError, "closed"),
            (loaded.WriteError, "closed"),
        ),
    )


def serve(variant: str) -> int:
    """Run the library with the transports of the variant."""
    module = "httpx2" if variant.startswith("httpx2") else "httpx"
    if variant.endswith("-trilane"):
        need(module)
        from trilane.client.errors import VersionUnavailable  # noqa: PLC0415 - not there otherwise

        known = library(module, partial(ours, module))
        return run(replace(known, kinds=((VersionUnavailable, "protocol"), *known.kinds)))
    if variant == "httpx-pyqwest":
        import over_pyqwest  # noqa: PLC0415 - not there otherwise

        return over_pyqwest.serve(library(module, over_pyqwest.transport))
    return run(library(module))


if __name__ == "__main__":
    sys.exit(serve(sys.argv[-1]))
