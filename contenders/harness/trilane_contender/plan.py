"""The plan: what a contender is asked to do, from one line of JSON (docs/contenders.md)."""

from __future__ import annotations

import base64
import binascii
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SCHEMA = "trilane.contender/1"
_ONE_CONNECTION = frozenset({"chunks", "multiplexed"})
_ONE_AT_A_TIME = frozenset({"serial", "processes"})
_SPARE = 10


class BadPlan(ValueError):
    """The plan is not one; the message names the key."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Which paths are asked for, and until when."""

    kind: str
    paths: tuple[str, ...]
    index: str | None
    item: str | None
    start: str | None
    count: int | None
    duration_s: float | None


@dataclass(frozen=True, slots=True)
class Call:
    """What a client that encodes messages itself is told of a call, beside the request."""

    message: str | None
    """Of gRPC: the request as JSON."""
    definition: str | None
    """The .proto file that has the method …"""
    definitions: str | None
    """… and the folder from which it imports."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run of one contender."""

    origin: str
    version: str
    strategy: str
    session: bool
    in_flight: int
    connections: int | None
    processes: int | None
    chunk: int
    timeout_s: float
    cacert: str | None
    workload: Workload
    method: str
    headers: tuple[tuple[str, str], ...]
    """All that the request carries besides what HTTP itself needs (host, content-length)."""
    body: bytes | None
    body_file: Path | None
    """Instead of a body: a file whose content is sent, in pieces."""
    discard: bool
    """Bodies of responses are read in pieces, counted and thrown away."""
    gzip: bool
    warmup: int
    warmup_s: float
    repeat: int
    repeat_processes: int
    start_method: str | None
    call: Call | None
    """Of a workload of kind `call`; its request is the path, the headers and the body."""
    rate_per_s: float | None
    """Of a load generator: requests to be sent in a second, whatever the responses do."""
    latency: bool
    """Whether latencies are asked for: without, no log has to be kept for them."""

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        return urlsplit(self.origin).scheme

    @property
    def host(self) -> str:
        """Name or address of the origin, without brackets."""
        return urlsplit(self.origin).hostname or ""

    @property
    def port(self) -> int:
        """Port of the origin."""
        return urlsplit(self.origin).port or (443 if self.scheme == "https" else 80)

    @property
    def pool(self) -> int:
        """How many connections the library's pool may hold."""
        if self.connections is not None:
            return self.connections
        if self.strategy in _ONE_CONNECTION:
            return 1
        # One request at a time needs one connection. But some pools count a broken one for a
        # while, and a pool of one would then never give out another.
        return _SPARE if self.strategy in _ONE_AT_A_TIME else self.in_flight

    @property
    def queue_s(self) -> float:
        """How long a request may wait for a connection: as long as all before it may take."""
        return self.timeout_s * math.ceil(self.in_flight / self.pool)

    @property
    def target(self) -> str:
        """The origin without a trailing slash, to put paths behind."""
        return self.origin.rstrip("/")


def parse(line: str) -> Plan:
    """Read a plan, or say what is wrong with it."""
    try:
        given = json.loads(line)
    except ValueError as error:
        raise BadPlan(f"the plan is not JSON: {error}") from None
    if not isinstance(given, dict) or given.get("schema") != SCHEMA:
        raise BadPlan(f"the plan is not {SCHEMA}")
    try:
        return _plan(given)
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
        if isinstance(error, BadPlan):
            raise
        raise BadPlan(f"the plan lacks or misuses {error}") from None


def _plan(given: dict[str, Any]) -> Plan:
    workload = _workload(given["workload"])
    in_flight = _at_least(1, "in_flight", given["in_flight"] or 1)
    body = given.get("body")
    gzip = bool(given.get("gzip"))
    # Said either way, so that every library asks for the same: their defaults differ.
    encoding = ("accept-encoding", "gzip" if gzip else "identity")
    headers = [(str(name).lower(), str(value)) for name, value in given.get("headers") or ()]
    if not any(name == "accept-encoding" for name, _ in headers):
        headers.append(encoding)
    return Plan(
        origin=str(given["origin"]),
        version=str(given["version"]),
        strategy=str(given["strategy"]),
        session=bool(given.get("session", True)),
        in_flight=in_flight,
        connections=_optional(1, "connections", given.get("connections")),
        processes=_optional(1, "processes", given.get("processes")),
        chunk=_optional(1, "chunk", given.get("chunk")) or in_flight,
        timeout_s=float(given.get("timeout_s") or 30.0),
        cacert=given.get("cacert"),
        workload=workload,
        method=str(given.get("method") or "GET"),
        headers=tuple(headers),
        body=None if body is None else base64.b64decode(body, validate=True),
        body_file=None if given.get("body_file") is None else Path(given["body_file"]),
        discard=bool(given.get("discard")),
        gzip=gzip,
        warmup=_at_least(0, "warmup", given.get("warmup") or 0),
        warmup_s=float(given.get("warmup_s") or 0.0),
        repeat=_at_least(1, "repeat", given.get("repeat") or 1),
        repeat_processes=_at_least(0, "repeat_processes", given.get("repeat_processes") or 0),
        start_method=given.get("start_method"),
        call=_call(given.get("call")),
        rate_per_s=None if given.get("rate_per_s") is None else float(given["rate_per_s"]),
        latency=bool(given.get("latency", True)),
    )


def _call(given: dict[str, Any] | None) -> Call | None:
    if given is None:
        return None
    return Call(
        message=given.get("message"),
        definition=given.get("definition"),
        definitions=given.get("definitions"),
    )


def _workload(given: dict[str, Any]) -> Workload:
    workload = Workload(
        kind=str(given["kind"]),
        paths=tuple(str(path) for path in given.get("paths") or ()),
        index=given.get("index"),
        item=given.get("item"),
        start=given.get("start"),
        count=_optional(1, "count", given.get("count")),
        duration_s=None if given.get("duration_s") is None else float(given["duration_s"]),
    )
    paths = bool(workload.paths) and (workload.count is None) != (workload.duration_s is None)
    needs = {
        "urls": paths,
        "call": paths,
        "index": workload.index is not None and "{id}" in (workload.item or ""),
        "crawl": workload.start is not None,
    }
    if workload.kind not in needs:
        raise BadPlan(f"workload kind {workload.kind!r} is none of {', '.join(needs)}")
    if not needs[workload.kind]:
        raise BadPlan(
            {
                "urls": "a workload of urls needs paths and either count or duration_s",
                "call": "a call needs a path and either count or duration_s",
                "index": "a workload with an index needs index and an item with {id}",
                "crawl": "a crawl needs start",
            }[workload.kind]
        )
    return workload


def _at_least(least: int, key: str, value: Any) -> int:
    number = int(value)
    if number < least:
        raise BadPlan(f"{key} = {value} is less than {least}")
    return number


def _optional(least: int, key: str, value: Any) -> int | None:
    return None if value is None else _at_least(least, key, value)
