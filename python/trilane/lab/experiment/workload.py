"""What every arm of a form does, and the arms themselves."""

from __future__ import annotations

import json
import random
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, Unpack

from trilane.lab.experiment.vocabulary import MESSAGES, TITLES
from trilane.lab.model.arm import EMBEDDED

Headers: TypeAlias = tuple[tuple[str, str], ...]
Number: TypeAlias = int | float
"""As it was written: where a file has 4, its JSON has no 4.0."""
Value: TypeAlias = Number | str
"""A value of a sweep: a number in the sweep's unit, or the settings of a network."""

BODY_BYTES = "{body_bytes}"
"""In a path: the size that a sweep over `body_bytes` is at."""


# The jobs of `processes_asyncio` in the post behind `strategies`.
_JOBS = 6
_PIECE = 1 << 20


class ArmOptions(TypedDict, total=False):
    """What an arm may set beside its client, version and strategy."""

    name: str
    title: str
    session: bool
    server: str
    network: str
    in_flight: int
    connections: int
    streams: int
    threads: int
    processes: int
    chunk: int
    gzip: bool | None
    """Whether gzip is asked for and decoded; None asks for no coding at all."""
    headers: Headers
    at: tuple[Value, ...]
    message: str
    mode: str
    tls: bool
    benchmark: str
    command: str
    folder: str
    rate: float
    flags: tuple[str, ...]
    server_flags: tuple[str, ...]
    congestion_control: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSpec:
    """One column: client, version, strategy, session, server, network. All defaults filled in."""

    name: str
    title: str
    client: str
    version: str
    strategy: str
    session: bool = True
    """Whether connections are kept between requests."""
    server: str = EMBEDDED
    """A folder of `servers/`, or a URL; with `go-bench` the folder that is the Go module."""
    network: str = ""
    """The emulated network to the server, as `trilane network` takes it; empty for none."""
    in_flight: int
    """Requests under way at once; with `processes_asyncio` in each process."""
    connections: int | None
    streams: int | None
    """Streams per connection; set for `load` only."""
    threads: int | None
    processes: int | None
    chunk: int | None
    gzip: bool | None
    """Whether gzip is asked for and decoded; None asks for no coding at all."""
    headers: Headers
    at: tuple[Value, ...] | None = None
    """Values of the sweep it runs at; None for all."""
    message: str | None = None
    """`call`: what its messages are written as, one of `MESSAGES`."""
    mode: str | None = None
    """gRPC: `wire` or `codec`; None for the engine's default."""
    tls: bool = True
    """False: HTTP/1.1 without TLS, from where the server speaks h2c."""
    benchmark: str | None = None
    """`go-bench`: name of the benchmark, parts joined by `/`."""
    command: str | None = None
    """`command`: what is timed, for a shell; `{origin}` is the server, `{cacert}` the PEM file of
    the authority to trust. Without `{origin}` it has no server."""
    folder: str | None = None
    """`command`: the absolute path of the folder that it is started in."""
    rate: float | None = None
    """Open model: requests per second, over all connections, whatever the responses do; None: each
    request follows a response."""
    flags: tuple[str, ...] = ()
    """Further flags of `trilane load`, of those in `vocabulary.ENGINE_FLAGS`."""
    server_flags: tuple[str, ...] = ()
    """Further flags of `trilane serve`, of those in `vocabulary.SERVER_FLAGS`; with `go-bench` of
    `go test -c`, of those in `vocabulary.GO_FLAGS`."""
    congestion_control: str | None = None
    """Of TCP and QUIC at both ends of the network; None for the form's."""

    def with_in_flight(self, in_flight: int) -> ArmSpec:
        """This arm with another number of requests in flight; `serial` stays as it is."""
        options: ArmOptions = {}
        if self.strategy == "load":
            options["threads"] = self.threads or 1
            if self.connections is not None and (self.streams or 1) > 1:
                # More streams on the same connections: that is what such an arm is about.
                options["connections"] = evenly(self.connections, in_flight)
        elif self.strategy == "processes_asyncio" and self.processes is not None:
            options["processes"] = self.processes
        return replace(self, **_concurrency(self.version, self.strategy, options, in_flight))


