"""Servers of `servers/`, started from their `server.toml` as the lab starts them."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from trilane.lab.processes import launch
from trilane.lab.targets import running

from .peer import Peer
from .process import MissingProgramError, Process

if TYPE_CHECKING:
    from trilane.lab.targets.target_config import ServerConfig

    from .authority import Leaf


class Guarded(Process):
    """A server that the lab's guard has started, and ends."""

    def __init__(self, target: running.Target, running: ExitStack) -> None:
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


def require(name: str) -> ServerConfig:
    """What is known of the server of that name, all of whose programs are here."""
    config = running.find(name)
    for program in config.requires:
        if launch.find_program(program) is None:
            raise MissingProgramError(program, config.install or f"{name} needs it")
    return config


def start(
    name: str,
    folder: Path,
    *,
    leaf: Leaf | None = None,
    hello: str = "/hello",
    echo: str | None = None,
) -> Peer:
    """Start the server of that name with a state folder of its own.

    Its certificate is `leaf`, or of an authority that is made there. `hello` and `echo` are paths.
    """
    require(name)
    state = folder / "state"
    if leaf is not None:
        _certify(state, leaf)
    with ExitStack() as stack:
        target = stack.enter_context(
            running.open_target(
                name,
                state=state,
                folder=folder,
                cpus=None,
                threads=1,
            )
        )
        if target.cacert is None:
            raise ValueError(f"{name} has no authority of its own")
        ca = Path(target.cacert)
        if leaf is not None and ca.read_bytes() != leaf.ca.read_bytes():
            raise ValueError(f"{leaf.cert} was not accepted as the certificate of the state folder")
        process = Guarded(target, stack.pop_all())
    # The lab's h1 is over TLS; a server with h1 and h2c takes both on its port without.
    bases = dict(target.origins)
    if "h1" in bases:
        bases["h1s"] = bases.pop("h1")
    if "h2c" in bases and "h1s" in bases:
        bases["h1"] = bases["h2c"]
    # By name, so that SNI is sent.
    bases = {
        listener: origin.replace("https://127.0.0.1", "https://localhost")
        for listener, origin in bases.items()
    }
    return Peer(process, bases, ca, hello=hello, upload=echo, echoes=echo is not None)


def _certify(state: Path, leaf: Leaf) -> None:
    """Put the authority and its certificate where the embedded server keeps those it makes."""
    state.mkdir(parents=True, mode=0o700)
    for source, name in (
        (leaf.ca, "ca.pem"),
        (leaf.ca.with_suffix(".key"), "ca-key.pem"),
        (leaf.cert, "cert.pem"),
        (leaf.key, "key.pem"),
    ):
        shutil.copy(source, state / name)
