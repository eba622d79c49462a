"""`trilane gateway` before several servers, and before servers that fail.

Those that answer are grpcio's. Those that fail in a way of their own speak through hyper-h2.
"""

from __future__ import annotations

import functools
import socket
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from h2.errors import ErrorCodes

from peers import grpc_scripted
from peers.authority import Authority
from peers.grpc_chaos import message
from peers.grpc_scripted import Call, text
from peers.peer import Peer
from peers.process import HOST, wait_until

from .gateways import (
    SAY,
    UNAVAILABLE,
    UNAVAILABLE_CODE,
    Named,
    Own,
    gateway,
    named,
    said,
    said_by,
)
from .library import PATIENCE_S, address, refused
from .test_embedded_rest import refusal
from .web import Web

NOT_FOUND = 404
HELD = b"\n\x04hold"
ASKED = b"\n\x01x"


def calling(peer: Peer) -> grpc.Channel:
    """A channel of its own to a gateway."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    return grpc.insecure_channel(address(peer, "h2c"), options=options)


class Caller:
    """grpcio's client of the service."""

    def __init__(self, channel: grpc.Channel) -> None:
        stub: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(SAY)
        self._stub = stub

    def begin(self, content: bytes = ASKED) -> Any:
        """Start a call."""
        return self._stub.future(content, timeout=PATIENCE_S)

    def ask(self, content: bytes = ASKED) -> str:
        """The text of the answer."""
        return self._stub(content, timeout=PATIENCE_S)[2:].decode()


# Which server.


def test_calls_go_where_there_are_fewest(own: Own, files: tuple[str, ...]) -> None:
    with named("a", "b", "c") as servers:
        peer = gateway(own, *(server.url for server in servers), flags=files)
        with calling(peer) as channel:
            caller = Caller(channel)
            first = [caller.ask() for _ in range(3)]
            assert sorted(first) == ["a", "b", "c"]
            held = [caller.begin(HELD) for _ in range(2)]
            # Each of the two holds one, as neither had any when the other came.
            busy = [server for server in servers if server.arrived.acquire(timeout=0)]
            while len(busy) < 2:
                waiting = [server for server in servers if server not in busy]
                busy += [server for server in waiting if server.arrived.acquire(timeout=0.01)]
            (free,) = (server for server in servers if server not in busy)
            assert [caller.ask() for _ in range(4)] == [free.name] * 4
            for server in busy:
                server.let_go.set()
            for call in held:
                assert call.result(PATIENCE_S)[2:].decode() in {server.name for server in busy}


def test_a_server_that_goes_is_left_out_until_it_is_back(own: Own, files: tuple[str, ...]) -> None:
    with named("a", "b") as (first, second):
        peer = gateway(own, first.url, second.url, flags=files)
        with Web.open(peer, "h1") as web:
            assert {said_by(web) for _ in range(4)} == {"a", "b"}
            first.stop()
            # Nothing is lost: what could not be sent there goes to the other.
            assert [said_by(web) for _ in range(6)] == ["b"] * 6
            back = Named("a again", f"{HOST}:{first.port}")
            try:
                wait_until(lambda: said_by(web) == "a again", "calls go to the server again")
            finally:
                back.stop()


def test_a_name_has_at_least_one_address(own: Own, files: tuple[str, ...]) -> None:
    with named("v4") as (server,):
        url = f"grpc://localhost:{server.port}"
        with Web.open(gateway(own, url, flags=files), "h1") as web:
            assert {said_by(web) for _ in range(4)} == {"v4"}


def test_all_addresses_of_a_name(own: Own, files: tuple[str, ...]) -> None:
    found = socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM)
    addresses = sorted({info[4][0] for info in found})
    if addresses != [HOST, "::1"]:
        pytest.skip(f"localhost has the addresses {addresses} here, and not {HOST} and ::1")
    with named("v4") as (server,):
        url = f"grpc://localhost:{server.port}"
        other = Named("v6", f"[::1]:{server.port}")
        try:
            with Web.open(gateway(own, url, flags=files), "h1") as web:
                assert {said_by(web) for _ in range(4)} == {"v4", "v6"}
        finally:
            other.stop()


