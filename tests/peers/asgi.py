"""Hypercorn: h1, h2 and h3 on one TLS port, h1 and h2c on a cleartext one; all in Python."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .peer import Peer, cleartext, secure
from .process import HOST, MissingProgramError, Process, free_port, listens

if TYPE_CHECKING:
    from .authority import Leaf


def start(folder: Path, leaf: Leaf) -> Peer:
    """Start it in `folder`, with the interpreter that runs this."""
    if importlib.util.find_spec("hypercorn") is None or importlib.util.find_spec("aioquic") is None:
        raise MissingProgramError("Hypercorn", "pip install 'hypercorn[h3]'")
    folder.mkdir(parents=True, exist_ok=True)
    plain, tls = free_port(), free_port()
    settings = {
        "bind": [f"{HOST}:{tls}"],
        "insecure_bind": [f"{HOST}:{plain}"],
        "quic_bind": [f"{HOST}:{tls}"],
        "certfile": str(leaf.cert),
        "keyfile": str(leaf.key),
        "alpn_protocols": ["h2", "http/1.1"],
        "keep_alive_timeout": 60,
    }
    # A string or a list of strings is written in TOML as in JSON.
    config = folder / "hypercorn.toml"
    config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
    process = Process(
        [sys.executable, "-m", "hypercorn", "--config", str(config), "hypercorn_app:app"],
        folder,
        ready=lambda: listens(plain) and listens(tls),
        name="hypercorn",
        env={"PYTHONPATH": str(Path(__file__).parent)},
    )
    bases = {"h1": cleartext(plain), "h2c": cleartext(plain)}
    bases |= dict.fromkeys(("h1s", "h2", "h3"), secure(tls))
    return Peer(process, bases, leaf.ca, upload="/echo", echoes=True)
