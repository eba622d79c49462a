"""Go's net/http: h1 and h2 on a TLS port, h1 and h2c on a cleartext one; built from `gonet/`.

It is not `servers/go`, as it does what no user of a lab asks for: a successor takes its ports on
SIGHUP, it demands client certificates, and answers with trailers, interim responses, GOAWAY and
content of unannounced length.
"""

from __future__ import annotations

import functools
import signal
from typing import TYPE_CHECKING

from . import go_tool
from .peer import Peer, cleartext, secure
from .process import HOST, Process, free_port, listens

if TYPE_CHECKING:
    from pathlib import Path

    from .authority import Leaf


@functools.cache
def program() -> str:
    """Path of the server; raises `MissingProgramError` where Go cannot build it."""
    return go_tool.build("gonet")


def start(
    folder: Path,
    leaf: Leaf,
    *,
    client_ca: Path | None = None,
    ech_name: str | None = None,
    ech_retry: bool = True,
) -> Peer:
    """Start it in `folder`; `client_ca` makes it demand a certificate of that authority.

    `ech_name` is the public name of Encrypted Client Hello, whose ECHConfigList is in `ech`;
    `ech_retry` says whether those who used another one get it.
    """
    plain, tls = free_port(), free_port()
    argv = [program(), "-plain", f"{HOST}:{plain}", "-tls", f"{HOST}:{tls}"]
    argv += ["-cert", str(leaf.cert), "-key", str(leaf.key)]
    if client_ca is not None:
        argv += ["-client-ca", str(client_ca)]
    if ech_name is not None:
        argv += ["-ech-name", ech_name, "-ech-list", str(folder / "ech")]
        argv += [f"-ech-retry={str(ech_retry).lower()}"]
    process = Process(argv, folder, ready=lambda: listens(plain) and listens(tls), name="gonet")
    bases = {"h1": cleartext(plain), "h2c": cleartext(plain), "h1s": secure(tls), "h2": secure(tls)}
    return Peer(process, bases, leaf.ca, upload="/echo", echoes=True)


def shut_down_and_succeed(peer: Peer) -> None:
    """End its connections gracefully (GOAWAY, Connection: close); a successor takes new ones."""
    peer.process.signal(signal.SIGHUP)