@dataclass(frozen=True, slots=True)
class Workload:
    """The requests of a form, the same for every arm."""

    kind: str = "urls"
    """`urls`, `index`, `crawl`, `call`, `benchmark` or `command`."""
    paths: tuple[str, ...] = ("/hello",)
    """`urls`: taken in turn."""
    index: str | None = None
    """`index`: where the JSON list of ids is."""
    item: str | None = None
    """`index`: the path of one item; `{id}` is replaced."""
    start: str | None = None
    """`crawl`: the first page."""
    count: int | None = None
    """Requests; `index`: ids at most; `crawl`: pages at most; `command`: how often it is run."""
    duration_s: float | None = None
    """Instead of a count: length of the workload in seconds."""
    method: str = "GET"
    body: bytes | None = None
    content_type: str | None = None
    body_file: bool = False
    """The body comes from a file of `file_bytes`, in pieces, instead of from memory."""
    file_bytes: int | None = None
    discard: bool = False
    """Bodies of responses are read in pieces, counted and thrown away."""
    check_body: bool = False
    """The engine sums every body, and one that differs from the first fails; other clients do so
    anyway, but for those that only count."""
    headers: Headers = ()
    gzip: bool | None = False
    """Ask for gzip, and decode it; None: the engine says nothing of codings."""
    in_flight: int | None = None
    """Default for arms."""
    warmup_requests: int = 0
    warmup_s: float = 0.0
    repeat: int = 1
    """How often the whole workload is done."""
    repeat_processes: int = 0
    """Processes of the pool that does the repetitions; 0 for none."""
    timeout_s: float = 30.0
    rate: float | None = None
    """Default for arms."""
    flags: tuple[str, ...] = ()
    """Further flags of `trilane load`, for arms of the engine: what a race was typed with."""
    search: tuple[str, ...] = ()
    """What has to hold, such as `p99<10ms`: each run is a search for the highest rate at which it
    does, made of runs of `duration_s`, and the rate of an arm is where it begins.
    """

    prepare: str | None = None
    """`command`: a shell command that is run before it each time, in its folder, and not timed."""

    def arm(
        self, client: str, version: str, strategy: str = "serial", **options: Unpack[ArmOptions]
    ) -> ArmSpec:
        """An arm that does this workload; what `options` does not say is filled in."""
        name, title = _called(client, version, strategy, options)
        if not options.get("session", True):
            name, title = f"{name}-no-session", f"{title}, no session"
        told: dict[str, Any] = {
            "name": name,
            "title": title,
            "gzip": self.gzip,
            "headers": self.headers,
            "rate": self.rate,
            **options,
            **_concurrency(version, strategy, options, self.in_flight),
        }
        return ArmSpec(client=client, version=version, strategy=strategy, **told)

    def with_body_bytes(self, size: int) -> Workload:
        """This workload with bodies of that size: of the answers where a path says so."""
        if any(BODY_BYTES in path for path in self.paths):
            paths = tuple(path.replace(BODY_BYTES, str(size)) for path in self.paths)
            return replace(self, paths=paths)
        if self.body_file:
            return replace(self, file_bytes=size)
        return replace(self, body=body_of(size, self.content_type))


def evenly(most: int, in_flight: int) -> int:
    """The largest number of connections up to `most` that have the same share of the requests."""
    return next(count for count in range(min(most, in_flight), 0, -1) if in_flight % count == 0)


def told_apart(arms: Sequence[ArmSpec]) -> tuple[ArmSpec, ...]:
    """The arms; of those with one title, which does not tell what differs, each with its name."""
    shared = Counter(arm.title for arm in arms)
    return tuple(
        replace(arm, title=f"{arm.title} ({arm.name})") if shared[arm.title] > 1 else arm
        for arm in arms
    )


def _called(client: str, version: str, strategy: str, options: ArmOptions) -> tuple[str, str]:
    """Name and title of an arm that has none: of a call the server and its format tell it apart."""
    spoken, said = version, str(TITLES.get(version, version))
    if not options.get("tls", True):
        spoken, said = f"{version}-plain", f"{said} (cleartext)"
    message = options.get("message")
    if message is None:
        return f"{client}-{spoken}-{strategy}", f"{client}, {said}, {strategy}"
    server, written = options.get("server", EMBEDDED), MESSAGES.get(message, message)
    if options.get("mode") == "codec":
        message, written = f"{message}-codec", f"{written} with its codec"
    # Charts have dozens of these: short, and the version as in the tables.
    return f"{server}-{spoken}-{message}", f"{server}, {written}, {spoken.replace('-', ' ')}"


class _Concurrency(TypedDict):
    in_flight: int
    connections: int | None
    streams: int | None
    threads: int | None
    processes: int | None
    chunk: int | None


def _concurrency(
    version: str, strategy: str, options: ArmOptions, default: int | None
) -> _Concurrency:
    """How an arm keeps its requests in flight; what is not said follows from what is."""
    given = options.get("in_flight")
    wanted = given or default or 1
    connections = options.get("connections")
    # What contradicts the strategy is kept, for the check to name.
    streams, threads = options.get("streams"), options.get("threads")
    processes, chunk = options.get("processes"), options.get("chunk")
    match strategy:
        case "serial":
            wanted = 1
        case "threads" | "asyncio_threads":
            wanted = threads = threads or wanted
        case "processes":
            wanted = processes = processes or wanted
        case "processes_asyncio":
            processes = processes or _JOBS
        case "chunks":
            wanted = chunk = chunk or wanted
            connections = connections or 1
        case "multiplexed":
            connections = connections or 1
        case "load":
            threads = threads or 1
            if connections is None:
                streams = streams or 1
                connections = max(1, wanted // streams)
            elif streams is None and version != "h1" and (given or default):
                # A remainder is left for the check to name.
                streams = max(1, wanted // connections)
            else:
                streams = streams or 1
                wanted = connections * streams
    return {
        "in_flight": given or wanted,
        "connections": connections,
        "streams": streams,
        "threads": threads,
        "processes": processes,
        "chunk": chunk,
    }


def write_body(path: Path, size: int) -> None:
    """A file of exactly `size` bytes, the same every time: one piece of noise over and over."""
    piece = random.Random(size).randbytes(_PIECE)  # noqa: S311 - a payload, not a secret
    with path.open("wb") as file:
        for _ in range(size // _PIECE):
            file.write(piece)
        file.write(piece[: size % _PIECE])


def body_of(size: int, content_type: str | None) -> bytes:
    """A body of exactly `size` bytes, the same every time: a JSON object where JSON is declared."""
    # Random letters and digits, as in the post behind `strategies`; seeded by the size so that
    # every arm and every replay sends the same bytes.
    letters = random.Random(size)  # noqa: S311 - a payload, not a secret
    frame = ('{"data": "', '"}') if "json" in (content_type or "") else ("", "")
    room = size - sum(map(len, frame))
    if room < 0:
        return json.dumps(10 ** (size - 1)).encode() if size else b""
    text = "".join(letters.choices(string.ascii_uppercase + string.digits, k=room))
    return (frame[0] + text + frame[1]).encode()
