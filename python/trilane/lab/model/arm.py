"""One column of a comparison: client x version x strategy x session x server x network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeAlias

from msgspec import Meta, field

from trilane.lab.model.record import Positive, Record, Text, Version

VERSIONS: tuple[Version, ...] = ("h1", "h2", "h2c", "h3")
TITLES: dict[str, str] = {
    "h1": "HTTP/1.1",
    "h2": "HTTP/2",
    "h2c": "HTTP/2 (cleartext)",
    "h3": "HTTP/3",
}
ENGINE = "engine"
"""The client that is our own load engine; `trilane` is the Python client."""
COMMAND = "command"
"""The client that is a command of the user's, timed from outside."""
EMBEDDED = "embedded"
"""The server that is our own."""
ArmName: TypeAlias = Text
# What an arm of a call can say, and what it means.
MESSAGES = {
    "json": "JSON",
    "protobuf": "protobuf",
    "grpc": "gRPC",
    "grpc-web": "gRPC-Web",
}
GRPC_MODES = {
    "wire": "the request is encoded once, responses are not decoded",
    "codec": "every request is encoded and every response decoded",
}


def _one_of(words: Iterable[str]) -> Meta:
    """A schema's list of the words; null is none of them."""
    return Meta(extra_json_schema={"enum": [*words, None]})


class Arm(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One column of a comparison."""

    name: ArmName
    """Name in commands and in other members; in a race, the HTTP version."""
    title: str
    """Name for people, such as `HTTP/2`."""
    version: Version
    """HTTP version; of a command that is timed from outside it says nothing."""
    client: str = ENGINE
    """`engine` for our load engine, `command` for a command that is timed from outside, or a client
    under test.
    """
    strategy: str = "load"
    """How requests are kept in flight: `load` in a race."""
    session: bool | None = None
    """Whether connections are kept between requests; null where there is no choice."""
    server: str | None = None
    """Server that we started; null when the target is somebody else's."""
    network: str = "direct"
    """`direct`, or the emulated network."""
    connections: Positive | None = None
    """Connections; null where the client decides."""
    streams: Positive | None = None
    """Requests in flight on each connection; null where the client decides."""
    in_flight: Positive | None = None
    """Most requests under way at once."""
    message: Annotated[str | None, _one_of(MESSAGES)] = None
    """What the messages of a call are written as; null where no service is called."""
    mode: Annotated[str | None, _one_of(GRPC_MODES)] = None
    """gRPC: `codec` where every message is encoded and decoded, `wire` where none is; null for the
    engine's default.
    """
    tls: bool = True
    """False: HTTP/1.1 without TLS."""
    flags: list[Text] = field(default_factory=list)
    """Further flags of `trilane load`."""
    server_flags: list[Text] = field(default_factory=list)
    """Further flags of `trilane serve`, or of `go test -c` where the arm is a benchmark of Go's."""
    congestion_control: Text | None = None
    """How both ends of the network send, over TCP and QUIC; null where the arm does not say it."""

    @property
    def is_alone(self) -> bool:
        """Whether its runs have a network interface to themselves, as in an emulated network."""
        return self.network != "direct"
