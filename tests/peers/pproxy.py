"""pproxy as a proxy: SOCKS 5, or HTTP by CONNECT over TLS."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Self

from .authority import Leaf
from .process import HOST, Process, free_port, listens

# Its command expects that a loop is there, and takes uvloop where it is installed.
_MAIN = """
import asyncio, sys
sys.modules["uvloop"] = None
asyncio.set_event_loop(asyncio.new_event_loop())
from pproxy.server import main
main()
"""


class Proxy:
    """One that runs, and what it was asked for. Leaving the context stops it."""

    def __init__(
        self, folder: Path, scheme: str, *, user: str | None = None, leaf: Leaf | None = None
    ) -> None:
        """`scheme` is pproxy's; `user` is `name:password`, and `leaf` what TLS shows."""
        self.port = free_port()
        url = f"{scheme}://{HOST}:{self.port}" + (f"#{user}" if user else "")
        security = ["--ssl", f"{leaf.cert},{leaf.key}"] if leaf else []
        self._process = Process(
            # Without `--auth 0` it remembers for a month whom it has let in.
            [sys.executable, "-c", _MAIN, "-l", url, "-v", "--auth", "0", *security],
            folder,
            ready=lambda: listens(self.port),
            name="pproxy",
            env={"PYTHONUNBUFFERED": "1"},
        )

    @property
    def asked(self) -> str:
        """What it has written about what it was asked for."""
        return self._process.log.read_text(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()
