"""`trilane load --grpc`: which statuses count as ok, and how each end of a call is counted."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from peers import chaos, grpc_chaos, h2_chaos
from peers.grpc_chaos import GRPC, headers, message
from peers.h2_chaos import DATA, GOAWAY, RST_STREAM, frame

from .grpc_calls import PAIR_IDS, PAIRS, PROTO_FLAGS, UNARY, example, failed, grpc
from .loading import Run, load, load_text

if TYPE_CHECKING:
    from peers.running import Peers

_MISSING = '{"name": "shelves/3/books/99999"}'


def call(script: chaos.Script, *arguments: str) -> Run:
    """Sixteen unary calls to a bad server."""
    with chaos.serve(script) as server:
        return load(
            *("--grpc", UNARY.name, "-b", UNARY.body, *PROTO_FLAGS, "--h2c"),
            *("-c", "2", "-m", "4", "-n", "16", *arguments, server.base + "/"),
        )


@pytest.mark.parametrize(("name", "listener"), PAIRS, ids=PAIR_IDS)
def test_a_status_that_is_expected_is_ok(peers: Peers, name: str, listener: str) -> None:
    span = ["-n", "20", "-c", "2", "--expect-status", "NOT_FOUND"]
    run = grpc(peers[name], listener, UNARY, *span, body=_MISSING)
    report = run.good
    assert (report["requests"]["ok"], report["requests"]["failed"]) == (20, 0)
    assert report["grpc"]["status"] == {"NOT_FOUND": 20}
    assert report["grpc"]["expected"] == ["NOT_FOUND"]
    assert report["grpc"]["status_latency"]["NOT_FOUND"]["count"] == 20
    assert report["latency"]["service"]["count"] == 20
    # And OK is not.
    found = failed(grpc(peers[name], listener, UNARY, *span))
    assert found["grpc"]["status"] == {"OK": 20}
    assert "NOT_FOUND was expected" in example(found)


def test_statuses_are_told_apart(peers: Peers) -> None:
    body = UNARY.body + _MISSING
    span = ["-n", "40", "-c", "2", "--expect-status", "ok,5"]
    report = grpc(peers["embedded"], "h2c", UNARY, *span, body=body).good
    assert report["grpc"]["status"] == {"OK": 20, "NOT_FOUND": 20}
    latency = report["grpc"]["status_latency"]
    assert {name: each["count"] for name, each in latency.items()} == report["grpc"]["status"]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--grpc", UNARY.name, *PROTO_FLAGS, "--expect-status", "200"], "OK,NOT_FOUND"),
        (["--expect-status", "NOT_FOUND"], "--grpc"),
        (["--expect-status", "MISSING"], "NOT_FOUND"),
        (["--grpc", UNARY.name, *PROTO_FLAGS, "--max-message", "0"], "--max-message"),
    ],
)
def test_what_cannot_be_expected_is_told(flags: list[str], told: str) -> None:
    run = load_text(*flags, "http://127.0.0.1:9/")
    assert run.code == 2, run
    assert told in run.err


@pytest.mark.parametrize("name", grpc_chaos.BAD)
def test_every_end_has_a_status(name: str) -> None:
    case = grpc_chaos.BAD[name]
    timeout = "200ms" if "timeout" in case.kinds else "60s"
    report = call(case.script, "--timeout", timeout).checked
    assert sum(report["grpc"]["status"].values()) == report["requests"]["failed"]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, "INTERNAL"),
        (2, "INTERNAL"),
        (5, "UNKNOWN"),
        (8, "CANCELLED"),
        (11, "RESOURCE_EXHAUSTED"),
        (12, "PERMISSION_DENIED"),
    ],
)
def test_codes_of_resets_are_mapped(code: int, status: str) -> None:
    reset = grpc_chaos.frames(
        lambda stream: headers(stream, GRPC),
        lambda stream: frame(RST_STREAM, 0, stream, struct.pack(">I", code)),
    )
    assert call(reset).checked["grpc"]["status"] == {status: 16}


@pytest.mark.parametrize(
    ("status", "name"), [(503, "UNAVAILABLE"), (404, "UNIMPLEMENTED"), (401, "UNAUTHENTICATED")]
)
def test_statuses_of_http_are_mapped(status: int, name: str) -> None:
    head = [(":status", str(status)), ("content-type", "text/html")]
    script = grpc_chaos.Answer(b"no", None, head).script
    assert call(script).checked["grpc"]["status"] == {name: 16}
    expected = call(script, "--expect-status", name).good
    assert expected["requests"]["ok"] == 16


def test_our_own_limit_of_time_has_a_status() -> None:
    silent = grpc_chaos.frames(lambda stream: headers(stream, GRPC))
    report = call(silent, "--timeout", "200ms").checked
    assert report["grpc"]["status"] == {"DEADLINE_EXCEEDED": 16}


def test_a_lost_connection_has_a_status() -> None:
    async def script(reader: object, writer: object) -> None:
        await h2_chaos.server(lambda _stream, out: out.close())(reader, writer)  # type: ignore[arg-type]

    report = call(script).checked
    assert set(report["grpc"]["status"]) == {"UNAVAILABLE"}


def test_a_status_in_a_head_that_something_follows_is_none() -> None:
    answer = grpc_chaos.Answer(message(), None, [*GRPC, ("grpc-status", "0")])
    report = call(answer.script).checked
    assert report["requests"]["ok"] == 0
    assert set(report["requests"]["failures"]) == {"protocol"}
    assert "no grpc-status" in example(report, "protocol")


@pytest.mark.parametrize("mode", ["wire", "codec"])
def test_an_encoding_that_was_not_offered_is_refused(mode: str) -> None:
    head = [*GRPC, ("grpc-encoding", "snappy")]
    script = grpc_chaos.Answer(message(flag=1), [("grpc-status", "0")], head).script
    for flags in ([], ["--gzip"]):
        report = call(script, "--grpc-mode", mode, *flags).checked
        assert "snappy" in example(report, "protocol")
        assert report["grpc"]["status"] == {"INTERNAL": 16}


@pytest.mark.parametrize("mode", ["wire", "codec"])
def test_a_message_may_be_so_large_and_no_larger(mode: str) -> None:
    payload = b"\x0a\x62" + b"x" * 98
    script = grpc_chaos.Answer(message(payload), [("grpc-status", "0")]).script
    good = call(script, "--grpc-mode", mode, "--max-message", "100").good
    assert good["requests"]["ok"] == 16
    assert good["grpc"]["max_message_bytes"] == 100
    report = call(script, "--grpc-mode", mode, "--max-message", "99").checked
    assert set(report["requests"]["failures"]) == {"limit"}
    assert report["grpc"]["status"] == {"RESOURCE_EXHAUSTED": 16}
    assert "--max-message" in example(report, "limit")


def test_a_server_that_sends_its_clients_away_is_left_in_time_and_quoted() -> None:
    async def script(reader: object, writer: object) -> None:
        def on_request(_stream: int, out: object) -> None:
            told = struct.pack(">II", 0, 11) + b"too_many_pings"
            out.write(frame(GOAWAY, 0, 0, told))  # type: ignore[attr-defined]

        await h2_chaos.server(on_request)(reader, writer)  # type: ignore[arg-type]

    report = call(script, "--timeout", "1s").checked
    requests = report["requests"]
    assert requests["failed"] == requests["started"] == 16
    texts = [example(report, kind) for kind in requests["failures"]]
    assert any("ENHANCE_YOUR_CALM: too_many_pings" in text for text in texts), texts
    assert "no connection could be made" not in str(report["validity"])
    assert sum(report["grpc"]["status"].values()) == 16


def test_more_streams_than_are_allowed_are_told() -> None:
    def on_request(stream: int, writer: object) -> None:
        writer.write(  # type: ignore[attr-defined]
            headers(stream, GRPC)
            + frame(DATA, 0, stream, message())
            + headers(stream, [("grpc-status", "0")], end=True)
        )

    script = h2_chaos.server(on_request, settings=h2_chaos.setting(3, 5))
    with chaos.serve(script) as server:
        report = load(
            *("--grpc", UNARY.name, "-b", UNARY.body, *PROTO_FLAGS, "--h2c"),
            *("-c", "1", "-m", "64", "-n", "200", server.base + "/"),
        ).good
    assert report["connections"]["in_flight_at_most"] <= 5
    assert "streams_allowed" in {reason["code"] for reason in report["validity"]["reasons"]}
