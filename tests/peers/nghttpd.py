"""nghttpd, the server of nghttp2: h2 over TLS and h2c, one process for each.

It is not `servers/nghttpd`, as tests ask for fewer streams and for what they sent to come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .peer import Peer, cleartext, documents, secure
from .process import HOST, Process, find, free_port, listens

if TYPE_CHECKING:
    from pathlib import Path

    from .authority import Leaf


def start(
    folder: Path,
    leaf: Leaf | None,
    *,
    streams: int = 128,
) -> Peer:
    """Start it in `folder`, over TLS when given a leaf; `streams` is its concurrency limit."""
    program = find("nghttpd", "apt-get install nghttp2-server")
    port = free_port()
    argv = [program, "-a", HOST, "-d", str(documents(folder)), "-m", str(streams), "-n", "1"]
    argv += ["--echo-upload"]
    if leaf is None:
        argv += ["--no-tls", str(port)]
    else:
        argv += [str(port), str(leaf.key), str(leaf.cert)]
    process = Process(argv, folder, ready=lambda: listens(port), name="nghttpd")
    bases = {"h2c": cleartext(port)} if leaf is None else {"h2": secure(port)}
    return Peer(process, bases, leaf.ca if leaf else None, upload="/hello", echoes=True)
