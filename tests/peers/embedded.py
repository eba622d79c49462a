"""The embedded server, `trilane serve`: h1 and h2c on one port; h1, h2 and h3 on another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .peer import Peer
from .process import Process

if TYPE_CHECKING:
    from collections.abc import Sequence


def start(
    program: str | Sequence[str],
    folder: Path,
    *,
    streams: int | None = None,
    ports: tuple[int, int] = (0, 0),
    early_data: bool = False,
    gateway_to: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> Peer:
    """Start it with a state folder of its own, where it makes its own authority.

    `program` is the native program, or the words that stand for it; `streams` is how many it allows
    at one time on a connection of HTTP/2 or HTTP/3, `ports` those without and with TLS, 0 for any;
    `early_data` makes it take requests in early data. `gateway_to` has it serve the services of
    gRPC servers at these URLs, and nothing of its own; `flags` are more of the command's.
    """
    argv = [program] if isinstance(program, str) else list(program)
    plain, tls = map(str, ports)
    argv += ["gateway" if gateway_to else "serve", "--port", plain, "--tls-port", tls, "-t", "1"]
    argv += ["--state", str(folder / "state"), "--format", "json"]
    if streams is not None:
        argv += ["--h2-streams", str(streams)]
    argv += ["--early-data"] * early_data
    for url in gateway_to:
        argv += ["--upstream", url]
    argv += flags
    log = folder / "embedded.log"
    process = Process(argv, folder, ready=lambda: bool(_ready(log)), name="embedded")
    ready = _ready(log)
    # By name, so that SNI is sent.
    https = ready["https"].replace("127.0.0.1", "localhost")
    bases = {"h1": ready["http"], "h2c": ready["http"]}
    bases |= dict.fromkeys(("h1s", "h2", "h3"), https)
    return Peer(process, bases, Path(ready["cacert"]), upload="/echo", echoes=True)


def _ready(log: Path) -> dict[str, Any]:
    """Its ready line; empty until it is there."""
    for line in log.read_text().splitlines():
        if line.startswith("{") and line.endswith("}"):
            found: dict[str, Any] = json.loads(line)
            if found.get("ready"):
                return found
    return {}
