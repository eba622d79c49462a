"""gRPC servers that are not nice: each case ends in a counted, named error, bounded."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import grpc
import pytest

from peers import chaos, grpc_chaos, h2_chaos
from peers.grpc_schema import Schema

from .grpc_calls import PROTO_FLAGS, UNARY, WATCH, Calling, example
from .loading import Run, load, load_text

# How answers that are whole are counted, `crates/engine/src/grpc/tests/answers.rs` shows; here are
# those that do not end as they should, and words of a server on their way to the report.
_FRAMES = [name for name, case in grpc_chaos.BAD.items() if case.answer is None]
_WORDS = ["message of control characters", "message of 10,000 characters"]


def call(calling: Calling, case: grpc_chaos.Case, *arguments: str) -> Run:
    # The timeout is short where it is what ends a call, else out of reach.
    timeout = "200ms" if "timeout" in case.kinds else "60s"
    span = ["-n", "16", "--timeout", timeout]
    with chaos.serve(case.script) as server:
        return load(
            *("--grpc", calling.name, "-b", calling.body, *PROTO_FLAGS, "--h2c"),
            *("-c", "2", "-m", "4", *span, *arguments, server.base + "/"),
        )


def check(run: Run, case: grpc_chaos.Case) -> None:
    assert run.code == 4, run
    report = run.checked
    requests = report["requests"]
    assert requests["ok"] == 0, requests
    assert requests["failed"] > 0, requests
    assert set(requests["failures"]) <= case.kinds, requests
    assert sum(report["grpc"]["status"].values()) == requests["failed"]
    for kind in requests["failures"]:
        text = example(report, kind)
        assert len(text) < 1000, text
        assert not [c for c in text if unicodedata.category(c) == "Cc"], repr(text)
    texts = " ".join(example(report, kind) for kind in requests["failures"])
    for word in case.words:
        assert word in texts, texts


@pytest.mark.parametrize("name", [*_FRAMES, *_WORDS])
def test_unary(name: str) -> None:
    case = grpc_chaos.BAD[name]
    check(call(UNARY, case), case)


@pytest.mark.parametrize("name", [name for name in _FRAMES if "endless" in name])
def test_server_streaming(name: str) -> None:
    case = grpc_chaos.BAD[name]
    check(call(WATCH, case), case)


@pytest.mark.parametrize("mode", ["wire", "codec"])
def test_what_is_unusual_and_right(mode: str) -> None:
    with chaos.serve(grpc_chaos.ODD.script) as server:
        run = load(
            *("--grpc", UNARY.name, "-b", UNARY.body, *PROTO_FLAGS, "--grpc-mode", mode),
            *("-c", "2", "-m", "4", "-n", "8", "--h2c", server.base + "/"),
        )
    assert run.good["grpc"]["status"] == {"OK": 8}
    assert run.good["grpc"]["messages"] == {"sent": 8, "received": 8}


def test_grpcio_finds_it_right_too(descriptor_set: Path) -> None:
    schema = Schema(descriptor_set)
    with (
        chaos.serve(grpc_chaos.ODD.script) as server,
        grpc.insecure_channel(server.base.removeprefix("http://")) as channel,
    ):
        ask = schema.stub(channel, "GetBook")
        assert ask(schema.make("GetBookRequest"), timeout=60).title == "x"


def test_calls_of_a_connection_that_breaks_off() -> None:
    with chaos.serve(grpc_chaos.goaway_mid_call()) as server:
        run = load(
            *("--grpc", UNARY.name, "-b", UNARY.body, *PROTO_FLAGS, "--h2c"),
            *("-c", "1", "-m", "1", "-n", "30", server.base + "/"),
        )
        assert server.connections >= 10
    requests = run.checked["requests"]
    assert requests["started"] == 30
    assert requests["ok"] == 20
    assert set(requests["failures"]) <= {"goaway", "closed", "reset", "body"}, requests
    assert run.checked["grpc"]["status"]["OK"] == 20


def test_a_server_of_http_1() -> None:
    with chaos.serve(h2_chaos.answer_in_http_1) as server:
        run = load_text(
            *("--grpc", UNARY.name, "-b", UNARY.body, *PROTO_FLAGS, "--h2c", server.base + "/")
        )
    assert run.code == 1, run
    assert "HTTP/2" in run.message
    # gRPC has no HTTP/1.1 to fall back to.
    assert "--h1" not in run.message


@pytest.mark.parametrize("name", ["nothing but a head", "endless messages", "silent"])
def test_a_bad_server_is_asked_what_it_has(name: str) -> None:
    # Reflection runs before the load: it too must end, in time, in a line.
    silent = grpc_chaos.frames()
    script = silent if name == "silent" else grpc_chaos.BAD[name].script
    with chaos.serve(script) as server:
        run = load_text(
            *("--grpc", UNARY.name, "-b", UNARY.body, "--h2c", "--timeout", "500ms"),
            server.base + "/",
        )
    assert run.code in (1, 2), run
    assert "--proto" in run.message or "reflection" in run.message
