"""What `trilane load --grpc` sends, byte by byte: grpcio's own messages are the truth."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from peers.grpc_recorder import Call, recorder
from peers.grpc_schema import SERVICE, Schema

from .grpc_calls import IMPORT, LOOK_UP, PROTO_FLAGS, UNARY, WATCH, Calling, example, failed, grpc
from .loading import Run, load

if TYPE_CHECKING:
    from peers.running import Peers

MESSAGES: list[tuple[str, str, dict[str, object]]] = [
    ("GetBook", "GetBookRequest", {"name": "shelves/1/books/1"}),
    ("GetBook", "GetBookRequest", {"name": "Käse 🧀 \u0000"}),
    ("GetBook", "GetBookRequest", {}),
    (
        "CreateBook",
        "CreateBookRequest",
        {
            "parent": "shelves/1",
            "book": {
                "title": "T" * 300,
                "pages": -5,
                "read": True,
                "labels": ["", "a", "b" * 200],
                "edition": {"publisher": "P", "year": 1999, "format": 2},
            },
        },
    ),
    (
        "ListBooks",
        "ListBooksRequest",
        {"parent": "shelves/1", "filter": {"authors": ["x", "y"], "read": False}},
    ),
]


@pytest.fixture(scope="session")
def schema(descriptor_set: Path) -> Schema:
    return Schema(descriptor_set)


def one(calling: Calling, *arguments: str, path: str = "/", each: bool = False) -> Call:
    """The one call that a run of one call makes."""
    with recorder(each=each) as found:
        run: Run = load(
            *("--grpc", calling.name, "-b", calling.body, *PROTO_FLAGS, "--h2c", "-n", "1"),
            *("-c", "1", *arguments, found.server.base + path),
        )
    assert run.good["grpc"]["status"] == {"OK": 1}
    assert len(found.calls) == 1
    assert found.calls[0].ended
    return found.calls[0]


@pytest.mark.parametrize(
    ("mode", "method", "kind", "fields"),
    [("wire", *each) for each in MESSAGES] + [("codec", *MESSAGES[3])],
)
def test_messages_are_those_of_google(
    schema: Schema, mode: str, method: str, kind: str, fields: dict[str, object]
) -> None:
    call = one(Calling(method, "unary", (fields,), 1), "--grpc-mode", mode)
    wanted = schema.make(kind, **fields)
    ((flag, payload),) = call.messages
    assert flag == 0
    assert schema.type(kind).FromString(payload) == wanted
    assert payload == wanted.SerializeToString(deterministic=True)


def test_the_head_of_a_call() -> None:
    call = one(UNARY)
    assert call.field(":method") == "POST"
    assert call.field(":scheme") == "http"
    assert call.field(":path") == f"/{SERVICE}/GetBook"
    assert call.field("te") == "trailers"
    assert call.field("content-type") in ("application/grpc", "application/grpc+proto")
    assert (call.field("user-agent") or "").startswith("trilane")
    assert call.field("grpc-timeout") is None
    assert call.field("grpc-encoding") is None
    # Not among the fields of gRPC, and right in HTTP where it says the truth.
    assert call.field("content-length") in (None, str(len(call.content)))
    # Pseudo-fields first, then TE among the rest (PROTOCOL-HTTP2.md, "Requests").
    names = [name for name, _ in call.fields]
    assert all(name.startswith(":") for name in names[:4])
    assert all(name == name.lower() for name in names)


@pytest.mark.parametrize("path", ["/prefix", "/a/b/"])
def test_the_path_of_the_url_is_a_prefix(path: str) -> None:
    assert one(UNARY, path=path).field(":path") == f"{path.rstrip('/')}/{SERVICE}/GetBook"


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("1500500us", 1.5005), ("100h", 360_000.0)],
)
def test_a_deadline_on_the_wire(given: str, seconds: float) -> None:
    units = {"H": 3600, "M": 60, "S": 1, "m": 1e-3, "u": 1e-6, "n": 1e-9}
    # A short deadline may pass before the answer: the field is what matters.
    with recorder() as found:
        load(
            *("--grpc", UNARY.name, "-b", UNARY.body, *PROTO_FLAGS, "--h2c", "-n", "1"),
            *("-c", "1", "--deadline", given, found.server.base),
        )
    value = found.calls[0].field("grpc-timeout")
    assert value is not None
    assert value[-1] in units, value
    assert value[:-1].isdigit(), value
    assert len(value) <= 9, value
    assert int(value[:-1]) * units[value[-1]] == pytest.approx(seconds, rel=1e-6)


def test_metadata_is_sent_as_it_is_given() -> None:
    call = one(UNARY, "-H", "X-Token: a b", "-H", "x-blob-bin: AAEC/w==", "-H", "user-agent: me/1")
    assert call.field("x-token") == "a b"
    assert (call.field("x-blob-bin") or "").rstrip("=") == "AAEC/w"
    assert call.field("user-agent") == "me/1"


def test_compressed_messages(schema: Schema) -> None:
    fields = {"parent": "shelves/1", "book": {"labels": ["x" * 900] * 50}}
    for mode in ("wire", "codec"):
        call = one(Calling("CreateBook", "unary", (fields,), 1), "--gzip", "--grpc-mode", mode)
        assert call.field("grpc-encoding") == "gzip"
        assert "gzip" in (call.field("grpc-accept-encoding") or "").split(",")
        assert one(UNARY, "--grpc-mode", mode).field("grpc-accept-encoding") is None
        ((flag, payload),) = call.messages
        assert flag == 1
        assert len(payload) < 5000
        wanted = schema.make("CreateBookRequest", **fields)
        assert schema.type("CreateBookRequest").FromString(gzip.decompress(payload)) == wanted


@pytest.mark.parametrize(("given", "sent"), [(None, 3), ("7", 7)])
def test_the_messages_of_a_stream_are_taken_in_turn(
    schema: Schema, given: str | None, sent: int
) -> None:
    count = [] if given is None else ["--messages", given]
    kind = schema.type("CreateBookRequest")
    titles = [kind.FromString(payload).book.title for _, payload in one(IMPORT, *count).messages]
    assert titles == [f"New {n % 3}" for n in range(sent)]


def test_a_bidirectional_call_waits_for_each_response() -> None:
    with recorder(each=True, pause_s=0.02) as found:
        run = load(
            *("--grpc", LOOK_UP.name, "-b", LOOK_UP.body, *PROTO_FLAGS, "--h2c", "-n", "4"),
            *("-c", "1", "-m", "2", "--messages", "6", found.server.base),
        )
    assert run.good["grpc"]["messages"] == {"sent": 24, "received": 24}
    assert [call.early for call in found.calls] == [0] * 4
    assert [len(call.messages) for call in found.calls] == [6] * 4
    latency = run.good["grpc"]["message_latency"]
    assert latency["count"] == 24
    assert latency["p50"] >= 0.015


def test_a_server_streaming_call_sends_one_message() -> None:
    call = one(WATCH)
    assert len(call.messages) == 1
    assert call.content[5:] == call.messages[0][1]


def test_grpcio_sees_the_metadata_and_the_deadline(peers: Peers) -> None:
    peer = peers["grpc-python"]
    blob = ["-H", "x-blob-hex: 000102ff", "-n", "8", "-c", "1"]
    for encoded in ("AAEC/w==", "AAEC/w"):
        run = grpc(peer, "h2c", UNARY, *blob, "-H", f"x-blob-bin: {encoded}")
        assert run.good["grpc"]["status"] == {"OK": 8}
    wrong = failed(grpc(peer, "h2c", UNARY, *blob, "-H", "x-blob-bin: AAAA"))
    assert wrong["grpc"]["status"] == {"UNAUTHENTICATED": 8}
    assert "UNAUTHENTICATED" in example(wrong)
    near = ["-H", "x-timeout-below: 5", "-n", "8", "-c", "1"]
    assert grpc(peer, "h2c", UNARY, *near, "--deadline", "4s").good["requests"]["ok"] == 8
    far = failed(grpc(peer, "h2c", UNARY, *near, "--deadline", "60s"))
    assert far["grpc"]["status"] == {"UNAUTHENTICATED": 8}
    assert failed(grpc(peer, "h2c", UNARY, *near))["grpc"]["status"] == {"UNAUTHENTICATED": 8}


@pytest.mark.parametrize(("name", "mode"), [("grpc-python", "wire"), ("embedded", "codec")])
def test_other_servers_understand_gzip(peers: Peers, name: str, mode: str) -> None:
    big = {"parent": "shelves/9", "book": {"labels": ["x" * 1000] * 50}}
    calling = Calling("CreateBook", "unary", (big,), 1)
    run = grpc(
        *(peers[name], "h2c", calling, "-n", "8", "-c", "1", "--gzip", "--grpc-mode", mode),
        *("-H", "x-answer: gzip"),
    )
    report = run.good
    assert report["grpc"]["compressed"] is True
    assert report["grpc"]["status"] == {"OK": 8}
    assert report["bytes"]["body_sent"] < 8 * 5000
    if name == "grpc-python":
        assert report["bytes"]["body_received"] < 8 * 5000


def test_bodies_are_kept_apart_from_their_prefixes(peers: Peers) -> None:
    report = grpc(peers["grpc-python"], "h2c", UNARY, "-n", "8", "-c", "1").good
    payload = json.dumps(UNARY.messages[0])
    assert report["bytes"]["body_sent"] == 8 * (5 + len(payload) - len('{"name": ""}') + 2)
