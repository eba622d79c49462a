"""An ASGI application of the tests' own under Hypercorn: TCP and QUIC, with and without TLS."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .process import HOST, Process, free_port, listens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TESTS = Path(__file__).resolve().parents[1]


@contextmanager
def serving(
    module: str,
    folder: Path,
    *,
    cert: Path,
    key: Path,
    alpn: Sequence[str],
    requests: int = 1000,
    streams: int = 100,
) -> Iterator[tuple[int, int]]:
    """Run the `app` of a module in `folder`: its port with TLS and QUIC, and that without.

    It ends each connection after so many `requests`, and allows so many `streams` at a time on one
    of HTTP/2; both are what Hypercorn does by itself.
    """
    secure, plain = free_port(), free_port()
    settings = {
        "bind": [f"{HOST}:{secure}"],
        "quic_bind": [f"{HOST}:{secure}"],
        "insecure_bind": [f"{HOST}:{plain}"],
        "certfile": str(cert),
        "keyfile": str(key),
        "alpn_protocols": list(alpn),
        "graceful_timeout": 0,
        "keep_alive_max_requests": requests,
        "h2_max_concurrent_streams": streams,
    }
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "hypercorn.toml"
    # What is among them is written in TOML as in JSON.
    config.write_text(
        "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    )
    with Process(
        [sys.executable, "-m", "hypercorn", "--config", str(config), f"{module}:app"],
        folder,
        ready=lambda: listens(secure) and listens(plain),
        name=module.rpartition(".")[2],
        env={"PYTHONPATH": str(_TESTS)},
    ):
        yield secure, plain
