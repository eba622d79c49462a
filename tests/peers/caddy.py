"""Caddy as `servers/caddy` has it: h1, h2 and h3 on one TLS port, h1 and h2c on a cleartext one.

The tests start it themselves, from that `server.toml`: the lab would wait for an answer that
certificates which are expired or of another name prevent, and serves its own content alone, to
which tests add files and codings.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trilane.lab.targets.target_config import fill

from . import shipped
from .peer import Peer, cleartext, documents, secure
from .process import Process, find, free_port, listens

if TYPE_CHECKING:
    from pathlib import Path

    from .authority import Leaf

_CONFIG = "caddy.json"


def start(folder: Path, leaf: Leaf, *, codings: tuple[str, ...] = ()) -> Peer:
    """Start it in `folder`.

    `codings` ("gzip", "zstd") are what it compresses files of text with, the first that fits.
    """
    server = shipped.require("caddy")
    folder.mkdir(parents=True, exist_ok=True)
    plain, tls = free_port(), free_port()
    values = {
        "bind": "127.0.0.1",
        "port": str(tls),
        "port2": str(plain),
        "cert": str(leaf.cert),
        "key": str(leaf.key),
        "www": str(documents(folder)),
        "work": str(folder),
        "threads": "2",
    }
    config = json.loads(fill((server.folder / _CONFIG).read_text(encoding="utf-8"), values))
    if codings:
        _compress(config, codings)
    (folder / _CONFIG).write_text(json.dumps(config, indent=2), encoding="utf-8")
    program, *arguments = (fill(word, values) for word in server.command)
    process = Process(
        [find(program, server.install or ""), *arguments],
        folder,
        ready=lambda: listens(plain) and listens(tls),
        name="caddy",
        env={name: fill(text, values) for name, text in server.environment.items()},
    )
    bases = {"h1": cleartext(plain), "h2c": cleartext(plain)}
    bases |= dict.fromkeys(("h1s", "h2", "h3"), secure(tls))
    # It answers there whatever the method.
    return Peer(process, bases, leaf.ca, upload="/hello")


def _compress(config: Any, codings: tuple[str, ...]) -> None:
    encodings: dict[str, object] = {coding: {} for coding in codings}
    encode = {"handler": "encode", "encodings": encodings, "prefer": list(codings)}
    for server in config["apps"]["http"]["servers"].values():
        server["routes"].insert(0, {"handle": [encode]})
