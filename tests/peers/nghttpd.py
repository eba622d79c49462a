"""nghttpd, the server of nghttp2: h2 over TLS and h2c, one process for each."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from .peer import Peer, cleartext, documents, secure
from .process import HOST, Process, find, free_port, listens

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .authority import Leaf

HOW = "apt-get install nghttp2-server"


def start(
    folder: Path,
    leaf: Leaf | None,
    *,
    cpus: Iterable[int] | None = None,
    streams: int = 128,
    arguments: Iterable[str] = (),
) -> Peer:
    """Start it in `folder`, over TLS when given a leaf; `streams` is its concurrency limit."""
    program = find("nghttpd", HOW)
    port = free_port()
    argv = [program, "-a", HOST, "-d", str(documents(folder)), "-m", str(streams), "-n", "1"]
    argv += [*arguments, "--echo-upload"]
    if leaf is None:
        argv += ["--no-tls", str(port)]
    else:
        argv += [str(port), str(leaf.key), str(leaf.cert)]
    process = Process(argv, folder, ready=lambda: listens(port), name="nghttpd", cpus=cpus)
    bases = {"h2c": cleartext(port)} if leaf is None else {"h2": secure(port)}
    return Peer(process, bases, leaf.ca if leaf else None, upload="/hello", echoes=True)


def version() -> str:
    """As the program says it."""
    program = find("nghttpd", HOW)
    return subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=False
    ).stdout.strip()
