"""What every peer looks like to a test: addresses by version, paths by purpose."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .process import HOST, Process

if TYPE_CHECKING:
    from pathlib import Path

HELLO = b"hello world"
SIZES = (1024, 16 * 1024, 128 * 1024, 1024 * 1024)


@dataclass
class Peer:
    """A running server.

    `bases` maps a name of a listener (`h1` cleartext, `h1s` over TLS, `h2`, `h2c`, `h3`) to its
    base URL; a listener that the program does not have is left out. `ca` is the certificate of the
    authority to trust, `upload` a path that takes a body, which it sends back where it `echoes`.
    """

    process: Process
    bases: dict[str, str] = field(default_factory=dict)
    ca: Path | None = None
    hello: str = "/hello"
    upload: str | None = None
    echoes: bool = False

    def url(self, listener: str, path: str | None = None) -> str:
        """Address of a path (default: 11 bytes of greeting) on a listener."""
        return self.bases[listener] + (self.hello if path is None else path)

    def stop(self) -> None:
        """End the server."""
        self.process.stop()


def cleartext(port: int) -> str:
    """Base URL of a port without TLS."""
    return f"http://{HOST}:{port}"


def secure(port: int) -> str:
    """Base URL of a port with TLS; by name, so that SNI is sent and the name is checked."""
    return f"https://localhost:{port}"


def documents(folder: Path) -> Path:
    """A folder of files to serve: `hello` and `bytes/N` for every one of `SIZES`."""
    root = folder / "htdocs"
    (root / "bytes").mkdir(parents=True, exist_ok=True)
    (root / "hello").write_bytes(HELLO)
    for size in SIZES:
        (root / "bytes" / str(size)).write_bytes(bytes(index * 31 % 251 for index in range(size)))
    return root
