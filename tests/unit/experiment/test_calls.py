"""Calls of a service: how they are asked, what they must answer, which arms can make them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from synthetic import records
from synthetic.books import ENCODED, as_json
from trilane.lab import testbed
from trilane.lab.clients import call_reference, executor
from trilane.lab.clients.engine_run import EnginePlan
from trilane.lab.clients.executor import Setting
from trilane.lab.clients.reference import NoReference, Reference
from trilane.lab.experiment.workload import Workload
from trilane.lab.targets import calls, library_book, running, target_config, target_ready
from trilane.lab.targets.calls import EMBEDDED, METHOD, Call, frame
from trilane.lab.targets.library_book import BOOK, WrongBook
from trilane.lab.targets.target_config import BadServer

WORKLOAD = Workload(kind="call", paths=(), duration_s=0.3, warmup_s=0.05, in_flight=8)


def test_the_formula_gives_the_book_of_the_definition() -> None:
    assert BOOK == {
        "name": "shelves/1/books/1",
        "author": "Author 8",
        "title": "Book 1 of shelf 1",
        "pages": 101,
        "read": False,
    }
    assert library_book.of_protobuf(ENCODED) == {k: v for k, v in BOOK.items() if k != "read"}
    assert library_book.request() == b"\x0a\x11shelves/1/books/1"
    assert frame(b"ab") == b"\x00\x00\x00\x00\x02ab"


@pytest.mark.parametrize(
    "answer",
    [
        as_json(),
        # Fields with their default values may be written, or not.
        as_json(labels=[], edition=None),
        json.dumps({k: v for k, v in BOOK.items() if k != "read"}, indent=2).encode(),
    ],
)
def test_the_book_in_json_is_the_book(answer: bytes) -> None:
    library_book.check(library_book.of_json(answer))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (as_json(pages=102), "pages is 102 instead of 101"),
        (as_json(pages="101"), "pages is '101' instead of 101"),
        (as_json(read=True), "read is True instead of False"),
        (as_json(labels=["x"]), r"labels is \['x'\], but the book has none"),
        (b"{}", "name is '' instead of 'shelves/1/books/1'"),
        (b"[]", "is not a JSON object"),
        (b"hello", "is not JSON: "),
    ],
)
def test_another_answer_in_json_is_told(answer: bytes, told: str) -> None:
    with pytest.raises(WrongBook, match=told):
        library_book.check(library_book.of_json(answer))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ENCODED[:-1], "is not a protobuf message"),
        (ENCODED[:10], "ends within field 1"),
        (b"\x09" + bytes(8), "a field 1 of wire type 1"),
        (b"\xff" * 11, "is not a protobuf message"),
        (ENCODED.replace(b"Author 8", b"Author 9"), "author is 'Author 9' instead of 'Author 8'"),
        (ENCODED + b"\x28\x01", "read is True instead of False"),
        (ENCODED + b"\x32\x01x", "field 6 is 'x', but the book has none"),
        (b"", "name is ''"),
    ],
)
def test_another_answer_in_protobuf_is_told(answer: bytes, told: str) -> None:
    with pytest.raises(WrongBook, match=told):
        library_book.check(library_book.of_protobuf(answer))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"", "there are 0 messages instead of one"),
        (frame(ENCODED) * 2, "there are 2 messages"),
        (frame(ENCODED)[:3], "ends within a prefix"),
        (frame(ENCODED)[:-1], "ends within a message of 50 bytes"),
        (b"\x01" + frame(ENCODED)[1:], "flags 1, but none was to be compressed"),
    ],
)
def test_frames_that_are_not_one_whole_message_are_told(answer: bytes, told: str) -> None:
    with pytest.raises(WrongBook, match=told):
        library_book.of_frames(answer)


class _Client:
    """Stands for `trilane.client.Client`: answers as told, and remembers what it was asked."""

    answer: ClassVar[tuple[bytes, dict[str, str], dict[str, str]]]
    asked: ClassVar[dict[str, Any]] = {}

    def __init__(self, **options: Any) -> None:
        self.asked.update(options)

    def __enter__(self) -> _Client:  # noqa: PYI034 - Python 3.10 has no Self
        return self

    def __exit__(self, *_error: object) -> None:
        """Nothing is open."""

    def request(self, method: str, url: str, **options: Any) -> Any:
        self.asked.update(options, method=method, url=url)
        self.status = 200
        self.content, self.headers, self.trailers = self.answer
        return self


@pytest.mark.parametrize(
    ("content", "headers", "trailers", "problem"),
    [
        (frame(ENCODED), {}, {"grpc-status": "0"}, None),
        (frame(ENCODED), {}, {"grpc-status": "13"}, "grpc-status is 13"),
        (b"", {"grpc-status": "12"}, {}, "grpc-status is 12"),
        (frame(ENCODED), {}, {}, "grpc-status is None"),
        (frame(ENCODED[:-2] + b"\x20\x66"), {}, {"grpc-status": "0"}, "pages is 102"),
    ],
)
def test_grpc_counts_by_its_status_and_its_message(
    content: bytes,
    headers: dict[str, str],
    trailers: dict[str, str],
    problem: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(target_ready, "Client", _Client)
    monkeypatch.setattr(_Client, "answer", (content, headers, trailers), raising=False)
    if problem is None:
        found = call_reference.read(EMBEDDED["grpc"], "grpc", "h2c", "http://x", None)
        assert found.sizes == (len(ENCODED) + 5,)
        assert _Client.asked["versions"] == ["h2"]
        assert _Client.asked["content"] == frame(library_book.request())
        assert _Client.asked["headers"]["te"] == "trailers"
        assert _Client.asked["url"] == f"http://x{METHOD}"
    else:
        with pytest.raises(NoReference, match=problem):
            call_reference.read(EMBEDDED["grpc"], "grpc", "h2c", "http://x", None)


def command(message: str, version: str = "h2c", **options: Any) -> list[str]:
    arm = WORKLOAD.arm("trilane", version, "load", message=message, **options)
    call = EMBEDDED[message]
    plan = EnginePlan(arm, WORKLOAD, [call.path], Setting("http://127.0.0.1:8080", call=call))
    body = Path("/tmp/body") if call.body else None  # noqa: S108 - a name in a command
    made = plan.command(Path("run.json"), body)
    return made[made.index("load") + 1 :]


def test_the_engine_calls_grpc_by_method_and_message() -> None:
    made = command("grpc", connections=1)
    assert made[0] == "http://127.0.0.1:8080"
    assert made[made.index("--grpc") + 1] == METHOD.removeprefix("/")
    assert json.loads(made[made.index("-b") + 1]) == {"name": "shelves/1/books/1"}
    assert ("--h2c" in made, "-X" in made, "-H" in made) == (True, False, False)
    assert made[made.index("-c") + 1 :][:3] == ["1", "-m", "8"]
    assert "--grpc-mode" not in made
    definition = Path(made[made.index("--proto") + 1])
    # The engine need not ask the server what its methods look like.
    assert "rpc GetBook" in definition.read_text(encoding="utf-8")
    codec = command("grpc", connections=1, mode="codec")
    assert codec[codec.index("--grpc-mode") + 1] == "codec"


def test_the_engine_calls_the_other_formats_by_method_path_and_body() -> None:
    made = command("json", "h1", tls=False)
    assert made[0] == "http://127.0.0.1:8080/v1/shelves/1/books/1"
    assert made[made.index("-X") + 1] == "GET"
    fields = [made[n + 1] for n, word in enumerate(made) if word == "-H"]
    assert fields == ["accept: application/json", "accept-encoding: identity"]
    assert made[made.index("-c") + 1 :][:3] == ["8", "-m", "1"]
    web = command("grpc-web")
    assert web[web.index("-X") + 1] == "POST"
    assert web[web.index("-b") + 1] == "@/tmp/body"
    own = command("json", "h1", headers=(("Accept", "text/json"),))
    assert "Accept: text/json" in own
    assert "accept: application/json" not in own


def test_an_answer_other_than_the_checked_one_makes_a_run_invalid() -> None:
    for crc, verdict in (("0d4a1185", "valid"), ("00000001", "invalid")):
        checked = Reference((("/x", int(crc, 16)),), (11,), complete=False)
        run = executor.judge_body(records.run("h2c"), checked)
        assert run.validity.verdict == verdict
    assert "11 bytes with CRC-32 0d4a1185, but when it was checked" in run.validity.reasons[0].text


SERVER = """\
title = "A server"
command = ["./server", "-port", "{port}"]
versions = { h2c = "http://127.0.0.1:{port}" }
ready = { path = "/hello" }