def test_servers_are_asked_whether_they_serve(own: Own, files: tuple[str, ...]) -> None:
    healths = [health.HealthServicer(), health.HealthServicer()]
    status = health_pb2.HealthCheckResponse
    servers = []
    for name, its in zip("ab", healths, strict=True):
        server = Named(name, threads=8)
        health_pb2_grpc.add_HealthServicer_to_server(its, server.server)
        servers.append(server)
    healths[1].set("", status.NOT_SERVING)
    try:
        flags = (*files, "--upstream-health")
        peer = gateway(own, *(server.url for server in servers), flags=flags)
        with Web.open(peer, "h1") as web:
            assert [said_by(web) for _ in range(6)] == ["a"] * 6
            healths[1].set("", status.SERVING)
            wait_until(lambda: said_by(web) == "b", "calls go to the server that serves now")
            healths[0].set("", status.NOT_SERVING)
            wait_until(lambda: said_by(web) == said_by(web) == "b", "no call goes to the other")
            assert [said_by(web) for _ in range(6)] == ["b"] * 6
            healths[1].set("", status.NOT_SERVING)
            wait_until(lambda: web.ask("GET", "/say/x").status == UNAVAILABLE, "none serves")
            reason = refusal(web.ask("GET", "/say/x"), UNAVAILABLE, UNAVAILABLE_CODE)
            assert "does not serve, as it says itself" in reason
    finally:
        for server in servers:
            server.stop()


def test_a_server_without_the_service_of_health_serves(own: Own, files: tuple[str, ...]) -> None:
    with named("a") as (server,):
        flags = (*files, "--upstream-health")
        with Web.open(gateway(own, server.url, flags=flags), "h1") as web:
            assert said_by(web) == "a"


# What is repeated, and what is not.


def test_what_a_server_refuses_goes_to_another(own: Own, files: tuple[str, ...]) -> None:
    def refuse(call: Call) -> None:
        call.reset(ErrorCodes.REFUSED_STREAM)

    with (
        grpc_scripted.serving(refuse) as bad,
        grpc_scripted.serving(Call.answer) as good,
    ):
        peer = gateway(own, bad.base, good.base, flags=files)
        with Web.open(peer, "h1") as web:
            assert [said_by(web, f"/say/{number}") for number in range(4)] == list("0123")
        # In turn, each was the first to be asked.
        assert 0 < len(bad.all_calls) < 4
        assert [call.content for call in good.all_calls] == [text(digit) for digit in "0123"]


def test_a_server_that_refuses_alone_is_asked_four_times(own: Own, files: tuple[str, ...]) -> None:
    def refuse(call: Call) -> None:
        call.reset(ErrorCodes.REFUSED_STREAM)

    with grpc_scripted.serving(refuse) as server:
        with Web.open(gateway(own, server.base, flags=files), "h1") as web:
            reason = refusal(web.ask("GET", "/say/x"), UNAVAILABLE, UNAVAILABLE_CODE)
        assert "did not answer" in reason
        assert len(server.all_calls) == 4


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_request_caught_by_a_connection_that_closes_is_sent_again(
    own: Own, files: tuple[str, ...], size: int
) -> None:
    content = b"\n" + _varint(size) + b"x" * size

    def answer_one(call: Call) -> None:
        """RFC 9113 section 6.8: the second stream is beyond the last, and was not looked at."""
        if call.connection.calls == 1:
            call.answer(text("whole" if call.content == message(content) else "other"))
        else:
            call.connection.go_away(last=call.stream - 2)

    with grpc_scripted.serving(answer_one) as server:
        with calling(gateway(own, server.base, flags=files)) as channel:
            stub: Any = channel.unary_unary(SAY)
            for _ in range(3):
                assert stub(content, timeout=PATIENCE_S)[2:] == b"whole"
        # The second and the third were caught, and had a new connection each.
        assert server.connections == 3
        assert [call.connection.number for call in server.all_calls] == [0, 0, 1, 1, 2]


def _varint(number: int) -> bytes:
    """As Protocol Buffers writes lengths."""
    out = bytearray()
    while number > 127:
        out.append(number % 128 | 128)
        number //= 128
    return bytes([*out, number])


def _lost(call: Call) -> None:
    """Within the streams that the server has looked at."""
    call.connection.go_away(last=call.stream)


def _closed(call: Call) -> None:
    call.connection.break_off()


def _failed(call: Call) -> None:
    call.reset(ErrorCodes.INTERNAL_ERROR)


