"""What an arm must be; `BadExperiment` names the key that is wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from trilane.lab.experiment import networks
from trilane.lab.experiment.bad_experiment import BadExperiment, Key, at_least
from trilane.lab.experiment.vocabulary import (
    COMMAND,
    ENGINE_FLAGS,
    GO_BENCH,
    GO_FLAGS,
    GRPC_MODES,
    MESSAGES,
    MULTIPLEXED,
    QUIC_CONGESTION,
    SERVER_FLAGS,
    STRATEGIES,
    VERSIONS,
)
from trilane.lab.experiment.words import is_not
from trilane.lab.experiment.workload import ArmSpec, Value
from trilane.lab.model.arm import EMBEDDED, ENGINE
from trilane.quantity import value_text

FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
PLACE = re.compile(r"/.+")
"""The absolute path of a folder."""
URL = re.compile(r"https?://[^\s/]+(/\S*)?")
# What sets the number of requests in flight of these strategies.
_SETS = {
    "threads": "threads",
    "asyncio_threads": "threads",
    "processes": "processes",
    "chunks": "chunk",
}
# Strategies that these keys mean something to.
_MAKES = {
    "connections": tuple(name for name in STRATEGIES if name != "serial"),
    "threads": ("threads", "asyncio_threads", "load"),
    "processes": ("processes", "processes_asyncio"),
    "chunk": ("chunks",),
    "streams": ("load",),
}


BENCHMARK = re.compile(r"Benchmark[^\s/]*(/[^\s/]+)*")


def check_arm(arm: ArmSpec, kind: str, values: tuple[Value, ...] | None, key: Key) -> None:
    """Refuse what no client can do; `kind` is the workload's, `values` are those of the sweep."""
    if not arm.title.strip():
        raise BadExperiment("is empty", (*key, "title"))
    if not FOLDER.fullmatch(arm.client):
        raise BadExperiment(f"{arm.client!r} is not a name of a client", (*key, "client"))
    if arm.version not in VERSIONS:
        raise BadExperiment(is_not("version", arm.version, VERSIONS), (*key, "version"))
    if arm.strategy not in STRATEGIES:
        raise BadExperiment(is_not("strategy", arm.strategy, STRATEGIES), (*key, "strategy"))
    if not any(pattern.fullmatch(arm.server) for pattern in (FOLDER, URL, PLACE)):
        raise BadExperiment(
            f"{arm.server!r} is neither a name of a server nor a URL", (*key, "server")
        )
    if problem := networks.problem(arm.network):
        raise BadExperiment(problem, (*key, "network"))
    _concurrency(arm, key)
    _rate(arm, key)
    _flags(arm, key)
    _congestion_control(arm, key)
    _call(arm, kind, key)
    _benchmark(arm, kind, key)
    _command(arm, kind, key)
    if not arm.tls and arm.version != "h1":
        problem = "is for h1: h2c is HTTP/2 without TLS, and h3 has none without"
        raise BadExperiment(problem, (*key, "tls"))
    if arm.at is not None:
        _at(arm.at, values, (*key, "at"))


def _rate(arm: ArmSpec, key: Key) -> None:
    if arm.rate is None:
        return
    if arm.strategy != "load":
        problem = 'a rate is kept with strategy = "load" alone'
        raise BadExperiment(problem, (*key, "rate"))
    if not 0 < arm.rate < math.inf:
        raise BadExperiment(f"must be above 0, not {arm.rate:g}", (*key, "rate"))


def _flags(arm: ArmSpec, key: Key) -> None:
    if arm.flags and (arm.client != ENGINE or arm.strategy != "load"):
        problem = f'go with client = "{ENGINE}" and strategy = "load"'
        raise BadExperiment(problem, (*key, "flags"))
    _known_flags(arm.flags, ENGINE_FLAGS, (*key, "flags"))
    of_module = arm.client == GO_BENCH
    if arm.server_flags and arm.server != EMBEDDED and not of_module:
        problem = f'go with server = "{EMBEDDED}" or client = "{GO_BENCH}"'
        raise BadExperiment(problem, (*key, "server_flags"))
    known = GO_FLAGS if of_module else SERVER_FLAGS
    _known_flags(arm.server_flags, known, (*key, "server_flags"))


def _known_flags(flags: tuple[str, ...], known: Mapping[str, bool], key: Key) -> None:
    words = iter(enumerate(flags))
    for index, flag in words:
        if flag not in known:
            raise BadExperiment(is_not("flag", flag, known), (*key, index))
        if known[flag] and next(words, None) is None:
            raise BadExperiment(f"{flag} needs a value behind it", (*key, index))


def _congestion_control(arm: ArmSpec, key: Key) -> None:
    control = arm.congestion_control
    if control is None or arm.version != "h3":
        return
    if control not in QUIC_CONGESTION:
        problem = is_not("congestion control of QUIC", control, QUIC_CONGESTION)
        raise BadExperiment(problem, (*key, "congestion_control"))
    if control != "cubic" and (arm.client != ENGINE or arm.server != EMBEDDED):
        problem = (
            f'of QUIC can be chosen with client = "{ENGINE}" and server = "{EMBEDDED}" alone: '
            "leave it out"
        )
        raise BadExperiment(problem, (*key, "congestion_control"))


