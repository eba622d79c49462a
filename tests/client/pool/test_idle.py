"""A connection on which nobody waits: its peer is answered, and its end is known."""

from __future__ import annotations

import asyncio
import os
import warnings

import pytest
from h2.events import SettingsAcknowledged

from client.face import MakeClient
from client.waits import until
from client.wire import h3_chaos
from peers import h2_library
from peers.authority import Authority
from peers.peer import cleartext, secure
from trilane import _core
from trilane.client import Client
from trilane.client.http import HTTPConnection

HOST = "127.0.0.1"
LIMIT_S = 60.0


def test_ping_and_settings_are_answered_on_an_idle_connection(make_client: MakeClient) -> None:
    client = make_client(versions=("h2",))
    with h2_library.serving() as server:
        assert client.get(cleartext(server.port)).content == b"hello world"
        server.expect(SettingsAcknowledged)
        for _ in range(3):
            server.ping()
            server.say(lambda h2: h2.update_settings({}))
            server.expect(SettingsAcknowledged)
        # It is used as before, and idle again.
        assert client.get(cleartext(server.port)).content == b"hello world"
        server.ping()


def test_http_connection_answers_before_and_after_its_first_request() -> None:
    with h2_library.serving() as server:
        connection = HTTPConnection(HOST, server.port, timeout=LIMIT_S, versions=("h2",))
        connection.connect()
        server.expect(SettingsAcknowledged)
        server.ping()
        for _ in range(3):
            connection.request("GET", "/")
            assert connection.get_response().read() == b"hello world"
            server.ping()
        connection.close()
        server.expect_end()


def test_ping_is_answered_after_a_response_in_several_continuations(
    make_client: MakeClient,
) -> None:
    # h2specd 6.10.1, which comes with END_STREAM and so leaves the connection idle.
    fields = [("x-first", "1" * 20_000), ("x-second", "2" * 20_000)]
    client = make_client(versions=("h2",))
    with h2_library.serving(fields, b"") as server:
        response = client.get(cleartext(server.port))
        assert (response.content, response.headers["x-second"]) == (b"", "2" * 20_000)
        server.ping()


def test_a_response_that_is_not_read_keeps_nothing_from_being_answered() -> None:
    with h2_library.serving() as server:
        connection = _core.connect(
            HOST, server.port, scheme="http", versions=("h2",), timeout=LIMIT_S
        )
        exchange = connection.submit("GET", "/", [])
        assert exchange.head(LIMIT_S) == 200
        server.ping()
        assert exchange.read(timeout=LIMIT_S) == b"hello world"
        connection.close()


@pytest.mark.parametrize("how", ["goaway", "close"])
def test_the_end_of_an_idle_connection_is_known_without_looking(how: str) -> None:
    with h2_library.serving() as server:
        connection = _core.connect(
            HOST, server.port, scheme="http", versions=("h2",), timeout=LIMIT_S
        )
        assert connection.submit("GET", "/", []).head(LIMIT_S) == 200
        # After its GOAWAY hyper-h2 takes nothing more.
        server.expect(SettingsAcknowledged)
        assert not connection.is_closing
        if how == "goaway":
            server.say(lambda h2: h2.close_connection())
        else:
            server.hang_up()
        # The property reads nothing from the socket.
        until(lambda: connection.is_closing)
        connection.close()


def test_a_client_ends_its_idle_connections_without_a_word_from_anybody(
    make_client: MakeClient,
) -> None:
    client = make_client(versions=("h2",))
    with h2_library.serving() as server:
        assert client.get(cleartext(server.port)).content == b"hello world"
        server.ping()
        client.close()
        server.expect_end()


def test_what_is_let_go_of_is_closed() -> None:
    with h2_library.serving() as server:
        connection = _core.connect(
            HOST, server.port, scheme="http", versions=("h2",), timeout=LIMIT_S
        )
        server.ping()
        del connection
        server.expect_end()


def test_an_idle_connection_of_the_parent_goes_on_after_a_fork() -> None:
    with h2_library.serving() as server, Client(versions=("h2",), timeout=LIMIT_S) as client:
        assert client.get(cleartext(server.port)).content == b"hello world"
        server.ping()
        child = _fork_quietly()
        if child == 0:
            # Whatever ends here is the parent's too.
            client.close(abort=True)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        server.ping()
        client.close()
        server.expect_end()


def _fork_quietly() -> int:
    # Python 3.12 warns of threads, which this test is about.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def test_quic_pings_are_answered_on_an_idle_connection(
    make_client: MakeClient, authority: Authority
) -> None:
    connections: list[h3_chaos.Server] = []

    def script(server: h3_chaos.Server, stream: int) -> None:
        connections.append(server)
        server.send(stream, h3_chaos.response(), end=True)

    client = make_client(versions=("h3",), verify=str(authority.ca))
    with h3_chaos.serve(script, authority.local()) as port:
        assert client.get(secure(port)).content == b"hello world"
        (quic,) = connections
        for _ in range(3):
            acknowledged = asyncio.run_coroutine_threadsafe(quic.ping(), quic._loop)
            acknowledged.result(LIMIT_S)
