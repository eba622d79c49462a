"""The servers under the benchmark, each started when a row first needs it, pinned to one core."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Self

from peers import embedded, nghttpd, nginx, shipped
from peers.authority import Authority
from peers.process import MissingProgramError

from .tools import ROOT, Trilane

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from peers.peer import Peer

_IDLE_CONNECTIONS = 12_000


class Servers:
    """Leaving the context stops all of them."""

    def __init__(self, core: int) -> None:
        self._folder = ROOT / "build" / "bench" / "servers"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._authority = Authority(self._folder / "ca")
        leaf = self._authority.local()
        # nghttpd is one process per listener, so that a row pins exactly one server thread.
        self._starts: dict[str, Callable[[], Peer]] = {
            "nginx": lambda: nginx.start(
                self._folder / "nginx", leaf, cpus=[core], files=_IDLE_CONNECTIONS
            ),
            "nghttpd-plain": lambda: nghttpd.start(self._folder / "plain", None, cpus=[core]),
            "nghttpd-tls": lambda: nghttpd.start(self._folder / "tls", leaf, cpus=[core]),
            "embedded": lambda: embedded.start(
                Trilane().program, self._folder / "embedded", cpus=[core]
            ),
            "grpc-go": lambda: shipped.start(
                "grpc-go", self._folder / "grpc-go", cpus=[core], hello=""
            ),
        }
        self._running: dict[str, Peer] = {}

    def url(self, server: str, listener: str, body: int) -> str:
        """Address of a response with a body of that many bytes; of the server itself for calls."""
        if server not in self._running:
            self._running[server] = self._starts[server]()
        peer = self._running[server]
        return peer.url(listener, f"/bytes/{body}" if body >= 1024 else None)

    @staticmethod
    def versions() -> dict[str, str]:
        """Of the programs that are installed."""
        found = {}
        for name, version in {"nginx": nginx.version, "nghttpd": nghttpd.version}.items():
            try:
                found[name] = version()
            except MissingProgramError as error:
                found[name] = str(error)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for peer in self._running.values():
            peer.stop()
