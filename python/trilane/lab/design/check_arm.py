"""What an arm must be; `BadExperiment` names the key that is wrong."""

from __future__ import annotations

import re

from trilane.lab.design.bad_experiment import BadExperiment, Key
from trilane.lab.design.vocabulary import MULTIPLEXED, STRATEGIES, VERSIONS
from trilane.lab.design.words import is_not
from trilane.lab.design.workload import ArmSpec

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_URL = re.compile(r"https?://[^\s/]+(/\S*)?")
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


def check_arm(arm: ArmSpec, values: tuple[float, ...] | None, key: Key) -> None:
    """Refuse what no client can do; `values` are those of the sweep."""
    if not arm.title.strip():
        raise BadExperiment("is empty", (*key, "title"))
    if not _FOLDER.fullmatch(arm.client):
        raise BadExperiment(f"{arm.client!r} is not a name of a client", (*key, "client"))
    if arm.version not in VERSIONS:
        raise BadExperiment(is_not("version", arm.version, VERSIONS), (*key, "version"))
    if arm.strategy not in STRATEGIES:
        raise BadExperiment(is_not("strategy", arm.strategy, STRATEGIES), (*key, "strategy"))
    if not _FOLDER.fullmatch(arm.server) and not _URL.fullmatch(arm.server):
        raise BadExperiment(
            f"{arm.server!r} is neither a name of a server nor a URL", (*key, "server")
        )
    if arm.delay_s < 0:
        raise BadExperiment(f"must be at least 0, not {arm.delay_s:g}", (*key, "delay"))
    _concurrency(arm, key)
    if arm.at is not None:
        _at(arm.at, values, (*key, "at"))


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
        _positive(value, (*key, part))
    _positive(arm.in_flight, (*key, "in_flight"))
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


def _at(at: tuple[float, ...], values: tuple[float, ...] | None, key: Key) -> None:
    if values is None:
        raise BadExperiment("there is no sweep: leave it out", key)
    if not at:
        raise BadExperiment("is empty: leave it out to run at every value", key)
    for index, value in enumerate(at):
        if value not in values:
            known = ", ".join(f"{known:g}" for known in values)
            raise BadExperiment(
                f"{value:g} is no value of the sweep: choose from {known}", (*key, index)
            )


def _positive(value: int | None, key: Key) -> None:
    if value is not None and value < 1:
        raise BadExperiment(f"must be at least 1, not {value}", key)
