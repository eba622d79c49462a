"""What the bodies of a workload should add up to, as an independent client reads them.

The client is the standard library's over HTTP/1.1, one request after another.
"""

from __future__ import annotations

import http.client
import json
import re
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from trilane.lab.experiment.workload import Workload
from trilane.lab.targets.target_ready import connection

_MODULUS = 1 << 64
_TIMEOUT_S = 30.0
_ATTEMPTS = 2
_PIECE = 1 << 20
_T = TypeVar("_T")
_LINK = re.compile(rb'<a href="([^"\s]+)"')


class NoReference(RuntimeError):
    """The server did not answer the independent client; the message says how."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Bodies by path, in the order of the workload."""

    digests: tuple[tuple[str, int], ...]
    """Path and CRC-32 of the body; in `index` the first is the index."""
    sizes: tuple[int, ...] = ()
    """Lengths of the bodies, for clients that only count; none where all look into them."""
    complete: bool = True
    """Whether every client must read just these: a crawl that is cut short may read others."""

    def digest(self, workload: Workload) -> int | None:
        """Sum of the CRC-32 of every body that one run of `workload` reads; None if unknown."""
        total = self._total([value for _, value in self.digests], workload)
        return None if total is None else total % _MODULUS

    def size(self, workload: Workload) -> int | None:
        """Bytes of every body that one run of `workload` reads; None if unknown."""
        return self._total(self.sizes, workload) if self.sizes else None

    def _total(self, values: Sequence[int], workload: Workload) -> int | None:
        if not self.complete or workload.duration_s is not None:
            return None
        total = sum(values)
        if workload.kind == "urls":
            rounds, rest = divmod(workload.count or len(values), len(values))
            total = rounds * total + sum(values[:rest])
        return total * workload.repeat

    @property
    def paths(self) -> list[str]:
        """Every path, once."""
        return [path for path, _ in self.digests]


UNREAD = Reference((), complete=False)
"""What is read is not known, and nothing is held against it."""


def read(
    workload: Workload,
    origin: str,
    cacert: str | None,
    headers: Mapping[str, str],
    body_file: Path | None = None,
) -> Reference:
    """Read every page of the workload once; `body_file` is what a workload with one sends."""
    with closing(_Session(origin, cacert, headers)) as session:
        if workload.kind == "index":
            return _index(session, workload)
        if workload.kind == "crawl":
            return _crawl(session, workload, origin)
        content = body_file or workload.body
        found = [
            session.answer(path, _measured, workload.method, content) for path in workload.paths
        ]
        crcs = tuple((path, crc) for path, (crc, _) in zip(workload.paths, found, strict=True))
        return Reference(crcs, tuple(size for _, size in found))


class _Session:
    """One connection, opened anew when the server closed it."""

    def __init__(self, origin: str, cacert: str | None, headers: Mapping[str, str]) -> None:
        self._origin = origin
        self._headers = headers
        self._connection = connection(origin, cacert, _TIMEOUT_S)

    def answer(
        self,
        path: str,
        read: Callable[[http.client.HTTPResponse], _T],
        method: str = "GET",
        content: bytes | Path | None = None,
    ) -> _T:
        """What `read` makes of a successful answer; raises NoReference where there is none."""
        problem: Exception | None = None
        for _ in range(_ATTEMPTS):
            try:
                self._send(path, method, content)
                answer = self._connection.getresponse()
                body = read(answer)
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                problem = error
                continue
            if not 200 <= answer.status < 300:
                raise NoReference(f"{self._origin}{path} answered with status {answer.status}")
            return body
        raise NoReference(f"{self._origin}{path} did not answer over HTTP/1.1: {problem}")

    def _send(self, path: str, method: str, content: bytes | Path | None) -> None:
        if not isinstance(content, Path):
            self._connection.request(method, path, content, self._headers)
            return
        length = {"content-length": str(content.stat().st_size)}
        with content.open("rb") as file:
            self._connection.request(method, path, file, {**self._headers, **length})

    def close(self) -> None:
        self._connection.close()


def _measured(answer: http.client.HTTPResponse) -> tuple[int, int]:
    """CRC-32 and length of a body, of which one piece at a time is in memory."""
    crc = size = 0
    while piece := answer.read(_PIECE):
        crc = zlib.crc32(piece, crc)
        size += len(piece)
    return crc, size


def _index(session: _Session, workload: Workload) -> Reference:
    path, item = workload.index or "/", workload.item or "/{id}"
    index = session.answer(path, http.client.HTTPResponse.read)
    try:
        ids = [str(value) for value in json.loads(index)]
    except (ValueError, TypeError) as error:
        raise NoReference(f"{path} is not a JSON list of ids: {error}") from error
    paths = [item.replace("{id}", value) for value in ids[: workload.count]]
    items = ((one, session.answer(one, _measured)[0]) for one in paths)
    return Reference(((path, zlib.crc32(index)), *items))


def _crawl(session: _Session, workload: Workload, origin: str) -> Reference:
    start = workload.start or "/"
    queue, seen = deque([start]), {_canonical(start)}
    found: list[tuple[str, int]] = []
    cut = False
    while queue:
        if workload.count is not None and len(found) >= workload.count:
            cut = True
            break
        path = queue.popleft()
        body = session.answer(path, http.client.HTTPResponse.read)
        found.append((path, zlib.crc32(body)))
        for link in _LINK.findall(body):
            to = link.decode("ascii", "replace").removeprefix(origin)
            if re.match(r"/(?!/)", to) and _canonical(to) not in seen:
                seen.add(_canonical(to))
                queue.append(_canonical(to))
    return Reference(tuple(found), complete=not cut)


def _canonical(path: str) -> str:
    return path.rstrip("/")
