"""Where `trilane load --grpc` learns what a method takes, and what it says when it cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from peers import grpc_python
from peers.authority import Authority
from peers.grpc_schema import FILE, PROTO, SERVICE
from peers.peer import Peer

from .grpc_calls import (
    IMPORT,
    KIND_IDS,
    KINDS,
    LISTENERS,
    LOOK_UP,
    PAIR_IDS,
    PAIRS,
    PROTO_FLAGS,
    UNARY,
    WATCH,
    Calling,
    check_good,
    grpc,
)
from .loading import Run, load_text

if TYPE_CHECKING:
    from peers.running import Peers

Own = Callable[[Callable[[Path], Peer]], Peer]
NOWHERE = "http://127.0.0.1:9/"
every_kind = pytest.mark.parametrize("calling", KINDS, ids=KIND_IDS)


def said(method: str, body: str, *arguments: str, code: int = 2) -> str:
    """The one line with which a command that is wrong ends, before anything was sent."""
    run = load_text("--grpc", method, "-b", body, "--h2c", *arguments, NOWHERE)
    assert run.code == code, run
    assert run.out == ""
    return run.message


@every_kind
def test_from_proto_files(peers: Peers, calling: Calling) -> None:
    report = grpc(peers["grpc-python"], "h2c", calling, "-n", "8", "-c", "1").good
    check_good(report, "h2c", calling, 8)
    assert report["grpc"]["schema"] == "--proto"


@every_kind
def test_from_a_descriptor_set_of_protoc(
    peers: Peers, calling: Calling, descriptor_set: Path
) -> None:
    source = ("--descriptor-set", str(descriptor_set))
    run = grpc(peers["grpc-python"], "h2c", calling, "-n", "8", "-c", "1", source=source)
    check_good(run.good, "h2c", calling, 8)
    assert run.good["grpc"]["schema"] == "--descriptor-set"


@pytest.mark.parametrize(("name", "listener"), PAIRS, ids=PAIR_IDS)
@every_kind
def test_by_reflection(peers: Peers, name: str, listener: str, calling: Calling) -> None:
    run = grpc(peers[name], listener, calling, "-n", "8", "-c", "1", source=())
    check_good(run.good, listener, calling, 8)
    assert run.good["grpc"]["schema"] == "reflection v1"


@pytest.mark.parametrize("listener", LISTENERS["grpc-python"])
def test_by_reflection_of_the_older_version(own: Own, authority: Authority, listener: str) -> None:
    peer = own(lambda folder: grpc_python.start(folder, authority.local(), reflection="v1alpha"))
    run = grpc(peer, listener, UNARY, "-n", "8", "-c", "1", source=())
    check_good(run.good, listener, UNARY, 8)
    assert run.good["grpc"]["schema"] == "reflection v1alpha"


def test_a_server_without_reflection(own: Own, authority: Authority) -> None:
    peer = own(lambda folder: grpc_python.start(folder, authority.local(), reflection=""))
    run = load_text("--grpc", UNARY.name, "-b", UNARY.body, "--h2c", peer.bases["h2c"])
    assert run.code in (1, 2), run
    assert "reflection" in run.message
    assert "--proto" in run.message
    assert "--descriptor-set" in run.message


@pytest.mark.parametrize("name", ["nghttpd-plain", "caddy"])
def test_a_server_that_is_no_grpc_server(peers: Peers, name: str) -> None:
    run = load_text("--grpc", UNARY.name, "-b", UNARY.body, "--h2c", peers[name].bases["h2c"])
    assert run.code in (1, 2), run
    assert "gRPC" in run.message or "reflection" in run.message
    assert "--proto" in run.message


def test_nobody_to_ask() -> None:
    run = load_text("--grpc", UNARY.name, "-b", UNARY.body, "--h2c", NOWHERE)
    assert run.code == 1, run
    assert "refused" in run.message


def test_reflection_of_a_method_that_is_not_there(peers: Peers) -> None:
    for name in LISTENERS:
        base = peers[name].bases["h2c"]
        near = load_text("--grpc", f"{SERVICE}/GetBok", "-b", "{}", "--h2c", base)
        assert near.code == 2, near
        assert "GetBook" in near.message
        unknown = load_text("--grpc", "no.such.Service/Method", "-b", "{}", "--h2c", base)
        assert unknown.code == 2, unknown
        assert SERVICE in unknown.message


def test_the_name_of_a_method_may_have_a_dot(peers: Peers) -> None:
    dotted = Calling("GetBook", "unary", UNARY.messages, 1)
    run = load_text(
        *("--grpc", f"{SERVICE}.GetBook", "-b", dotted.body, "--h2c", "-n", "4", "-c", "1"),
        peers["embedded"].bases["h2c"],
    )
    assert run.code == 0, run
    assert UNARY.name in run.out


def test_an_import_is_found_beside_the_file(peers: Peers, tmp_path: Path) -> None:
    # `--proto-path` left out: the folder of the file, as protoc has it.
    (tmp_path / "one.proto").write_text(
        'syntax = "proto3"; package trilane.library.v1; import "two.proto";'
        " service Library { rpc GetBook(GetBookRequest) returns (Book); }"
    )
    (tmp_path / "two.proto").write_text(
        'syntax = "proto3"; package trilane.library.v1;'
        " message GetBookRequest { string name = 1; } message Book { string name = 1; }"
    )
    source = ("--proto", str(tmp_path / "one.proto"))
    run = grpc(peers["embedded"], "h2c", UNARY, "-n", "8", "-c", "1", source=source)
    check_good(run.good, "h2c", UNARY, 8)


def test_several_proto_files(peers: Peers) -> None:
    source = (*PROTO_FLAGS, "--proto", str(PROTO / "google/api/http.proto"))
    run = grpc(peers["embedded"], "h2c", UNARY, "-n", "8", "-c", "1", source=source)
    check_good(run.good, "h2c", UNARY, 8)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (f"{SERVICE}/GetBok", ["GetBok", "GetBook"]),
        (f"{SERVICE}/", ["GetBook"]),
        (f"{SERVICE}", [SERVICE]),
        ("trilane.library.v1.Libary/GetBook", [SERVICE]),
        ("other.Service/GetBook", ["other.Service", SERVICE]),
        ("trilane.library.v1.Book/GetBook", [SERVICE]),
        ("", ["--grpc"]),
        ("/", [SERVICE]),
    ],
)
def test_a_method_that_is_not_there(method: str, words: list[str]) -> None:
    message = said(method, "{}", *PROTO_FLAGS)
    for word in words:
        assert word in message, message


def test_files_that_are_wrong(tmp_path: Path, descriptor_set: Path) -> None:
    def about(flag: str, file: Path) -> str:
        message = said(UNARY.name, "{}", flag, str(file), code=1)
        assert flag in message
        return message

    for flag in ("--proto", "--descriptor-set"):
        assert "/nowhere/file" in about(flag, Path("/nowhere/file"))
    bad = tmp_path / "bad.proto"
    bad.write_text('syntax = "proto3";\nmessage Book { strin name = 1 }\n')
    assert "bad.proto:2:" in about("--proto", bad)
    alone = tmp_path / "alone.proto"
    known = (PROTO / FILE).read_text()
    alone.write_text(known.replace("google/protobuf/empty", "somewhere/else"))
    assert "somewhere/else" in about("--proto", alone)
    cut = tmp_path / "cut.pb"
    cut.write_bytes(descriptor_set.read_bytes()[:-7])
    assert "cut.pb" in about("--descriptor-set", cut)
    empty = tmp_path / "empty.pb"
    empty.write_bytes(b"")
    assert "empty.pb" in about("--descriptor-set", empty)
    # A text that somebody gave for a binary.
    assert "library.proto" in about("--descriptor-set", PROTO / FILE)


CREATE = f"{SERVICE}/CreateBook"
MISFITS: list[tuple[str, str, list[str]]] = [
    (UNARY.name, '{"name": 5}', ["name", "5"]),
    (UNARY.name, '{"nme": "shelves/1/books/1"}', ["nme", "name"]),
    (UNARY.name, '{"name": "a"', ["JSON"]),
    (UNARY.name, '{"name": "a",}', ["JSON"]),
    (UNARY.name, "[]", []),
    (UNARY.name, "7", []),
    (UNARY.name, '"shelves/1/books/1"', []),
    (UNARY.name, '{"name": {"a": 1}}', ["name"]),
    (CREATE, '{"book": {"pages": "many"}}', ["book.pages", "many"]),
    (CREATE, '{"book": {"pages": 2147483648}}', ["book.pages", "2147483648"]),
    (CREATE, '{"book": {"pages": 1.5}}', ["book.pages", "1.5"]),
    (CREATE, '{"book": {"read": "yes"}}', ["book.read"]),
    (CREATE, '{"book": {"edition": {"format": "VINYL"}}}', ["book.edition.format", "VINYL"]),
    (CREATE, '{"book": {"edition": {"publishr": "x"}}}', ["publishr", "publisher"]),
    (CREATE, '{"book": {"labels": ["a", 5]}}', ["labels", "5"]),
    (CREATE, '{"book": {"labels": "a"}}', ["labels"]),
    (CREATE, '{"book": "a"}', ["book"]),
    (WATCH.name, '{"parent": "shelves/1", "interval": "soon"}', ["interval", "soon"]),
    (LOOK_UP.name, '{"name": "a"} {"name": 5}', ["name", "5", "2"]),
    (IMPORT.name, '{"book": {}} {} {"bok": {}}', ["bok", "book", "3"]),
]


@pytest.mark.parametrize(("method", "body", "words"), MISFITS, ids=[m[1] for m in MISFITS])
def test_json_that_does_not_fit(method: str, body: str, words: list[str]) -> None:
    message = said(method, body, *PROTO_FLAGS)
    for word in words:
        assert word in message, message
    assert "-b" in message or "message" in message, message


FITS: list[tuple[str, str]] = [
    (UNARY.name, ""),
    (UNARY.name, "{}"),
    (UNARY.name, '  {"name"\n: "shelves/1/books/1"} '),
    (CREATE, '{"book": {"pages": "12", "edition": {"format": 2, "year": 1.0e3}}}'),
    (CREATE, '{"book": {"edition": {"format": "PAPERBACK"}, "labels": []}}'),
    (CREATE, '{"book": null}'),
    (f"{SERVICE}/ListBooks", '{"page_size": 3, "filter": {"minPages": 4, "read": false}}'),
    (f"{SERVICE}/ListBooks", '{"pageSize": 3, "filter": {"min_pages": 4}}'),
    (f"{SERVICE}/UpdateBook", '{"book": {"name": "shelves/1/books/1"}, "updateMask": "title"}'),
    (WATCH.name, '{"parent": "shelves/1", "interval": "0.5s"}'),
    (LOOK_UP.name, '{"name": "a"}{"name": "b"}\n\n{"name": "c"}'),
]


@pytest.mark.parametrize(("method", "body"), FITS, ids=[f"{m[1]!r}" for m in FITS])
def test_json_that_fits(method: str, body: str) -> None:
    # The port is refused, so the message was accepted.
    run: Run = load_text("--grpc", method, "-b", body, "--h2c", *PROTO_FLAGS, NOWHERE)
    assert run.code == 1, run
    assert "refused" in run.message


def test_messages_from_a_file(peers: Peers, tmp_path: Path) -> None:
    given = tmp_path / "messages.json"
    given.write_text(LOOK_UP.body)
    run = grpc(peers["embedded"], "h2c", LOOK_UP, "-n", "8", "-c", "1", body=f"@{given}")
    check_good(run.good, "h2c", LOOK_UP, 8)
    given.write_text('{"name": 5}')
    message = said(UNARY.name, f"@{given}", *PROTO_FLAGS)
    assert "name" in message
