"""The library service as grpcio calls it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import grpc
import pytest

from peers.grpc_schema import Message, Schema
from peers.peer import Peer

PATIENCE_S = 60.0
# The others are held to the same as we are: a test that they fail is wrong.
SERVERS = [("embedded", "h2"), ("grpc-python", "h2c"), ("grpc-go", "h2"), ("gateway", "h2c")]
every_server = pytest.mark.parametrize(
    "library", SERVERS, ids=[f"{name}-{listener}" for name, listener in SERVERS], indirect=True
)


def address(peer: Peer, listener: str) -> str:
    """Host and port, as gRPC's tools want them."""
    return urlsplit(peer.bases[listener]).netloc


def credentials(peer: Peer) -> grpc.ChannelCredentials:
    """Trust in the peer's authority alone."""
    assert peer.ca is not None
    return grpc.ssl_channel_credentials(peer.ca.read_bytes())


@dataclass(frozen=True)
class Library:
    """A channel to a server."""

    schema: Schema
    channel: grpc.Channel
    address: str

    @classmethod
    @contextlib.contextmanager
    def open(cls, peer: Peer, listener: str, schema: Schema) -> Iterator[Library]:
        """Connect; leaving the context closes the channel."""
        where = address(peer, listener)
        # A channel of its own: those to one address would share a connection.
        options = [("grpc.use_local_subchannel_pool", 1)]
        with (
            grpc.insecure_channel(where, options=options)
            if listener == "h2c"
            else grpc.secure_channel(where, credentials(peer), options=options)
        ) as channel:
            yield cls(schema, channel, where)

    def stub(self, method: str) -> Callable[..., Any]:
        """What calls a method with messages."""
        return self.schema.stub(self.channel, method)

    def raw(self, path: str) -> Callable[..., Any]:
        """What calls a unary method with bytes."""
        stub: Callable[..., Any] = self.channel.unary_unary(path)
        return stub

    def ask(self, method: str, **fields: object) -> Message:
        """A unary call with the fields of its request."""
        kind = self.schema.methods()[method].input_type.name
        return self.stub(method)(self.schema.make(kind, **fields), timeout=PATIENCE_S)

    def refusal(self, method: str, **fields: object) -> tuple[grpc.StatusCode, str]:
        """Code and message of a unary call that must fail."""
        return refused(lambda: self.ask(method, **fields))

    def get(self, name: str) -> Message:
        """GetBook."""
        return self.ask("GetBook", name=name)

    def watch(self, timeout: float = PATIENCE_S, **fields: object) -> Any:
        """WatchBooks: its call, an iterator of messages."""
        request = self.schema.make("WatchBooksRequest", **fields)
        return self.stub("WatchBooks")(request, timeout=timeout)

    def look_up(self, names: Iterable[str], timeout: float = PATIENCE_S) -> Any:
        """LookUpBooks: its call, an iterator of books."""
        make = self.schema.make
        requests = (make("GetBookRequest", name=name) for name in names)
        return self.stub("LookUpBooks")(requests, timeout=timeout)

    def bring(self, requests: Iterable[dict[str, object]]) -> Message:
        """ImportBooks."""
        messages = (self.schema.make("CreateBookRequest", **request) for request in requests)
        return self.stub("ImportBooks")(messages, timeout=PATIENCE_S)


def refused(act: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    """Code and message with which a call ends."""
    with pytest.raises(grpc.RpcError) as caught:
        act()
    # The error of a call is the call; grpcio does not say so in its types.
    call: Any = caught.value
    return call.code(), call.details() or ""
