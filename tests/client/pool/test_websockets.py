"""WebSockets, over both faces: Hypercorn over all versions of HTTP, and the library websockets."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import websockets.exceptions
import websockets.http11
import websockets.sync.server
from websockets.utils import accept_key

from client.face import AnyClient, MakeClient
from client.waits import PATIENCE_S
from peers.process import HOST
from peers.proxy import proxy
from peers.streams import Streams
from trilane.client import Client, errors


@pytest.fixture
def peer(streaming: Streams) -> Streams:
    return streaming


@pytest.fixture
def client(
    make_client: MakeClient, peer: Streams, version: str, monkeypatch: pytest.MonkeyPatch
) -> AnyClient:
    if version == "h3":
        # Hypercorn never ends the stream, so that all of this is waited for.
        for face in ("_pool", "_aio"):
            monkeypatch.setattr(f"trilane.client.{face}.websocket.LINGER_S", 0.05)
    return make_client(versions=(version,), verify=peer.ca)


def _ws(url: str) -> str:
    return "ws" + url.removeprefix("http")


def test_messages_come_back_as_they_were(client: AnyClient, peer: Streams, version: str) -> None:
    with client.websocket(_ws(peer.url(version, "/talk"))) as ws:
        assert ws.version == version
        for message in ("text", "ä€😀", "", b"binary", b"", "x" * 300_000, bytes(300_000)):
            ws.send(message)
            assert ws.recv(PATIENCE_S) == message
        ws.close(1000, "done")
        assert (ws.close_code, ws.subprotocol) == (1000, None)
        with pytest.raises(errors.WebSocketClosed):
            ws.send("more")
        with pytest.raises(errors.WebSocketClosed):
            ws.recv()
    # Others can have the connection, where it is shared.
    assert client.get(peer.url(version, "/lines")).status == 200


def test_the_server_chooses_a_subprotocol(client: AnyClient, peer: Streams, version: str) -> None:
    url = peer.url(version, "/talk")
    with client.websocket(url, subprotocols=["a", "b"], headers={"x": "y"}) as ws:
        assert ws.subprotocol == "b"


def test_iteration_ends_with_the_conversation(
    client: AnyClient, peer: Streams, version: str
) -> None:
    with client.websocket(_ws(peer.url(version, "/ticks"))) as ws:
        assert list(ws) == ["tick 0", "tick 1", "tick 2"]
        assert ws.close_code == 1000


def test_code_and_reason_of_the_server(client: AnyClient, peer: Streams, version: str) -> None:
    with client.websocket(_ws(peer.url(version, "/farewell"))) as ws:
        ws.send("go on")
        with pytest.raises(errors.WebSocketClosed, match="4001, 'enough'") as caught:
            list(ws)
        assert (caught.value.code, caught.value.reason) == (4001, "enough")
        assert (ws.close_code, ws.close_reason) == (4001, "enough")


def test_a_refusal_is_told(client: AnyClient, peer: Streams, version: str) -> None:
    url = _ws(peer.url(version, "/refused"))
    if version == "h3":
        # Hypercorn puts the field `connection` into it, which HTTP/3 does not have.
        with pytest.raises(errors.RemoteProtocolError), client.websocket(url):
            pass
        return
    with pytest.raises(errors.StreamRefused, match="status 403") as caught, client.websocket(url):
        pass
    assert caught.value.error_code == 403


def test_many_at_a_time(client: AnyClient, peer: Streams, version: str) -> None:
    url = _ws(peer.url(version, "/talk"))
    with client.websocket(url) as one, client.websocket(url) as other:
        for number in range(10):
            one.send(f"one {number}")
            other.send(f"other {number}")
        assert [other.recv(PATIENCE_S) for _ in range(10)] == [f"other {n}" for n in range(10)]
        assert [one.recv(PATIENCE_S) for _ in range(10)] == [f"one {n}" for n in range(10)]
        if version != "h1":
            assert len(client.connections) == 1


def test_threads_send_while_another_receives(
    client: AnyClient, peer: Streams, version: str
) -> None:
    messages = [f"{sender} {number} " + "x" * 5000 for sender in range(3) for number in range(20)]
    with client.websocket(_ws(peer.url(version, "/talk")), compression=False) as ws:

        def send(mine: list[str]) -> None:
            for message in mine:
                ws.send(message)

        threads = [
            threading.Thread(target=send, args=(messages[at : at + 20],)) for at in (0, 20, 40)
        ]
        for thread in threads:
            thread.start()
        had = [ws.recv(PATIENCE_S) for _ in messages]
        for thread in threads:
            thread.join()
    assert sorted(had) == sorted(messages)
    for sender in "012":
        assert [m for m in had if m[0] == sender] == [m for m in messages if m[0] == sender]


def test_a_wait_that_ends_takes_nothing(client: AnyClient, peer: Streams, version: str) -> None:
    with client.websocket(_ws(peer.url(version, "/talk"))) as ws:
        with pytest.raises(errors.ReadTimeout, match="no message within 0"):
            ws.recv(0)
        ws.send("still there")
        assert ws.recv(PATIENCE_S) == "still there"


def test_an_end_without_a_word(client: AnyClient, peer: Streams, version: str) -> None:
    with client.websocket(_ws(peer.url(version, "/lost"))) as ws:
        ws.send("go on")
        with pytest.raises(errors.WebSocketClosed) as caught:
            ws.recv(PATIENCE_S)
        # Hypercorn says 1006 by ending it, or 1011.
        assert caught.value.code in {1006, 1011}


Handler = Callable[[websockets.sync.server.ServerConnection], None]


@contextmanager
def _library(handler: Handler, **settings: Any) -> Iterator[str]:
    """A server of the library, over HTTP/1.1."""
    with websockets.sync.server.serve(handler, HOST, 0, **settings) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://{HOST}:{server.socket.getsockname()[1]}/"
        finally:
            server.shutdown()
            thread.join()


def _echo(server: websockets.sync.server.ServerConnection) -> None:
    for message in server:
        server.send(message)


def test_a_redirect_may_name_ws(make_client: MakeClient) -> None:
    """As the libraries of servers and `websockets` itself write it."""

    def moved(
        server: websockets.sync.server.ServerConnection, request: websockets.http11.Request
    ) -> websockets.http11.Response:
        answer = server.respond(302, "")
        answer.headers["Location"] = there + request.path[1:]
        return answer

    client = make_client(follow_redirects=True)
    with _library(_echo) as there, _library(_echo, process_request=moved) as url:
        with client.websocket(f"{url}a?b=c") as ws:
            ws.send("moved")
            assert ws.recv(PATIENCE_S) == "moved"
        # What wants a page is not led to a WebSocket.
        with pytest.raises(errors.RedirectError, match="has the scheme 'ws'"):
            client.get(url.replace("ws://", "http://"))


def test_messages_are_compressed(make_client: MakeClient) -> None:
    sizes: list[int] = []

    def handler(server: websockets.sync.server.ServerConnection) -> None:
        sizes.append(len(server.protocol.extensions))
        _echo(server)

    client = make_client()
    with _library(handler) as url:
        with client.websocket(url) as ws:
            assert ws.extensions == ["permessage-deflate"]
            for message in ("a" * 100_000, b"b" * 100_000):
                ws.send(message)
                assert ws.recv(PATIENCE_S) == message
        with client.websocket(url, compression=False) as ws:
            assert ws.extensions == []
    assert sizes == [1, 0]


def test_fragments_go_both_ways(make_client: MakeClient) -> None:
    def handler(server: websockets.sync.server.ServerConnection) -> None:
        server.send(list(server.recv_streaming()))

    with _library(handler) as url:
        cases: list[tuple[list[Any], str | bytes]] = [
            (["a", "b€", "", "c"], "ab€c"),
            ([b"a", b"b"], b"ab"),
        ]
        for message, whole in cases:
            with make_client().websocket(url) as ws:
                ws.send(message)
                assert ws.recv(PATIENCE_S) == whole


def test_pings_of_both_sides_are_answered(make_client: MakeClient) -> None:
    answered = threading.Event()

    def handler(server: websockets.sync.server.ServerConnection) -> None:
        assert server.ping(b"from the server").wait(PATIENCE_S)
        answered.set()
        server.send("answered")
        _echo(server)

    with _library(handler, ping_interval=None) as url, make_client().websocket(url) as ws:
        assert ws.recv(PATIENCE_S) == "answered"
        assert answered.is_set()
        ws.ping(b"from here")
        ws.send("x")
        assert ws.recv(PATIENCE_S) == "x"
        with pytest.raises(errors.InvalidRequest, match="126 bytes"):
            ws.ping(bytes(126))


def test_a_large_message_ends_it(make_client: MakeClient) -> None:
    told: list[int | None] = []

    def handler(server: websockets.sync.server.ServerConnection) -> None:
        server.send("x" * 1001)
        try:
            server.recv()
        except websockets.exceptions.ConnectionClosed as closed:
            told.append(None if closed.rcvd is None else closed.rcvd.code)

    with _library(handler) as url:
        for compression in (True, False):
            with make_client().websocket(url, max_size=1000, compression=compression) as ws:
                with pytest.raises(errors.WebSocketClosed) as caught:
                    ws.recv(PATIENCE_S)
                assert caught.value.code == 1009
    assert told == [1009, 1009]


def test_text_that_is_no_utf_8_ends_it(make_client: MakeClient) -> None:
    def handler(server: websockets.sync.server.ServerConnection) -> None:
        server.send(b"\xff", text=True)
        for _ in server:
            pass

    with _library(handler) as url, make_client().websocket(url, compression=False) as ws:
        with pytest.raises(errors.WebSocketClosed) as caught:
            ws.recv(PATIENCE_S)
        assert caught.value.code == 1007


def test_a_server_that_answers_pings_may_be_silent(make_client: MakeClient) -> None:
    # A server has all of the interval to answer; `tests/unit/client/test_pings.py` has many.
    with _library(_echo) as url, make_client().websocket(url, ping_interval=0.5) as ws:
        with pytest.raises(errors.ReadTimeout, match="no message"):
            ws.recv(0.6)
        ws.send("x")
        assert ws.recv(PATIENCE_S) == "x"


def test_a_server_that_answers_no_ping_is_given_up(make_client: MakeClient) -> None:
    with socket.create_server((HOST, 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += connection.recv(1)
                key = re.search(rb"(?i)sec-websocket-key: (.*)\r", head)
                assert key is not None
                accept = accept_key(key[1].decode()).encode()
                connection.sendall(
                    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                    b"Connection: Upgrade\r\nSec-WebSocket-Accept: %b\r\n\r\n" % accept
                )
                while connection.recv(4096):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"ws://{HOST}:{listener.getsockname()[1]}/"
        with (
            pytest.raises(errors.ReadTimeout, match="did not answer a Ping"),
            make_client().websocket(url, ping_interval=0.05) as opened,
        ):
            opened.recv()
        thread.join(PATIENCE_S)


def test_a_page_is_no_websocket(make_client: MakeClient, peer: Streams) -> None:
    url = peer.url("h1", "/lines")
    with (
        pytest.raises(errors.StreamRefused) as caught,
        make_client(versions=("h1",)).websocket(url),
    ):
        pass
    assert caught.value.error_code is not None


def test_http_2_without_websockets_falls_back_to_http_1(
    make_client: MakeClient, nginx_peer: Any
) -> None:
    """nginx speaks HTTP/2 without extended CONNECT; over HTTP/1.1 it serves a file for any GET."""
    url = nginx_peer.url("h2")
    both = make_client(versions=("h2", "h1"), verify=str(nginx_peer.ca))
    with pytest.raises(errors.StreamRefused, match="status 200"), both.websocket(url):
        pass
    alone = make_client(versions=("h2",), verify=str(nginx_peer.ca))
    with pytest.raises(errors.VersionUnavailable, match="RFC 8441"), alone.websocket(url):
        pass


def test_wrong_settings_are_named(make_client: MakeClient) -> None:
    client = make_client()
    for setting, error in (
        ({"max_size": 0}, ValueError),
        ({"ping_interval": -1}, ValueError),
        ({"subprotocols": "chat"}, TypeError),
    ):
        with (
            pytest.raises(error, match=next(iter(setting))),
            client.websocket("ws://a/", **setting),
        ):
            pass


def test_a_proxy_is_asked_for_a_tunnel(make_client: MakeClient, peer: Streams) -> None:
    url = _ws(peer.url("h1", "/talk"))
    authorization = "Basic bWU6c2VjcmV0"
    with proxy(authorization=authorization) as seen:
        client = make_client(proxies=seen.address.replace("://", "://me:secret@"))
        # The requests that the proxy is handed have connections of their own.
        client.get(peer.url("h1", "/missing"))
        assert seen.lines[0].startswith("GET http://")
        with client.websocket(url) as socket_:
            socket_.send("through")
            assert socket_.recv() == "through"
        place = urlsplit(url).netloc
        assert seen.lines[-1] == f"CONNECT {place} HTTP/1.1"
        assert seen.authorizations[-1] == authorization
    with proxy(refuse=403) as seen:
        client = make_client(proxies=seen.address)
        with pytest.raises(errors.ProxyError, match="403"), client.websocket(url):
            pass
        headers = {"Proxy-Authorization": authorization}
        with (
            pytest.raises(errors.InvalidRequest, match="stand in its URL"),
            client.websocket(url, headers=headers),
        ):
            pass


def test_without_the_library_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['websockets'] = None\n"
        "from trilane.client import Client\n"
        "try:\n"
        "    with Client().websocket('ws://a/'): pass\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert "trilane[websocket]" in done.stdout


def test_a_thread_closes_while_another_receives(peer: Streams) -> None:
    with Client(timeout=PATIENCE_S) as client, client.websocket(peer.url("h1", "/talk")) as ws:
        ended: list[BaseException] = []

        def receive() -> None:
            try:
                ws.recv()
            except errors.WebSocketClosed as error:
                ended.append(error)

        thread = threading.Thread(target=receive)
        thread.start()
        ws.close(1000)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert [getattr(error, "code", None) for error in ended] == [1000]
