"""The calls that the gRPC tests make: each kind of method, and what its report must say."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from peers.grpc_schema import FILE, PROTO, SERVICE
from peers.peer import Peer

from .loading import Report, Run, flag, load

PROTO_FLAGS = ("--proto", str(PROTO / FILE), "--proto-path", str(PROTO))
LISTENERS = {
    "embedded": ["h2c", "h2", "h3"],
    "grpc-go": ["h2c", "h2"],
    "grpc-go-http": ["h2c", "h2"],
    "grpc-python": ["h2c", "h2"],
    "gateway": ["h2c", "h2", "h3"],
}
PAIRS = [(name, listener) for name, listeners in LISTENERS.items() for listener in listeners]
PAIR_IDS = [f"{name}-{listener}" for name, listener in PAIRS]
# For what the engine decides, whatever the server: somebody else's over TCP, ours over QUIC.
each_version = pytest.mark.parametrize(
    ("name", "listener"), [("grpc-go", "h2c"), ("embedded", "h3")], ids=["h2c", "h3"]
)


@dataclass(frozen=True)
class Calling:
    """A method, the messages of one call as JSON, and how many messages go each way."""

    method: str
    kind: str
    messages: tuple[object, ...]
    received: int

    @property
    def name(self) -> str:
        """As `--grpc` takes it."""
        return f"{SERVICE}/{self.method}"

    @property
    def body(self) -> str:
        """The messages as `-b` takes them: one JSON value after the other."""
        return "\n".join(json.dumps(message) for message in self.messages)


UNARY = Calling("GetBook", "unary", ({"name": "shelves/3/books/9"},), 1)
WATCH = Calling("WatchBooks", "server_streaming", ({"parent": "shelves/3", "count": 7},), 7)
IMPORT = Calling(
    "ImportBooks",
    "client_streaming",
    tuple({"parent": "shelves/10", "book": {"title": f"New {n}"}} for n in range(3)),
    1,
)
LOOK_UP = Calling(
    "LookUpBooks",
    "bidi_streaming",
    tuple({"name": f"shelves/1/books/{n}"} for n in (1, 50, 100)),
    3,
)
KINDS = (UNARY, WATCH, IMPORT, LOOK_UP)


def grpc(
    peer: Peer,
    listener: str,
    calling: Calling,
    *arguments: str,
    source: tuple[str, ...] = PROTO_FLAGS,
    body: str | None = None,
) -> Run:
    """One `trilane load --grpc` against a peer, to its end."""
    return load(*command(peer, listener, calling, *arguments, source=source, body=body))


def command(
    peer: Peer,
    listener: str,
    calling: Calling,
    *arguments: str,
    source: tuple[str, ...] = PROTO_FLAGS,
    body: str | None = None,
) -> list[str]:
    """The arguments of such a load."""
    trust = [] if peer.ca is None or listener == "h2c" else ["--cacert", str(peer.ca)]
    return [
        *("--grpc", calling.name, "-b", calling.body if body is None else body, *source),
        *(flag(listener), *trust, *arguments, peer.bases[listener]),
    ]


def check_good(report: Report, listener: str, calling: Calling, count: int) -> None:
    """What a report of nothing but good calls says."""
    assert report["requests"]["ok"] == report["requests"]["started"] == count
    assert report["target"]["version"] == listener
    assert report["status"] == {"200": count}
    calls = report["grpc"]
    assert calls["method"] == calling.name
    assert calls["kind"] == calling.kind
    assert calls["status"] == {"OK": count}
    assert calls["messages"] == {
        "sent": count * len(calling.messages),
        "received": count * calling.received,
    }


def failed(run: Run, kind: str = "status") -> Report:
    """The report of a run in which every call failed, by that kind alone."""
    assert run.code == 4, run
    requests = run.checked["requests"]
    assert requests["ok"] == 0, requests
    assert set(requests["failures"]) == {kind}, requests
    assert run.checked["validity"]["verdict"] == "invalid"
    return run.checked


def example(report: Report, kind: str = "status") -> str:
    """The message of the first failure of a kind."""
    text: str = report["requests"]["failures"][kind]["example"]
    return text
