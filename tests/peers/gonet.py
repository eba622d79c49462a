"""Go's net/http: h1 and h2 on a TLS port, h1 and h2c on a cleartext one; built from `go/`.

It is not `servers/go`, as it does what no user of a lab asks for: a successor takes its ports on
SIGHUP, it demands client certificates, and answers with trailers, interim responses, GOAWAY and
content of unannounced length.
"""

from __future__ import annotations

import functools
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from trilane.lab.storage.store import locked

from .peer import Peer, cleartext, secure
from .process import HOST, Process, find, free_port, listens

if TYPE_CHECKING:
    from .authority import Leaf


# Kept outside the folders of a test run, for all processes of it.
_BUILT = Path(__file__).resolve().parents[2] / "build" / "gonet"


@functools.cache
def build() -> Path:
    """Compile the server, if it is not compiled yet."""
    go = find("go", "https://go.dev/dl, version 1.24 or newer")
    program = _BUILT / "gonet"
    # Go would write at the same time as another, who may run what it writes already.
    with locked(_BUILT / ".lock"):
        done = subprocess.run(
            [go, "build", "-o", str(program), "."],
            cwd=Path(__file__).parent / "go",
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise RuntimeError(f"go build: {done.stderr.strip()}")
    return program


def start(folder: Path, leaf: Leaf, *, client_ca: Path | None = None) -> Peer:
    """Start it in `folder`; `client_ca` makes it demand a certificate of that authority."""
    plain, tls = free_port(), free_port()
    argv = [str(build()), "-plain", f"{HOST}:{plain}", "-tls", f"{HOST}:{tls}"]
    argv += ["-cert", str(leaf.cert), "-key", str(leaf.key)]
    if client_ca is not None:
        argv += ["-client-ca", str(client_ca)]
    process = Process(argv, folder, ready=lambda: listens(plain) and listens(tls), name="gonet")
    bases = {"h1": cleartext(plain), "h2c": cleartext(plain), "h1s": secure(tls), "h2": secure(tls)}
    return Peer(process, bases, leaf.ca, upload="/echo", echoes=True)


def shut_down_and_succeed(peer: Peer) -> None:
    """End its connections gracefully (GOAWAY, Connection: close); a successor takes new ones."""
    peer.process.signal(signal.SIGHUP)
