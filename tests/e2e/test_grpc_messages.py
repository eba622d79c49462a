"""`trilane load --grpc`: a message for each call, and `--show`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from peers.grpc_recorder import Recorder, recorder
from peers.grpc_schema import SERVICE, Schema
from repository import native

from .grpc_calls import LOOK_UP, PROTO_FLAGS, UNARY, WATCH, grpc
from .loading import Run, flag, load, load_text

if TYPE_CHECKING:
    from peers.running import Peers

_MODES = pytest.mark.parametrize("mode", ["wire", "codec"])


@pytest.fixture(scope="module")
def schema(descriptor_set: Path) -> Schema:
    return Schema(descriptor_set)


def calls(method: str, body: str, found: Recorder, *arguments: str) -> Run:
    """Some calls to a recorder, one after the other."""
    return load(
        *("--grpc", f"{SERVICE}/{method}", "-b", body, *PROTO_FLAGS, "--h2c", "-c", "1"),
        *arguments,
        found.server.base,
    )


def names(schema: Schema, found: Recorder) -> list[str]:
    """The names of the books that were asked for, in the order of the calls."""
    kind = schema.type("GetBookRequest")
    return [kind.FromString(payload).name for call in found.calls for _, payload in call.messages]


@_MODES
def test_messages_of_unary_calls_take_turns(schema: Schema, mode: str) -> None:
    body = "\n".join(json.dumps({"name": name}) for name in "abc")
    with recorder() as found:
        run = calls("GetBook", body, found, "-n", "7", "--grpc-mode", mode)
    assert run.good["grpc"]["messages"] == {"sent": 7, "received": 7}
    assert names(schema, found) == list("abcabca")
    assert run.good["plan"]["request"]["urls"] == 3


@_MODES
def test_a_template_is_another_message_in_each_call(
    schema: Schema, mode: str, tmp_path: Path
) -> None:
    table = tmp_path / "books.csv"
    table.write_text("id,title\n7,Seven\n8,Eight\n")
    body = json.dumps({"name": f"{{csv:{table}:title}}/{{rand:1-3}}/{{seq}}"})
    fields = ["-H", "x-number: {seq}", "-H", "x-same: yes"]
    with recorder() as found:
        run = calls("GetBook", body, found, "-n", "10", "--grpc-mode", mode, *fields)
        assert run.good["grpc"]["status"] == {"OK": 10}
    asked = [name.split("/") for name in names(schema, found)]
    assert [title for title, _, _ in asked] == ["Seven", "Eight"] * 5
    assert {number for _, number, _ in asked} <= {"1", "2", "3"}
    assert [number for _, _, number in asked] == [str(number) for number in range(10)]
    assert [call.field("x-number") for call in found.calls] == [str(n) for n in range(10)]
    assert {call.field("x-same") for call in found.calls} == {"yes"}


@_MODES
def test_messages_of_streams_are_numbered(schema: Schema, mode: str) -> None:
    body = '{"name": "{seq}"} {"name": "fixed"}'
    with recorder(each=True) as found:
        run = calls("LookUpBooks", body, found, "-n", "3", "--messages", "4", "--grpc-mode", mode)
    assert run.good["grpc"]["messages"] == {"sent": 12, "received": 12}
    numbered = [name for name in names(schema, found) if name != "fixed"]
    assert numbered == [str(4 * call + at) for call in range(3) for at in (0, 2)]


def test_servers_understand_what_changes(peers: Peers) -> None:
    body = '{"name": "shelves/{rand:1-10}/books/{rand:1-100}"}'
    for calling in (UNARY, LOOK_UP):
        run = grpc(peers["grpc-go"], "h2c", calling, "-n", "20", "-c", "2", body=body)
        assert run.good["grpc"]["status"] == {"OK": 20}


def test_encoded_messages_go_as_they_are(schema: Schema, tmp_path: Path) -> None:
    made = [schema.make("GetBookRequest", name=name).SerializeToString() for name in "abc"]
    # A field that the schema does not know.
    made[2] += b"\x98\x06\x01"
    one, all_three = tmp_path / "one.bin", tmp_path / "three.bin"
    one.write_bytes(made[2])
    all_three.write_bytes(b"".join(bytes([len(each)]) + each for each in made))
    with recorder() as found:
        calls("GetBook", f"@{one}", found, "-n", "1", "--message-format", "binary").good  # noqa: B018
        calls("GetBook", f"@{all_three}", found, "-n", "3", "--message-format", "delimited").good  # noqa: B018
    assert [payload for call in found.calls for _, payload in call.messages] == [made[2], *made]
    wrong = calls("GetBook", f"@{one}", found, "-n", "1", "--message-format", "delimited")
    assert wrong.code == 2, wrong
    assert "--body" in wrong.message


def test_messages_come_from_stdin(schema: Schema) -> None:
    with recorder() as found:
        done = subprocess.run(
            [
                *(native(), "load", "--grpc", UNARY.name, "-b", "@-", *PROTO_FLAGS, "--h2c"),
                *("-n", "2", "-c", "1", found.server.base),
            ],
            input='{"name": "a"}\n{"name": "b"}\n',
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    assert "messages 2 sent, 2 received" in done.stdout
    assert names(schema, found) == ["a", "b"]


def test_one_response_is_shown(peers: Peers) -> None:
    def show(method: str, body: str, *arguments: str) -> Run:
        return load_text(
            *("--show", "--grpc", f"{SERVICE}/{method}", "-b", body, *PROTO_FLAGS, "--h2c"),
            *arguments,
            peers["grpc-go"].bases["h2c"],
        )

    run = show("GetBook", UNARY.body)
    assert run.code == 0, run
    head, message, trailers = run.out.split("\n\n")
    assert head.startswith("HTTP 200\n")
    assert "content-type: application/grpc" in head
    assert json.loads(message)["name"] == "shelves/3/books/9"
    assert "grpc-status: 0" in trailers
    assert trailers.rstrip().endswith("0 OK")
    run = show("LookUpBooks", LOOK_UP.body)
    assert [json.loads(each)["name"] for each in run.out.split("\n\n")[1:-1]] == [
        name["name"] for name in map(json.loads, LOOK_UP.body.splitlines())
    ]
    run = show("GetBook", '{"name": "shelves/3/books/99999"}')
    assert run.code == 1, run
    assert run.out.rstrip().endswith("5 NOT_FOUND")
    assert show("GetBook", '{"name": "shelves/3/books/99999"}', "--expect-status", "5").code == 0
    endless = json.dumps({"parent": "shelves/3", "count": 1_000_000, "interval": "0.005s"})
    run = show("WatchBooks", endless, "--stream-duration", "300ms")
    assert run.code == 0, run
    assert len(run.out.split("\n\n")) > 3


@pytest.mark.parametrize(
    ("listener", "protocol"),
    [("h2", "grpc"), ("h3", "grpc"), ("h1", "grpc-web"), ("h2c", "connect")],
)
def test_the_response_of_every_protocol_is_shown_as_json(
    peers: Peers, listener: str, protocol: str
) -> None:
    peer = peers["embedded"]
    trust = ["--cacert", str(peer.ca)] if listener in {"h2", "h3"} else []

    def show(method: str, body: str, code: int = 0) -> dict[str, Any]:
        run = load(
            *("--show", "--grpc", f"{SERVICE}/{method}", "-b", body, *PROTO_FLAGS, flag(listener)),
            *("--grpc-protocol", protocol, *trust, peer.bases[listener]),
        )
        assert run.code == code, run
        assert run.report is not None
        assert run.report["schema"] == "trilane.response/1"
        assert run.report["version"] == listener
        assert run.report["http"] == (200 if code == 0 or protocol != "connect" else 404)
        return run.report

    shown = show("GetBook", UNARY.body)
    assert (shown["ok"], shown["status"]) == (True, {"code": 0, "name": "OK"})
    assert [message["name"] for message in shown["messages"]] == ["shelves/3/books/9"]
    assert dict(shown["head"])["content-type"].startswith("application/")
    assert ("grpc-status", "0") in map(tuple, shown["trailers"]) or protocol == "connect"
    names = [message["book"]["name"] for message in show("WatchBooks", WATCH.body)["messages"]]
    assert len(names) == WATCH.received
    shown = show("GetBook", '{"name": "shelves/3/books/99999"}', 1)
    assert shown["status"] == {"code": 5, "name": "NOT_FOUND"}
    assert shown["failure"]["kind"] == "status"
    assert shown["messages"] == []
    error = shown["connect_error"]
    assert (error["code"] if protocol == "connect" else error) in {"not_found", None}


def test_what_is_no_answer_of_grpc_is_shown(peers: Peers) -> None:
    url = peers["nginx"].bases["h2c"]
    run = load_text("--show", "--grpc", UNARY.name, "-b", UNARY.body, *PROTO_FLAGS, "--h2c", url)
    assert run.code == 1
    assert run.out.startswith("HTTP 404\n")
    assert "<html>" in run.out
    assert run.out.rstrip().endswith("12 UNIMPLEMENTED")
    assert "HTTP status 404" in run.err
