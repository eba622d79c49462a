"""Python's grpcio as a server of the library: h2c on one port, h2 over TLS on another."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .peer import Peer, cleartext, secure
from .process import HOST, MissingProgramError, Process, free_port, listens

if TYPE_CHECKING:
    from .authority import Leaf


def start(
    folder: Path, leaf: Leaf, *, reflection: str = "v1,v1alpha", port: int | None = None
) -> Peer:
    """Start it; `reflection` names the versions of server reflection it has, or is empty.

    `port` is where it listens without TLS; None: where there is room.
    """
    if importlib.util.find_spec("grpc") is None:
        raise MissingProgramError("grpcio", "pip install -r requirements/test.txt")
    plain, tls = port or free_port(), free_port()
    argv = [sys.executable, "-m", "peers.grpc_python_app"]
    argv += ["--plain", f"{HOST}:{plain}", "--tls", f"{HOST}:{tls}"]
    argv += ["--cert", str(leaf.cert), "--key", str(leaf.key), f"--reflection={reflection}"]
    argv += ["--state", str(folder)]
    process = Process(
        argv,
        folder,
        ready=lambda: listens(plain) and listens(tls),
        name="grpc-python",
        env={
            "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
            # The classes of messages written in C are shared by threads unsafely: one that the
            # garbage collector takes apart is handed to another thread, which crashes the process.
            "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python",
        },
    )
    return Peer(process, {"h2c": cleartext(plain), "h2": secure(tls)}, leaf.ca, hello="")
