"""Go's gRPC servers of the library, from `servers/go-library`: grpc-go alone and under net/http."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from .peer import Peer, cleartext, secure
from .process import MissingProgramError, Process, find, free_port, listens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .authority import Leaf

_ROOT = Path(__file__).resolve().parents[2]
_MODULE = _ROOT / "servers" / "go-library"
_PATIENCE_S = 900


def build() -> Path:
    """Compile the program; Go does nothing when it is up to date."""
    go = find("go", "https://go.dev/dl, version 1.26 or newer")
    program = _ROOT / "build" / "go-library" / "go-library"
    program.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=_MODULE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE_S,
    )
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise MissingProgramError("go-library", f"go build in servers/go-library: {reason[0]}")
    return program


def start(
    folder: Path, leaf: Leaf, *, implementation: str = "grpc", cpus: Iterable[int] | None = None
) -> Peer:
    """Start it as `grpc` (its own HTTP/2) or `grpc-http` (the one of net/http)."""
    tls, plain = free_port(), free_port()
    argv = [str(build()), "-impl", implementation, "-port", str(tls), "-plain", str(plain)]
    argv += ["-cert", str(leaf.cert), "-key", str(leaf.key)]
    process = Process(
        argv,
        folder,
        ready=lambda: listens(tls) and listens(plain),
        name=implementation,
        cpus=cpus,
    )
    return Peer(process, {"h2c": cleartext(plain), "h2": secure(tls)}, leaf.ca, hello="")
