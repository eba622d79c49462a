"""One request, judged; and where its response leads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter_ns

from trilane_contender.client import Answer, AsyncClient, Client, Library
from trilane_contender.failures import Kinds, kind_of, message_of
from trilane_contender.plan import Plan
from trilane_contender.tally import Sample, crc

_OK = range(200, 400)  # redirects are not followed; they count as answers


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds the paths that a body leads to. Picklable: bodies are read where they arrive."""

    origin: str
    item: str | None

    def __call__(self, body: bytes) -> tuple[str, ...]:
        """The paths of the index's items, or of the page's links, in their order."""
        if self.item is not None:
            return tuple(self.item.replace("{id}", str(each)) for each in json.loads(body))
        # The two patterns of the post, on the bytes, and its way to make paths canonical.
        absolute = rb'<a href="' + re.escape(self.origin.encode()) + rb'(/\S+)"'
        relative = rb'<a href="(/[^/]\S+)"'
        return tuple(
            canonical(match.group(1).decode())
            for pattern in (absolute, relative)
            for match in re.finditer(pattern, body)
        )


def canonical(path: str) -> str:
    """The path by which a page is known: without a slash at the end."""
    return path.rstrip("/")


class Frontier:
    """The pages of a crawl: each once, at most `limit`."""

    def __init__(self, start: str, limit: int | None) -> None:
        self.start = start
        self._limit = limit
        self._seen = {canonical(start)}

    def fresh(self, found: Iterable[str]) -> list[str]:
        """Those found that nobody has asked for yet; they count as asked for now."""
        new = []
        for path in found:
            if self._limit is not None and len(self._seen) >= self._limit:
                break
            if path not in self._seen:
                self._seen.add(path)
                new.append(path)
        return new


class Judge:
    """Turns what a library gave into a sample of the books."""

    __slots__ = ("_discards", "_kinds", "_version")

    def __init__(self, plan: Plan, kinds: Kinds) -> None:
        # Libraries do not tell HTTP/2 with TLS from HTTP/2 without.
        self._version = {"h2c": "h2"}.get(plan.version, plan.version), plan.version
        self._kinds = kinds
        self._discards = plan.discard

    def answered(self, path: str, began: int, answer: Answer, find: Finder | None) -> Sample:
        """A response that came whole. It is ok by its status and its version."""
        latency = perf_counter_ns() - began
        wanted, name = self._version
        version = name if answer.version == wanted else answer.version
        failure, example = None, ""
        found: tuple[str, ...] = ()
        if version != name:
            failure, example = "protocol", f"{name} was asked for, {version} was spoken"
        elif answer.status not in _OK:
            failure, example = "status", f"{answer.status} for {path}"
        elif find is not None:
            try:
                found = find(answer.body)
            except (ValueError, TypeError) as error:
                failure, example = "body", f"{path} does not list what follows: {error}"
        return Sample(
            latency,
            answer.status,
            version,
            len(answer.body) if answer.size is None else answer.size,
            0 if self._discards else crc(answer.body),
            failure,
            example,
            found,
        )

    def failed(self, began: int, error: Exception) -> Sample:
        """A request that ended without a response."""
        latency = perf_counter_ns() - began
        return Sample(latency, 0, "", 0, 0, kind_of(error, self._kinds), message_of(error))

    def fetch(self, client: Client, path: str, find: Finder | None = None) -> Sample:
        """One request through a client that blocks."""
        began = perf_counter_ns()
        try:
            answer = client.fetch(path)
        except Exception as error:  # noqa: BLE001 - whatever a library raises is its failure
            return self.failed(began, error)
        return self.answered(path, began, answer, find)

    async def fetch_async(
        self, client: AsyncClient, path: str, find: Finder | None = None
    ) -> Sample:
        """One request through a client of an event loop."""
        began = perf_counter_ns()
        try:
            answer = await client.fetch(path)
        except Exception as error:  # noqa: BLE001 - whatever a library raises is its failure
            return self.failed(began, error)
        return self.answered(path, began, answer, find)


class FreshClient:
    """No session: a new client, and so a new connection, for every request."""

    def __init__(self, library: Library, plan: Plan) -> None:
        self._library = library
        self._plan = plan

    def fetch(self, path: str) -> Answer:
        """Make a client, fetch, close it."""
        client = blocking(self._library, self._plan)
        try:
            return client.fetch(path)
        finally:
            client.close()

    def close(self) -> None:
        """Nothing is kept."""


class FreshAsyncClient:
    """No session, in an event loop."""

    def __init__(self, library: Library, plan: Plan) -> None:
        self._library = library
        self._plan = plan

    async def fetch(self, path: str) -> Answer:
        """Make a client, fetch, close it."""
        client = awaitable(self._library, self._plan)
        try:
            return await client.fetch(path)
        finally:
            await client.close()

    async def close(self) -> None:
        """Nothing is kept."""


class _OneAtATime:
    """A blocking client from a connection that multiplexes."""

    def __init__(self, library: Library, plan: Plan) -> None:
        if library.stream_client is None:
            raise LookupError("the library has no client that blocks")
        self._client = library.stream_client(plan)

    def fetch(self, path: str) -> Answer:
        return self._client.collect(self._client.submit(path))

    def close(self) -> None:
        self._client.close()


def blocking(library: Library, plan: Plan) -> Client:
    """A session of the library that blocks."""
    return library.client(plan) if library.client else _OneAtATime(library, plan)


def awaitable(library: Library, plan: Plan) -> AsyncClient:
    """A session of the library for the running event loop."""
    if library.async_client is None:
        raise LookupError("the library has no client for an event loop")
    return library.async_client(plan)


def session_or_fresh(library: Library, plan: Plan) -> Client:
    """What one thread or process works with."""
    return blocking(library, plan) if plan.session else FreshClient(library, plan)
