"""Targets that a race starts itself: the embedded server and its readiness."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trilane
from trilane.interpreter import TRILANE
from trilane.lab.model.documents import Json
from trilane.lab.processes import supervisor
from trilane.lab.processes.place import HERE, Place
from trilane.lab.processes.supervisor import READY_S, Child, Late, ProcessFailed

PROGRAM = (*TRILANE, "serve")
LOCAL = "127.0.0.1"
"""Where nobody but this machine reaches a server."""
ANYWHERE = "0.0.0.0"  # noqa: S104 - other machines of a cluster are to reach it
"""Every address of this machine, `LOCAL` among them."""
_READY_SCHEMA = "trilane.serve/1"
# A server answers its standard input on a thread of its own: this only ends a hang.
_COUNT_S = 30.0
# The default of `trilane serve --h2-streams`.
_STREAMS = 1000


class ServerFailed(RuntimeError):
    """A server did not come up, or did not give what it should; the message says why."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What the embedded server has counted since it started."""

    requests: int
    connections: int
    """Those that came to where requests may be sent."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server of ours."""

    pid: int
    https: str
    http: str
    cacert: str
    facts: Mapping[str, Any]
    count: Callable[[], Counted]
    """Asks it what it has counted; raises ServerFailed when it does not say."""


@contextlib.contextmanager
def embedded(
    *,
    threads: int,
    cpus: str | None,
    state: Path | None,
    ready_s: float = READY_S,
    log: Path | None = None,
    place: Place = HERE,
    bind: str = LOCAL,
    flags: Sequence[str] = (),
) -> Iterator[Server]:
    """`trilane serve` on free ports, for as long as the context, or we, live.

    `place` is where it runs, `bind` the address that it listens on, `flags` are further ones. Its
    messages go to the end of `log`, or nowhere when it comes up. It needs no guard, unlike other
    servers: it ends by itself when its stdin closes.

    Raises:
        ServerFailed: it did not start, ended, or was not ready within `ready_s` seconds.
    """
    words = [
        *PROGRAM,
        *("--port", "0", "--tls-port", "0", "--bind", bind, "-t", str(threads)),
        *("--exit-with-parent", "--format", "json"),
        *(("--cpu", cpus) if cpus else ()),
        *(("--state", str(state)) if state else ()),
        *flags,
    ]
    with contextlib.ExitStack() as stack:
        try:
            child = stack.enter_context(
                supervisor.started(place.command(words), pipes=True, log=log, ends_with_stdin=True)
            )
            ready = _ready(child, ready_s)
        except ProcessFailed as error:
            raise ServerFailed(f"the embedded server {error}") from error
        yield Server(
            pid=int(ready["pid"]),
            https=str(ready["https"]),
            http=str(ready["http"]),
            cacert=str(ready["cacert"]),
            facts={
                "software": "trilane serve",
                "version": trilane.__version__,
                "revision": trilane.revision or None,
                "build_profile": trilane.build_profile,
                "threads": threads,
                "cpus": cpus,
                "max_concurrent_streams": _STREAMS,
                "keepalive_requests": None,
                "flags": list(flags),
                # A route's goes before that of a socket.
                "tcp_congestion_control": place.congestion_control
                or _known(ready.get("tcp_congestion_control")),
                "quic_congestion_control": _quic_control(flags),
            },
            count=lambda: _counted(child),
        )


def _known(told: object) -> str | None:
    return told if isinstance(told, str) else None


def _quic_control(flags: Sequence[str]) -> str:
    flag = "--quic-congestion"
    return flags[flags.index(flag) + 1] if flag in flags else "cubic"


def _counted(child: Child) -> Counted:
    try:
        child.write_line(b"count", _COUNT_S)
        line = child.read_line("what it has counted", _COUNT_S)
    except ProcessFailed as error:
        raise ServerFailed(f"the embedded server {error}") from error
    try:
        told = json.loads(line)
        return Counted(requests=int(told["requests"]), connections=int(told["connections"]))
    except (ValueError, KeyError, TypeError):
        said = f"the embedded server said {line[:200]!r} instead of what it has counted"
        raise ServerFailed(said) from None


def _ready(child: Child, ready_s: float) -> Json:
    try:
        line = child.read_line("that it is ready", ready_s)
    except Late as error:
        raise Late(child.with_words(f"was not ready within {ready_s:g} s")) from error
    try:
        ready = json.loads(line)
    except ValueError:
        ready = None
    if (
        not isinstance(ready, dict)
        or ready.get("schema") != _READY_SCHEMA
        or not ready.get("ready")
    ):
        raise ServerFailed(f"the embedded server said {line[:200]!r} instead of being ready")
    return ready