def _call(arm: ArmSpec, kind: str, key: Key) -> None:
    if kind != "call":
        for part in ("message", "mode"):
            if getattr(arm, part) is not None:
                raise BadExperiment('goes with a workload of kind = "call"', (*key, part))
        return
    if arm.message is None:
        raise BadExperiment('message is missing: add message = "json"', key)
    if arm.message not in MESSAGES:
        raise BadExperiment(is_not("message", arm.message, MESSAGES), (*key, "message"))
    if arm.strategy != "load":
        problem = 'calls are made with strategy = "load"'
        raise BadExperiment(problem, (*key, "strategy"))
    if arm.message == "grpc" and arm.version == "h1":
        problem = "gRPC needs HTTP/2 or HTTP/3: use another version, or grpc-web"
        raise BadExperiment(problem, (*key, "version"))
    if arm.gzip:
        raise BadExperiment("calls are made without: leave it out", (*key, "gzip"))
    _mode(arm, key)


def _mode(arm: ArmSpec, key: Key) -> None:
    if arm.mode is not None:
        if arm.message != "grpc" or arm.client != ENGINE:
            problem = f'goes with message = "grpc" and client = "{ENGINE}"'
            raise BadExperiment(problem, (*key, "mode"))
        if arm.mode not in GRPC_MODES:
            raise BadExperiment(is_not("mode", arm.mode, GRPC_MODES), (*key, "mode"))


def _benchmark(arm: ArmSpec, kind: str, key: Key) -> None:
    if (kind == "benchmark") != (arm.client == GO_BENCH):
        problem = f'client = "{GO_BENCH}" and a workload of kind = "benchmark" go together'
        raise BadExperiment(problem, (*key, "client"))
    if kind != "benchmark":
        if arm.benchmark is not None:
            raise BadExperiment(f'goes with client = "{GO_BENCH}"', (*key, "benchmark"))
        return
    if arm.benchmark is None:
        raise BadExperiment('benchmark is missing: add benchmark = "BenchmarkGet/HTTP"', key)
    if not BENCHMARK.fullmatch(arm.benchmark):
        problem = f"{arm.benchmark!r} is not a benchmark: write BenchmarkGet, or BenchmarkGet/HTTP"
        raise BadExperiment(problem, (*key, "benchmark"))
    if arm.strategy != "serial" or arm.network or not arm.session:
        part = "strategy" if arm.strategy != "serial" else "network" if arm.network else "session"
        raise BadExperiment("the benchmark decides that: leave it out", (*key, part))
    if not FOLDER.fullmatch(arm.server) or arm.server == EMBEDDED:
        problem = "is the folder of servers/ that is the Go module: write its name"
        raise BadExperiment(problem, (*key, "server"))


def _command(arm: ArmSpec, kind: str, key: Key) -> None:
    if (kind == COMMAND) != (arm.client == COMMAND):
        problem = f'client = "{COMMAND}" and a workload of kind = "{COMMAND}" go together'
        raise BadExperiment(problem, (*key, "client"))
    if kind != COMMAND:
        for part in ("command", "folder"):
            if getattr(arm, part) is not None:
                raise BadExperiment(f'goes with client = "{COMMAND}"', (*key, part))
        return
    if not (arm.command or "").strip():
        raise BadExperiment("is empty: what is to be timed?", (*key, "command"))
    if arm.folder is None or not PLACE.fullmatch(arm.folder):
        problem = f"{arm.folder!r} is not the absolute path of a folder"
        raise BadExperiment(problem, (*key, "folder"))
    if arm.strategy != "serial" or arm.network:
        part = "network" if arm.network else "strategy"
        raise BadExperiment("the command decides that: leave it out", (*key, part))


def _concurrency(arm: ArmSpec, key: Key) -> None:
    if arm.strategy in MULTIPLEXED and arm.version == "h1":
        raise BadExperiment(
            f"{arm.strategy} needs many requests on one connection, which h1 has not: "
            "use threads or asyncio",
            (*key, "strategy"),
        )
    if not arm.session and arm.strategy in {*MULTIPLEXED, "load"}:
        raise BadExperiment(f"{arm.strategy} keeps its connections", (*key, "session"))
    for part, strategies in _MAKES.items():
        value = getattr(arm, part)
        if value is not None and arm.strategy not in strategies:
            raise BadExperiment(f"{arm.strategy} has none: leave it out", (*key, part))
        at_least(value, 1, (*key, part))
    at_least(arm.in_flight, 1, (*key, "in_flight"))
    if arm.strategy == "serial" and arm.in_flight != 1:
        raise BadExperiment("serial has one request in flight: leave it out", (*key, "in_flight"))
    setter = _SETS.get(arm.strategy)
    if setter is not None and getattr(arm, setter) != arm.in_flight:
        raise BadExperiment(
            f"{arm.in_flight} contradicts {setter} = {getattr(arm, setter)}: leave one out",
            (*key, "in_flight"),
        )
    if arm.strategy == "load":
        _load(arm, key)
    elif arm.strategy in MULTIPLEXED and arm.connections != 1:
        raise BadExperiment(f"{arm.strategy} uses one connection", (*key, "connections"))


def _load(arm: ArmSpec, key: Key) -> None:
    if arm.version == "h1" and arm.streams != 1:
        raise BadExperiment("h1 has one stream per connection: leave it out", (*key, "streams"))
    if arm.in_flight != (arm.connections or 1) * (arm.streams or 1):
        raise BadExperiment(
            f"{arm.in_flight} is not connections times streams, "
            f"{arm.connections} times {arm.streams}",
            (*key, "in_flight"),
        )


def _at(at: tuple[Value, ...], values: tuple[Value, ...] | None, key: Key) -> None:
    if values is None:
        raise BadExperiment("there is no sweep: leave it out", key)
    if not at:
        raise BadExperiment("is empty: leave it out to run at every value", key)
    for index, value in enumerate(at):
        if value not in values:
            known = ", ".join(map(value_text, values))
            raise BadExperiment(
                f"{value_text(value)} is not a value of the sweep: choose from {known}",
                (*key, index),
            )
