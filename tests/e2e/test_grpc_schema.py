"""Where `trilane load --grpc` learns what a method takes, and what it says when it cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from peers import grpc_python
from peers.authority import Authority
from peers.grpc_schema import SERVICE
from peers.peer import Peer

from .grpc_calls import (
    LISTENERS,
    LOOK_UP,
    PROTO_FLAGS,
    UNARY,
    Calling,
    check_good,
    grpc,
)
from .loading import load_text

if TYPE_CHECKING:
    from peers.running import Peers

Own = Callable[[Callable[[Path], Peer]], Peer]
NOWHERE = "http://127.0.0.1:9/"


def said(method: str, body: str, *arguments: str, code: int = 2) -> str:
    """The one line with which a command that is wrong ends, before anything was sent."""
    run = load_text("--grpc", method, "-b", body, "--h2c", *arguments, NOWHERE)
    assert run.code == code, run
    assert run.out == ""
    return run.message


def test_from_a_descriptor_set_of_protoc(peers: Peers, descriptor_set: Path) -> None:
    source = ("--descriptor-set", str(descriptor_set))
    run = grpc(peers["grpc-python"], "h2c", LOOK_UP, "-n", "4", "-c", "1", source=source)
    check_good(run.good, "h2c", LOOK_UP, 4)
    assert run.good["grpc"]["schema"] == "--descriptor-set"


@pytest.mark.parametrize("name", LISTENERS)
def test_by_reflection(peers: Peers, name: str) -> None:
    run = grpc(peers[name], "h2c", LOOK_UP, "-n", "4", "-c", "1", source=())
    check_good(run.good, "h2c", LOOK_UP, 4)
    assert run.good["grpc"]["schema"] == "reflection v1"


def test_by_reflection_of_the_older_version(own: Own, authority: Authority) -> None:
    peer = own(lambda folder: grpc_python.start(folder, authority.local(), reflection="v1alpha"))
    run = grpc(peer, "h2", UNARY, "-n", "4", "-c", "1", source=())
    check_good(run.good, "h2", UNARY, 4)
    assert run.good["grpc"]["schema"] == "reflection v1alpha"


def test_a_server_without_reflection(own: Own, authority: Authority) -> None:
    peer = own(lambda folder: grpc_python.start(folder, authority.local(), reflection=""))
    run = load_text("--grpc", UNARY.name, "-b", UNARY.body, "--h2c", peer.bases["h2c"])
    assert run.code in (1, 2), run
    assert "reflection" in run.message
    assert "--proto" in run.message
    assert "--descriptor-set" in run.message


def test_a_server_that_is_no_grpc_server(peers: Peers) -> None:
    url = peers["caddy"].bases["h2c"]
    run = load_text("--grpc", UNARY.name, "-b", UNARY.body, "--h2c", url)
    assert run.code in (1, 2), run
    assert "gRPC" in run.message or "reflection" in run.message
    assert "--proto" in run.message


def test_nobody_to_ask() -> None:
    run = load_text("--grpc", UNARY.name, "-b", UNARY.body, "--h2c", NOWHERE)
    assert run.code == 1, run
    assert "refused" in run.message


def test_reflection_of_a_method_that_is_not_there(peers: Peers) -> None:
    base = peers["grpc-go"].bases["h2c"]
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


def test_what_does_not_fit_is_told(tmp_path: Path) -> None:
    assert "GetBook" in said(f"{SERVICE}/GetBok", "{}", *PROTO_FLAGS)
    told = said(UNARY.name, '{"nme": "shelves/1/books/1"}', *PROTO_FLAGS)
    assert "nme" in told
    assert "name" in told
    bad = tmp_path / "bad.proto"
    bad.write_text('syntax = "proto3";\nmessage Book { strin name = 1 }\n')
    assert "bad.proto:2:" in said(UNARY.name, "{}", "--proto", str(bad), code=1)


def test_messages_from_a_file(peers: Peers, tmp_path: Path) -> None:
    given = tmp_path / "messages.json"
    given.write_text(LOOK_UP.body)
    run = grpc(peers["embedded"], "h2c", LOOK_UP, "-n", "8", "-c", "1", body=f"@{given}")
    check_good(run.good, "h2c", LOOK_UP, 8)
