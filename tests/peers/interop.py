"""grpc-go's client and server of gRPC's interoperability tests, as `interop/go.mod` pins them.

The server offers no reflection: `schema` has what it serves.
"""

from __future__ import annotations

import functools
import subprocess
from typing import TYPE_CHECKING

from . import go_tool
from .peer import Peer, cleartext
from .process import Process, free_port, listens

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGE = "google.golang.org/grpc/interop"
SERVICE = "grpc.testing.TestService"


@functools.cache
def client() -> str:
    """Path of the client; raises `MissingProgramError` where Go cannot build it."""
    return go_tool.build("interop", f"{_PACKAGE}/client")


@functools.cache
def server() -> str:
    """Path of the server; raises `MissingProgramError` where Go cannot build it."""
    return go_tool.build("interop", f"{_PACKAGE}/server")


def schema(folder: Path) -> Path:
    """The file descriptor set of what the server serves."""
    done = subprocess.run(
        [go_tool.build("interop")], stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    found = folder / "interop.pb"
    found.write_bytes(done.stdout)
    return found


def start(folder: Path) -> Peer:
    """Start the server, with HTTP/2 and no TLS."""
    port = free_port()
    argv = [server(), "-port", str(port)]
    process = Process(argv, folder, ready=lambda: listens(port), name="interop")
    return Peer(process, {"h2c": cleartext(port)}, hello="")
