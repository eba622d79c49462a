"""The rows of the table: which work, beside which tool, with which goal."""

from __future__ import annotations

from dataclasses import dataclass

from .calls import GET_BOOK, Call


@dataclass(frozen=True)
class Row:
    """One comparison. The goal is the largest ratio of CPU per request, ours ÷ the peer's."""

    name: str
    peer: str
    server: str
    listener: str
    version: str
    connections: int
    streams: int
    body: int
    goal: float
    strict: bool = True
    call: Call | None = None

    @property
    def work(self) -> str:
        """The load in words."""
        security = " TLS" if self.listener in ("h1s", "h2") else ""
        shape = (
            f"{self.connections} × {self.streams}" if self.streams > 1 else f"{self.connections}"
        )
        what = size(self.body) if self.call is None else self.call.method.rpartition("/")[2]
        return f"{self.version}{security} {shape}, {what}"

    @property
    def target(self) -> str:
        """The goal in words; a body row only asks to stay ahead."""
        return f"≤ {self.goal:.2f}" if self.strict else f"< {self.goal:.2f}"

    def met(self, ratio: float) -> bool:
        """Whether a ratio is as good as the goal."""
        return ratio <= self.goal if self.strict else ratio < self.goal


def size(count: int) -> str:
    """Bytes as people write them."""
    return f"{count // 1024} KiB" if count >= 1024 else f"{count} B"


_HELLO = 11
ROWS = [
    Row("h1-wrk", "wrk", "nginx", "h1", "h1", 64, 1, _HELLO, 0.95),
    Row("h1-floor", "floor", "nginx", "h1", "h1", 64, 1, _HELLO, 1.08),
    Row("h1-tls", "wrk", "nginx", "h1s", "h1", 64, 1, _HELLO, 0.85),
    Row("h2c-100", "h2load", "nghttpd-plain", "h2c", "h2c", 8, 100, _HELLO, 0.40),
    Row("h2c-10", "h2load", "nghttpd-plain", "h2c", "h2c", 8, 10, _HELLO, 0.65),
    Row("h2-tls", "h2load", "nghttpd-tls", "h2", "h2", 8, 100, _HELLO, 0.40),
    Row("h3", "oha", "embedded", "h3", "h3", 8, 100, _HELLO, 0.25),
    # The server is grpc-go on its own HTTP/2 (servers/go-library).
    Row("grpc-ghz", "ghz", "grpc-go", "h2c", "h2c", 8, 100, 0, 0.05, call=GET_BOOK),
    Row("grpc-h2load", "h2load", "grpc-go", "h2c", "h2c", 8, 100, 0, 0.50, call=GET_BOOK),
    *(
        Row(
            f"{name}-{body // 1024}k",
            peer,
            server,
            listener,
            version,
            *shape,
            body,
            1.0,
            strict=False,
        )
        for body in (1024, 16 * 1024, 128 * 1024)
        for name, peer, server, listener, version, shape in (
            ("h1", "wrk", "nginx", "h1", "h1", (64, 1)),
            ("h1-tls", "wrk", "nginx", "h1s", "h1", (64, 1)),
            ("h2c", "h2load", "nghttpd-plain", "h2c", "h2c", (8, 100)),
            ("h2-tls", "h2load", "nghttpd-tls", "h2", "h2", (8, 100)),
            ("h3", "oha", "embedded", "h3", "h3", (8, 100)),
        )
    ),
]