[calls.json]
path = "/v1/shelves/1/books/1"

[calls.protobuf]
method = "POST"
path = "/trilane.library.v1.Library/GetBook"
headers = ["content-type: application/proto", "x-empty:"]
body = "\\n\\u0011shelves/1/books/1"

[calls.grpc]
path = "/trilane.library.v1.Library/GetBook"
message = '{"name": "shelves/1/books/1"}'
"""


def config(folder: Path, text: str = SERVER) -> target_config.ServerConfig:
    (folder / "server.toml").write_text(text, encoding="utf-8")
    return target_config.load(folder)


def test_a_server_says_how_it_is_called(tmp_path: Path) -> None:
    found = config(tmp_path).calls
    assert found["json"] == Call("/v1/shelves/1/books/1", "GET")
    assert found["protobuf"].body == library_book.request()
    assert found["protobuf"].headers == (("content-type", "application/proto"), ("x-empty", ""))
    assert found["grpc"].method == "POST"
    assert json.loads(found["grpc"].message or "") == {"name": "shelves/1/books/1"}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[calls.json]", "[calls.jason]", "'jason' is not a format of a call: did you mean json?"),
        ('path = "/v1', 'path = "v1', "calls.json.path: starts with a slash"),
        ('"POST"', '"post"', "calls.protobuf.method: 'post' is not a method"),
        (
            '"x-empty:"',
            '"x-empty"',
            "headers[1]: 'x-empty' is not a header field: write 'name: value'",
        ),
        ('\'{"name"', "'{name\"", "calls.grpc.message: is not JSON"),
        ("message = '", "body = '", "which goes with [calls.grpc]"),
        ("body = ", "message = ", "which goes with [calls.grpc]"),
        ("method = ", "methode = ", "unknown key: did you mean method?"),
    ],
)
def test_a_wrong_call_is_told_with_its_key(old: str, new: str, told: str, tmp_path: Path) -> None:
    assert SERVER.count(old) == 1
    with pytest.raises(BadServer) as caught:
        config(tmp_path, SERVER.replace(old, new))
    assert told in str(caught.value)


def test_what_a_server_cannot_do_is_said_of_the_arm_and_not_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "servers" / "small"
    folder.mkdir(parents=True)
    config(folder)
    monkeypatch.chdir(tmp_path)

    def lacks(version: str, message: str, **options: Any) -> str | None:
        return testbed.lacks(
            WORKLOAD.arm("trilane", version, "load", server="small", message=message, **options)
        )

    assert lacks("h2c", "json") is None
    assert lacks("h1", "json", tls=False) is None
    assert lacks("h1", "json") == "small does not speak h1"
    assert lacks("h3", "grpc") == "small does not speak h3"
    assert lacks("h2c", "grpc-web") == "small has no calls in gRPC-Web"


def test_the_embedded_server_is_called_in_every_format() -> None:
    assert running.find("embedded").calls is calls.EMBEDDED
    assert list(calls.EMBEDDED) == ["json", "protobuf", "grpc", "grpc-web"]
    assert calls.EMBEDDED["grpc-web"].body == frame(library_book.request())
