"""Caddy: h1, h2 and h3 on one TLS port, h1 and h2c on a cleartext one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .peer import Peer, cleartext, documents, secure
from .process import HOST, Process, find, free_port, listens

if TYPE_CHECKING:
    from pathlib import Path

    from .authority import Leaf


def start(
    folder: Path,
    leaf: Leaf,
    *,
    versions: tuple[str, ...] = ("h1", "h2", "h3"),
    codings: tuple[str, ...] = (),
) -> Peer:
    """Start it in `folder`; `versions` are those of the TLS port.

    `codings` ("gzip", "zstd") are what it compresses files of text with, the first that fits.
    """
    program = find("caddy", "apt-get install caddy")
    folder.mkdir(parents=True, exist_ok=True)
    plain, tls = free_port(), free_port()
    routes = [
        {"match": [{"path": ["/hello", "/upload"]}], "handle": [_respond("hello world")]},
        {"handle": [{"handler": "file_server", "root": str(documents(folder))}]},
    ]
    if codings:
        encodings: dict[str, object] = {coding: {} for coding in codings}
        encode = {"handler": "encode", "encodings": encodings, "prefer": list(codings)}
        routes.insert(0, {"handle": [encode]})
    config = {
        "admin": {"disabled": True},
        "storage": {"module": "file_system", "root": str(folder / "storage")},
        "logging": {"logs": {"default": {"level": "WARN"}}},
        "apps": {
            "tls": {
                "certificates": {
                    "load_files": [{"certificate": str(leaf.cert), "key": str(leaf.key)}]
                }
            },
            "http": {
                "servers": {
                    "plain": {
                        "listen": [f"{HOST}:{plain}"],
                        "protocols": ["h1", "h2c"],
                        "automatic_https": {"disable": True},
                        "routes": routes,
                    },
                    "tls": {
                        "listen": [f"{HOST}:{tls}"],
                        "protocols": list(versions),
                        "automatic_https": {"disable": True},
                        "tls_connection_policies": [{"default_sni": "localhost"}],
                        "routes": routes,
                    },
                }
            },
        },
    }
    path = folder / "caddy.json"
    path.write_text(json.dumps(config, indent=2))
    process = Process(
        [program, "run", "--config", str(path)],
        folder,
        ready=lambda: listens(plain) and listens(tls),
        name="caddy",
        env={"XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "HOME": str(folder)},
    )
    bases = {"h1": cleartext(plain), "h2c": cleartext(plain)}
    bases |= {"h1s" if version == "h1" else version: secure(tls) for version in versions}
    return Peer(process, bases, leaf.ca, upload="/upload")


def _respond(body: str) -> dict[str, object]:
    return {"handler": "static_response", "status_code": 200, "body": body}
