"""Connections to peers and to scripts, and what the tests ask of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trilane import _core

if TYPE_CHECKING:
    from peers.chaos import Chaos
    from peers.peer import Peer

WAIT_S = 60.0
"""What a wait may take on a loaded machine; a failure is then told as what it is, a timeout."""

# What a listener of `peers.peer.Peer` speaks.
SPOKEN = {"h1": "h1", "h1s": "h1", "h2c": "h2", "h2": "h2", "h3": "h3"}

# Peers and listeners that every test of a version goes through.
H1 = [("nginx", "h1"), ("nginx", "h1s"), ("caddy", "h1s"), ("gonet", "h1"), ("hypercorn", "h1s")]
H2 = [("nginx", "h2"), ("nghttpd", "h2"), ("caddy", "h2"), ("gonet", "h2"), ("hypercorn", "h2")]
H2C = [("nginx", "h2c"), ("nghttpd-plain", "h2c"), ("caddy", "h2c"), ("gonet", "h2c")]
H3 = [("caddy", "h3"), ("hypercorn", "h3")]
EVERY = H1 + H2 + H2C + H3


def trusting(ca: Path) -> _core.Tls:
    """Trust in one authority and nobody else."""
    return _core.Tls(authorities=[(ca.name, ca.read_bytes())], platform=False)


@dataclass
class Opener:
    """Opens connections, and closes them in the end."""

    tls: _core.Tls
    opened: list[_core.Connection] = field(default_factory=list)

    def peer(self, peer: Peer, listener: str) -> _core.Connection:
        """A connection to a listener of a peer."""
        return self.url(peer.bases[listener], SPOKEN[listener])

    def chaos(self, chaos: Chaos, version: str = "h1") -> _core.Connection:
        """A connection to a script."""
        return self.url(chaos.base, version)

    def url(self, base: str, *versions: str, timeout: float = WAIT_S) -> _core.Connection:
        """A connection to the origin of a URL."""
        parts = urlsplit(base)
        assert parts.hostname is not None
        assert parts.port is not None
        connection = _core.connect(
            parts.hostname,
            parts.port,
            scheme=parts.scheme,
            versions=versions,
            tls=self.tls if parts.scheme == "https" else None,
            timeout=timeout,
        )
        self.opened.append(connection)
        return connection

    def close(self) -> None:
        """Close all of them."""
        for connection in self.opened:
            connection.close()


def get(connection: _core.Connection, target: str, method: str = "GET") -> _core.Exchange:
    """Send a request without content."""
    return connection.submit(method, target, [])


def fetch(connection: _core.Connection, target: str) -> tuple[int, bytes]:
    """Status and content of a GET."""
    exchange = get(connection, target)
    return exchange.head(WAIT_S), exchange.read(timeout=WAIT_S)


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Do `work(0)` … `work(count - 1)` at the same time; raises the first of their exceptions."""
    failures: list[BaseException] = []

    def guarded(index: int) -> None:
        try:
            work(index)
        except BaseException as error:  # noqa: BLE001 - raised below, in the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