def _calm(call: Call) -> None:
    call.reset(ErrorCodes.ENHANCE_YOUR_CALM)


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (_lost, grpc.StatusCode.UNAVAILABLE),
        (_closed, grpc.StatusCode.UNAVAILABLE),
        (_failed, grpc.StatusCode.INTERNAL),
        (_calm, grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
def test_what_may_have_been_processed_is_not_repeated(
    own: Own, files: tuple[str, ...], act: grpc_scripted.OnCall, code: grpc.StatusCode
) -> None:
    with (
        grpc_scripted.serving(act) as one,
        grpc_scripted.serving(act) as other,
    ):
        with calling(gateway(own, one.base, other.base, flags=files)) as channel:
            found, reason = refused(lambda: Caller(channel).ask())
        assert (found, "did not answer" in reason) == (code, True)
        assert len(one.all_calls) + len(other.all_calls) == 1


def test_an_answer_that_breaks_off(own: Own, files: tuple[str, ...]) -> None:
    def half(call: Call) -> None:
        call.begin(text("ab")[:-1])
        call.connection.break_off()

    with grpc_scripted.serving(half) as server:
        peer = gateway(own, server.base, flags=files)
        with calling(peer) as channel:
            code, reason = refused(lambda: Caller(channel).ask())
        assert (code, "broke off its answer" in reason) == (grpc.StatusCode.UNAVAILABLE, True)
        with Web.open(peer, "h1") as web:
            reason = refusal(web.ask("GET", "/say/x"), UNAVAILABLE, UNAVAILABLE_CODE)
        assert "broke off its answer" in reason
        assert len(server.all_calls) == 2


def silent(call: Call) -> None:
    """Take a call and say nothing."""


def test_a_call_that_its_caller_gives_up_ends_at_the_server(
    own: Own, files: tuple[str, ...]
) -> None:
    with grpc_scripted.serving(silent) as server:
        with calling(gateway(own, server.base, flags=files)) as channel:
            begun = Caller(channel).begin()
            call = server.next_call()
            begun.cancel()
            reset = server.next_reset()
        assert (reset.stream_id, reset.error_code) == (call.stream, ErrorCodes.CANCEL)


def test_calls_without_a_deadline_get_one(own: Own, files: tuple[str, ...]) -> None:
    with grpc_scripted.serving(silent) as server:
        flags = (*files, "--upstream-timeout", "300ms")
        with Web.open(gateway(own, server.base, flags=flags), "h1") as web:
            # On a busy machine the deadline may pass before the call has left: then once more.
            while not server.called("300000u"):
                assert "deadline" in refusal(web.ask("GET", "/say/x"), 504, 4)
            assert server.next_reset().error_code == ErrorCodes.CANCEL
            # Its own is kept where it brings one.
            while not server.called("200m"):
                web.ask("GET", "/say/x", grpc_timeout="200m")


def _line(size: int) -> bytes:
    """A message of so many bytes, from 131 to 16,386."""
    return b"\n" + _varint(size - 3) + b"x" * (size - 3)


def test_messages_have_a_limit(own: Own, files: tuple[str, ...]) -> None:
    def answer(call: Call) -> None:
        call.answer(message(_line(1025)) if call.content == text("long") else None)

    with grpc_scripted.serving(answer) as server:
        peer = gateway(own, server.base, flags=(*files, "--max-message", "1k"))
        with calling(peer) as channel:
            stub: Any = channel.unary_unary(SAY)
            assert stub(_line(1024), timeout=PATIENCE_S) == _line(1024)
            for content in (_line(1025), b"\n\x04long"):
                asked = functools.partial(stub, content, timeout=PATIENCE_S)
                code, reason = refused(asked)
                assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
                assert reason == "a message has 1025 bytes, where 1024 are the most"
        with Web.open(peer, "h1") as web:
            assert said_by(web) == "x"
            assert "where 1024 are" in refusal(web.ask("GET", "/say/long"), 429, 8)


# Connections.


def test_more_connections_where_a_server_allows_few_streams(
    own: Own, files: tuple[str, ...]
) -> None:
    waiting: list[Call] = []

    def hold(call: Call) -> None:
        """None is answered before all are there."""
        waiting.append(call)
        if len(waiting) == 180:
            for held in waiting:
                held.answer()
                held.connection.flush()

    with grpc_scripted.serving(hold, streams=10) as server:
        with calling(gateway(own, server.base, flags=files)) as channel:
            caller = Caller(channel)
            calls = [caller.begin() for _ in range(180)]
            answers = {call.result(PATIENCE_S) for call in calls}
        assert answers == {ASKED}
        assert server.connections == 18
        assert {call.connection.calls for call in server.all_calls} == {10}


def test_calls_wait_for_a_stream_but_not_too_many(own: Own, files: tuple[str, ...]) -> None:
    waiting: list[Call] = []

    def hold_the_first(call: Call) -> None:
        waiting.append(call)
        if len(waiting) > 1:
            call.answer()

    few = ("--upstream-connections", "1", "--upstream-waiting", "1")
    with grpc_scripted.serving(hold_the_first, streams=1) as server:
        with calling(gateway(own, server.base, flags=(*files, *few))) as channel:
            caller = Caller(channel)
            first = caller.begin()
            server.next_call()
            others = [caller.begin() for _ in range(2)]
            done = next(futures.as_completed([_result(call) for call in others], PATIENCE_S))
            code, reason = refused(done.result)
            assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert reason.startswith("1 calls wait for a stream to ")
            first.cancel()
            # The stream that is free now is the other's.
            assert sum(_is_answered(call) for call in others) == 1
        assert server.connections == 1


def _result(call: Any) -> futures.Future[bytes]:
    """What comes of a call, as a future of Python's."""
    future: futures.Future[bytes] = futures.Future()

    def settle(done: Any) -> None:
        try:
            future.set_result(done.result())
        except grpc.RpcError as error:
            future.set_exception(error)

    call.add_done_callback(settle)
    return future


def _is_answered(call: Any) -> bool:
    try:
        return bool(call.result(PATIENCE_S) == ASKED)
    except grpc.RpcError:
        return False


def test_a_server_that_asks_for_a_certificate(
    own: Own, files: tuple[str, ...], authority: Authority, tmp_path: Path
) -> None:
    leaf, client = authority.local(), authority.client()
    credentials = grpc.ssl_server_credentials(
        [(leaf.key.read_bytes(), leaf.cert.read_bytes())],
        leaf.ca.read_bytes(),
        require_client_auth=True,
    )
    with named("a", credentials=credentials) as (server,):
        url = f"grpcs://{HOST}:{server.port}"
        trust = (*files, "--upstream-cacert", str(leaf.ca))
        shown = ("--upstream-cert", str(client.cert), "--upstream-key", str(client.key))
        with Web.open(gateway(own, url, flags=trust), "h1") as web:
            assert web.ask("GET", "/say/x").status == UNAVAILABLE
        with Web.open(gateway(own, url, flags=(*trust, *shown)), "h1") as web:
            assert said_by(web) == "a"
    missing = tmp_path / "missing.pem"
    absent_key = ("--upstream-cert", str(client.cert), "--upstream-key", str(missing))
    assert "--upstream-key: cannot read" in said("--upstream", url, *trust, *absent_key, code=1)


def test_a_server_has_the_name_that_is_given(
    own: Own, files: tuple[str, ...], authority: Authority
) -> None:
    leaf = authority.wrong_name()
    credentials = grpc.ssl_server_credentials([(leaf.key.read_bytes(), leaf.cert.read_bytes())])
    name = ("--upstream-server-name", "elsewhere.example")
    with named("a", credentials=credentials) as (server,):
        url = f"grpcs://{HOST}:{server.port}"
        trust = (*files, "--upstream-cacert", str(leaf.ca))
        with Web.open(gateway(own, url, flags=trust), "h1") as web:
            reason = refusal(web.ask("GET", "/say/x"), UNAVAILABLE, UNAVAILABLE_CODE)
            assert "cannot be reached" in reason
        with Web.open(gateway(own, url, flags=(*trust, *name)), "h1") as web:
            assert said_by(web) == "a"
        # With whatever certificate, and a word about that.
        unverified = gateway(own, url, flags=(*files, "--upstream-insecure"))
        with Web.open(unverified, "h1") as web:
            assert said_by(web) == "a"
        warning = "warning: --upstream-insecure: no certificate is verified"
        assert unverified.process.log.read_text().count(warning) == 1
    with grpc_scripted.serving(Call.answer) as scripted:
        with Web.open(gateway(own, scripted.base, flags=(*files, *name)), "h1") as web:
            assert said_by(web) == "x"
        assert scripted.next_call().fields[":authority"] == "elsewhere.example"


def test_a_server_at_a_unix_socket(own: Own, files: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "echo.sock"
    with named("a", where=f"unix:{path}"):
        url = f"grpc+unix://{path}"
        with Web.open(gateway(own, url, flags=files), "h1") as web:
            assert said_by(web) == "a"
        # By reflection, which this server does not have; it is asked there all the same.
        assert "offers no reflection" in said("--upstream", url, code=2)
