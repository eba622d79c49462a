"""The embedded server, `trilane serve`: h1 and h2c on one port; h1, h2 and h3 on another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .peer import Peer, cleartext, secure
from .process import HOST, Process, free_port, listens

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def start(
    program: str, folder: Path, *, cpus: Iterable[int] | None = None, threads: int = 1
) -> Peer:
    """Start it with a state folder of its own, where it leaves its authority's certificate."""
    plain, tls = free_port(), free_port()
    argv = [program, "serve", "--port", str(plain), "--tls-port", str(tls), "--bind", HOST]
    argv += ["-t", str(threads)]
    process = Process(
        argv,
        folder,
        ready=lambda: listens(plain) and listens(tls),
        name="embedded",
        env={"XDG_STATE_HOME": str(folder)},
        cpus=cpus,
    )
    bases = {"h1": cleartext(plain), "h2c": cleartext(plain)}
    bases |= dict.fromkeys(("h1s", "h2", "h3"), secure(tls))
    return Peer(process, bases, upload="/echo", echoes=True)
