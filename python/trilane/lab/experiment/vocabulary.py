"""The words an experiment file may use, each with what it means."""

from __future__ import annotations

from trilane.lab.model import measures
from trilane.lab.model.arm import COMMAND, GRPC_MODES, MESSAGES, TITLES, VERSIONS

__all__ = [
    "COMMAND",
    "ENGINE_FLAGS",
    "FACTORS",
    "GO_BENCH",
    "GO_FLAGS",
    "GRPC_MODES",
    "KINDS",
    "MEASURES",
    "MESSAGES",
    "MULTIPLEXED",
    "QUIC_CONGESTION",
    "SERVER_FLAGS",
    "STRATEGIES",
    "SWEEPS",
    "TITLES",
    "VERSIONS",
]

STRATEGIES = {
    "serial": "one request after the other",
    "threads": "a pool of threads",
    "processes": "a pool of processes",
    "asyncio_threads": "asyncio over a pool of threads",
    "asyncio": "asyncio",
    "processes_asyncio": "asyncio in a pool of processes",
    "chunks": "N at once on one connection, wait for all, then the next N",
    "multiplexed": "N in flight on one connection, no barrier",
    "load": "connections times streams, each sending its next request at once",
}
# Many requests on one connection, which HTTP/1.1 cannot do.
MULTIPLEXED = ("chunks", "multiplexed")

KINDS = {
    "urls": "the paths in turn",
    "index": "a list of ids, then one request for each id",
    "crawl": "pages, following their links",
    "call": "one call of a service, in the format of each arm",
    "benchmark": "the benchmark of each arm, as `go test -bench` runs it",
}
"""Of experiment files. `COMMAND` is one more, of `trilane ab` alone."""

FACTORS = {
    "version": "the version of HTTP",
    "client": "the client under test",
    "strategy": "how many requests are made, and how many at once",
    "server": "the target",
    "message": "what the messages of a call are written as",
    "session": "whether connections are kept between requests",
}
"""In what arms may differ that are compared by factor."""

GO_BENCH = "go-bench"
"""The client that is a benchmark of Go's: client and server in one process."""

# What a sweep varies, and the unit of its values.
SWEEPS = {
    "count": "requests",
    "in_flight": "requests in flight",
    "body_bytes": "B",
    "rtt": "s",
    "network": "",
}

ENGINE_FLAGS = {
    "--arrivals": True,
    "--early-data": False,
    "--max-frame-size": True,
    "--new-connections": False,
    "--requests-per-connection": True,
    "--resume": True,
}
"""Flags of `trilane load` that an arm may have, and whether each has a value."""

SERVER_FLAGS = {
    "--chain-size": True,
    "--early-data": False,
    "--retry": False,
}
"""Flags of `trilane serve` that an arm may have, and whether each has a value."""

GO_FLAGS = {"-tags": True}
"""Flags of `go test -c` that an arm of `go-bench` may have, and whether each has a value."""

QUIC_CONGESTION = ("cubic", "reno", "bbr")
"""Congestion control that there is for QUIC, in our engine and our server."""

MEASURES = tuple(measure.name for measure in measures.MEASURES)
