"""What a measurement was a measurement of: facts to look at before two are set side by side.

Three kinds of facts, of one arm at one point of the sweep:

workload
    What was asked of whom, how much, how many at once: another workload is another question.
machine
    Where it ran: CPU, kernel, interpreter, pinning, congestion control.
software
    Builds, versions and settings of client and server, and what they negotiated: usually what a
    comparison of two runs is about.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from trilane.lab.model.comparison import Comparison, JudgedArm
from trilane.lab.model.documents import digest
from trilane.lab.model.manifest import RACE
from trilane.lab.storage.runs import RunFolder

Facts: TypeAlias = dict[str, Any]

# Of an arm of a comparison.
_SHAPE = ("version", "strategy", "session", "network", "connections", "streams", "in_flight")
# Of the ledger: the request as it was sent. Its header bytes are left to `software`, because they
# count the digits of the port.
_WORKLOAD_ROWS = frozenset(
    {
        "version obtained",
        "request method",
        "request header fields",
        "request body (bytes)",
        "connections",
        "streams per connection",
        "client threads",
        "model",
        "rate asked for (1/s)",
        "session kept",
        "requests",
        "workload",
        "response coding asked for",
    }
)
# These say again what the arm does.
_SHAPE_ROWS = frozenset({"strategy", "most requests in flight"})
_MACHINE_ROWS = frozenset({"client CPUs", "client congestion control", "MTU (bytes)"})
# Of the plan of a comparison.
_PLAN = ("duration_s", "count", "in_flight")
_LOOPBACK = ("127.0.0.1", "::1", "[::1]", "localhost")


def workload(run: RunFolder, comparison: Comparison, arm: JudgedArm) -> Facts:
    """Everything that makes two measurements answers to the same question."""
    facts: Facts = {"target": target(comparison, arm)}
    # A race is told by its length and its flags, as those are that kept no experiment.
    asked = [] if run.kind == RACE else sorted(run.manifest.workload.items())
    for key, value in asked or ((key, getattr(comparison.plan, key)) for key in _PLAN):
        if value is not None:
            facts[key.replace("_", " ")] = value
    goals = {", ".join(s.run.capacity.goals) for s in arm.samples if s.run and s.run.capacity}
    if goals:
        facts["searched for"] = " | ".join(sorted(goals))
    for key in _SHAPE:
        if (value := getattr(arm, key)) is not None:
            facts[key.replace("_", " ")] = value
    for name, value in _rows(comparison, arm):
        if name in _WORKLOAD_ROWS:
            facts[name] = value
    return facts


def fingerprint(facts: Facts) -> str:
    """Eight hexadecimal digits that differ when the workload does."""
    return digest(sorted(facts.items()))


def machine(run: RunFolder, comparison: Comparison, arm: JudgedArm) -> Facts:
    """Where it ran."""
    facts = {key.replace("_", " "): value for key, value in run.machine.items()}
    facts.update((name, value) for name, value in _rows(comparison, arm) if name in _MACHINE_ROWS)
    return facts


def software(run: RunFolder, comparison: Comparison, arm: JudgedArm) -> Facts:
    """Which programs it ran, and what they agreed on."""
    facts: Facts = {
        key.replace("_", " "): getattr(arm, key) for key in ("client", "library_version", "server")
    }
    for name, value in _rows(comparison, arm):
        if name in _WORKLOAD_ROWS | _SHAPE_ROWS | _MACHINE_ROWS:
            continue
        # Our own servers get another port in every run.
        if name == "peer" and str(value).rpartition(":")[0] in _LOOPBACK:
            continue
        facts[name] = value
    for key, value in _server(comparison, arm).items():
        facts[f"server {key.replace('_', ' ')}"] = value
    facts["quick"] = run.quick
    facts["form"] = run.form
    return facts


def target(comparison: Comparison, arm: JudgedArm) -> str:
    """The URL; without host and port for a server that we started, which gets others every time."""
    url = comparison.url
    parts = urlsplit(url)
    server = _server(comparison, arm)
    # Of a server that is not ours a race knows nothing; an experiment says so.
    if server and server.get("ours", True) and parts.hostname in _LOOPBACK:
        return f"own server {parts.path or '/'}"
    return url


def _server(comparison: Comparison, arm: JudgedArm) -> Facts:
    """Facts about the arm's server; an experiment with several keeps each under its name."""
    known = comparison.ledger.server
    own = known.get(str(arm.server))
    return own if isinstance(own, dict) else known


def _rows(comparison: Comparison, arm: JudgedArm) -> Iterator[tuple[str, Any]]:
    for row in comparison.ledger.rows:
        yield row.name, row.values.get(arm.name)
