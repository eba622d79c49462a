"""Emulated distance: a relay between client and server that adds a round-trip time.

What it models: every TCP chunk and UDP datagram takes half the round trip longer, each way; a TCP
connect takes a round trip; and TCP starts slowly (`relay_window`), as QUIC does by
itself. What it does not: bandwidth, loss, jitter. `docs/servers.md` says what follows from that.
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from trilane.lab.model.documents import Json
from trilane.lab.processes import launch, supervisor
from trilane.lab.processes.supervisor import READY_S, Child, Ended, ProcessFailed

PROGRAM = (sys.executable, "-m", "trilane.lab.network.relay_process")
_LATE_S = 1e-3
"""METHOD §5: an emulator later than this at the 99th percentile makes a run suspect."""
_LOST = 1e-3
"""Share of datagrams whose loss makes a run invalid."""
_BUSY = 0.8
"""METHOD §5: a worker busier than this makes a run suspect."""
_LONGEST_S = 60.0
_PORTS = {"http": 80, "https": 443}


class RelayFailed(RuntimeError):
    """The relay could not be had; the message says why."""


@dataclass(frozen=True, slots=True)
class Punctuality:
    """What the relay did between two questions."""

    chunks: int
    """TCP chunks and datagrams sent on."""
    bytes: int
    connections: int
    datagrams_dropped: int
    refused: int
    """Connections that the server did not take."""
    held_back: int
    """How often a sender had to wait because too much was under way."""
    busy: float
    """Share of one CPU that it took."""
    late_p50_s: float | None
    late_p99_s: float | None
    """How much later than due it sent: the scheduling error, in seconds."""
    late_max_s: float | None

    def invalid(self) -> str | None:
        """Why a run over this relay does not count, if so."""
        if self.datagrams_dropped > _LOST * (self.chunks + self.datagrams_dropped):
            return f"the emulated network lost {self.datagrams_dropped} datagrams"
        return None

    def suspect(self) -> str | None:
        """Why a run over this relay is to be distrusted, if so."""
        if self.late_p99_s is not None and self.late_p99_s > _LATE_S:
            return f"the emulated delay was late by {self.late_p99_s * 1e3:.1f} ms at p99"
        if self.busy > _BUSY:
            return f"the emulated network was {self.busy:.0%} busy: it may have been the limit"
        return None


class Relay:
    """A running relay."""

    def __init__(
        self,
        origins: Mapping[str, str],
        delay_s: float,
        child: Child | None,
        scheduling: str | None,
    ) -> None:
        self.origins = origins
        """Where to go instead, by version."""
        self.delay_s = delay_s
        self.scheduling = scheduling
        """`real-time`, `nice -10` or `normal`: what the system let it have."""
        self.pid = None if child is None else child.pid
        """Process id; None where there is no delay and so no relay."""
        self._child = child

    def punctuality(self) -> Punctuality:
        """What it did since the last call; raises RelayFailed when it has died."""
        if self._child is None:
            return Punctuality(0, 0, 0, 0, 0, 0, 0.0, None, None, None)
        return Punctuality(**_ask(self._child, {}))


@contextlib.contextmanager
def open_relay(
    origins: Mapping[str, str], delay_s: float, *, cpus: str | None = None
) -> Iterator[Relay]:
    """A relay to origins on this machine, by version, with a round-trip time of `delay_s` seconds.

    For each origin it serves TCP and UDP on one port. It runs on `cpus` such as "0,2-3" (None: all
    of ours) and lives as long as the context, or the lab. Without a delay there is no relay, and
    the origins stay as they are.

    Raises:
        RelayFailed: the delay is not from 0 to 60 s, an origin is not on this machine, or the relay
            did not start or did not answer.
    """
    if not (math.isfinite(delay_s) and 0 <= delay_s <= _LONGEST_S):
        raise RelayFailed(f"a delay of {delay_s} s cannot be emulated: choose from 0 to 60 s")
    if delay_s == 0:
        yield Relay(dict(origins), 0.0, None, None)
        return
    parts = {origin: urlsplit(origin) for origin in dict.fromkeys(origins.values())}
    addresses = [_address(part) for part in parts.values()]
    with contextlib.ExitStack() as stack:
        try:
            child = stack.enter_context(
                supervisor.started(
                    PROGRAM,
                    pipes=True,
                    cpus=launch.cpu_numbers(cpus or ""),
                    ends_with_stdin=True,
                )
            )
        except ProcessFailed as error:
            raise RelayFailed(f"the relay {error}") from error
        ready = _ask(child, {"delay_s": delay_s, "origins": addresses})
        moved = {
            origin: _moved(part, port)
            for (origin, part), port in zip(parts.items(), ready["ports"], strict=True)
        }
        there = {version: moved[origin] for version, origin in origins.items()}
        yield Relay(there, delay_s, child, str(ready["scheduling"]))


def _ask(child: Child, question: Json) -> Json:
    """The relay's answer to one line."""
    try:
        child.write_line(json.dumps(question).encode(), READY_S)
        answer: Json = json.loads(child.read_line("anything", READY_S))
    except Ended as error:
        raise RelayFailed(f"the relay died: it {error}") from error
    except ProcessFailed as error:
        raise RelayFailed(f"the relay {error}") from error
    return answer


def _address(parts: SplitResult) -> tuple[int, tuple[Any, ...]]:
    """Family and socket address of an origin, which has to be on this machine."""
    port = parts.port or _PORTS.get(parts.scheme)
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise RelayFailed(f"{parts.hostname} has no address: {error.strerror}") from error
    local = [
        (family, name)
        for family, _, _, _, name in found
        if str(name[0]).startswith("127.") or name[0] == "::1"
    ]
    if not local:
        raise RelayFailed(
            f"a delay can be emulated only for servers on this machine, not for {parts.hostname}"
        )
    # A name such as localhost has several; only then is it worth a connection to find out.
    for family, name in local if len(local) > 1 else ():
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            if probe.connect_ex(name) == 0:
                return int(family), tuple(name)
    return int(local[0][0]), tuple(local[0][1])


def _moved(parts: SplitResult, port: int) -> str:
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    return f"{parts.scheme}://{host}:{port}"
