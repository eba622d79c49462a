"""Servers of `servers/`, started from their `server.toml` as the lab starts them."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from trilane.lab.serving import targets

from .peer import Peer
from .process import MissingProgramError, Process

if TYPE_CHECKING:
    from collections.abc import Iterable


class Guarded(Process):
    """A server that the lab's guard has started, and ends."""

    def __init__(self, target: targets.Target, running: ExitStack) -> None:
        if target.pid is None or target.log is None:
            raise ValueError(f"{target.name} is not ours")
        self.name = target.name
        self.log = target.log
        self._pid = target.pid
        self._running = running

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._pid

    def signal(self, number: int) -> None:
        """Send a signal to the server alone."""
        os.kill(self._pid, number)

    def stop(self, patience_s: float = 5.0) -> None:  # noqa: ARG002 - its server.toml says how long
        """Ask it to end, then end it."""
        self._running.close()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        with suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self._running.close()


def start(
    name: str, folder: Path, *, cpus: Iterable[int] | None = None, hello: str = "/hello"
) -> Peer:
    """Start the server of that name with a state folder of its own, where its authority is."""
    if reason := targets.unavailable(name):
        raise MissingProgramError(name, reason)
    with ExitStack() as stack:
        target = stack.enter_context(
            targets.open_target(
                name,
                state=folder / "state",
                folder=folder,
                cpus=None if cpus is None else ",".join(map(str, cpus)),
                threads=1,
            )
        )
        if target.cacert is None:
            raise ValueError(f"{name} has no authority of its own")
        # By name, so that SNI is sent.
        bases = {
            "h1s" if version == "h1" and origin.startswith("https:") else version: origin.replace(
                "https://127.0.0.1", "https://localhost"
            )
            for version, origin in target.origins.items()
        }
        process = Guarded(target, stack.pop_all())
    return Peer(process, bases, Path(target.cacert), hello=hello)
