"""What the bodies of a workload should add up to, as an independent client reads them.

The client is the standard library's over HTTP/1.1, one request after another.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from trilane.lab.design.workload import Workload

_MODULUS = 1 << 64
_TIMEOUT_S = 30.0
_ATTEMPTS = 2
_LINK = re.compile(rb'<a href="([^"\s]+)"')


class NoReference(RuntimeError):
    """The server did not answer the independent client; the message says how."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Bodies by path, in the order of the workload."""

    digests: tuple[tuple[str, int], ...]
    """Path and CRC-32 of the body; in `index` the first is the index."""
    complete: bool = True
    """Whether every client must read just these: a crawl that is cut short may read others."""

    def digest(self, workload: Workload) -> int | None:
        """Sum of the CRC-32 of every body that one run of `workload` reads; None if unknown."""
        if not self.complete or workload.duration_s is not None:
            return None
        values = [value for _, value in self.digests]
        total = sum(values)
        if workload.kind == "urls":
            rounds, rest = divmod(workload.count or len(values), len(values))
            total = rounds * total + sum(values[:rest])
        return total * workload.repeat % _MODULUS

    @property
    def paths(self) -> list[str]:
        """Every path, once."""
        return [path for path, _ in self.digests]


def read(
    workload: Workload, origin: str, cacert: str | None, headers: Mapping[str, str]
) -> Reference:
    """Read every page of the workload once."""
    with _session(origin, cacert) as session:
        if workload.kind == "index":
            return _index(session, workload, headers)
        if workload.kind == "crawl":
            return _crawl(session, workload, origin, headers)
        return Reference(
            tuple(
                (path, zlib.crc32(session.body(path, workload.method, workload.body, headers)))
                for path in workload.paths
            )
        )


class _Session:
    """One connection, opened anew when the server closed it."""

    def __init__(self, origin: str, cacert: str | None) -> None:
        self._origin = origin
        parts = urlsplit(origin)
        host, port = parts.hostname or "", parts.port
        self._connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=cacert)
            self._connection = http.client.HTTPSConnection(
                host, port, timeout=_TIMEOUT_S, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)

    def body(
        self,
        path: str,
        method: str = "GET",
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Body of a successful answer."""
        problem: Exception | None = None
        for _ in range(_ATTEMPTS):
            try:
                self._connection.request(method, path, content, dict(headers or {}))
                answer = self._connection.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                problem = error
                continue
            if not 200 <= answer.status < 300:
                raise NoReference(f"{self._origin}{path} answered with status {answer.status}")
            return body
        raise NoReference(f"{self._origin}{path} did not answer over HTTP/1.1: {problem}")

    def close(self) -> None:
        self._connection.close()


@contextmanager
def _session(origin: str, cacert: str | None) -> Iterator[_Session]:
    session = _Session(origin, cacert)
    try:
        yield session
    finally:
        session.close()


def _index(session: _Session, workload: Workload, headers: Mapping[str, str]) -> Reference:
    path, item = workload.index or "/", workload.item or "/{id}"
    index = session.body(path, headers=headers)
    try:
        ids = [str(value) for value in json.loads(index)]
    except (ValueError, TypeError) as error:
        raise NoReference(f"{path} is not a JSON list of ids: {error}") from error
    paths = [item.replace("{id}", value) for value in ids[: workload.count]]
    return Reference(
        (
            (path, zlib.crc32(index)),
            *((one, zlib.crc32(session.body(one, headers=headers))) for one in paths),
        )
    )


def _crawl(
    session: _Session, workload: Workload, origin: str, headers: Mapping[str, str]
) -> Reference:
    start = workload.start or "/"
    queue, seen = deque([start]), {_canonical(start)}
    found: list[tuple[str, int]] = []
    cut = False
    while queue:
        if workload.count is not None and len(found) >= workload.count:
            cut = True
            break
        path = queue.popleft()
        body = session.body(path, headers=headers)
        found.append((path, zlib.crc32(body)))
        for link in _LINK.findall(body):
            to = link.decode("ascii", "replace").removeprefix(origin)
            if re.match(r"/(?!/)", to) and _canonical(to) not in seen:
                seen.add(_canonical(to))
                queue.append(_canonical(to))
    return Reference(tuple(found), complete=not cut)


def _canonical(path: str) -> str:
    return path.rstrip("/")
