"""What a client has for each request, for its long streams too; and these in runs of Trio."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio
import websockets.sync.server
from websockets.http11 import Request, Response

from client.face import MakeClient
from client.waits import PATIENCE_S
from peers.process import HOST
from peers.streams import Streams
from trilane.client import AsyncClient, Timeouts

VERSIONS = ("h1", "h2", "h3")


@pytest.fixture
def peer(streaming: Streams) -> Streams:
    return streaming


@contextmanager
def _chat(asked: list[Request]) -> Iterator[str]:
    """The library's own server, which sends `/old` elsewhere, and keeps what it is asked."""

    def look(server: websockets.sync.server.ServerConnection, request: Request) -> Response | None:
        asked.append(request)
        if not request.path.startswith("/old"):
            return None
        response = server.respond(307, "elsewhere\n")
        response.headers["location"] = "/chat"
        response.headers["set-cookie"] = "seen=1"
        return response

    def talk(server: websockets.sync.server.ServerConnection) -> None:
        for message in server:
            server.send(message)

    with websockets.sync.server.serve(talk, HOST, 0, process_request=look) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://{HOST}:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_a_websocket_has_what_every_request_has(make_client: MakeClient) -> None:
    asked: list[Request] = []
    with _chat(asked) as url:
        client = make_client(
            base_url=url,
            auth=("user", "pass"),
            cookies={"a": "b"},
            params={"key": "1"},
            headers={"x-own": "yes"},
        )
        with client.websocket("/chat", headers={"x-more": "too"}) as ws:
            ws.send("hello")
            assert ws.recv(PATIENCE_S) == "hello"
            assert ws.url == "ws" + url.removeprefix("http") + "/chat?key=1"
    (request,) = asked
    assert request.path == "/chat?key=1"
    fields = {name: request.headers[name] for name in ("cookie", "x-own", "x-more")}
    assert fields == {"cookie": "a=b", "x-own": "yes", "x-more": "too"}
    assert request.headers["authorization"] == "Basic dXNlcjpwYXNz"


def test_a_redirect_leads_to_the_websocket(make_client: MakeClient) -> None:
    asked: list[Request] = []
    with _chat(asked) as url:
        client = make_client(follow_redirects=True)
        with client.websocket(url + "/old") as ws:
            ws.send(b"there")
            assert ws.recv(PATIENCE_S) == b"there"
    assert [request.path for request in asked] == ["/old", "/chat"]
    assert asked[1].headers["cookie"] == "seen=1"
    keys = [request.headers["sec-websocket-key"] for request in asked]
    assert all(keys)


def test_a_limit_of_the_whole_is_for_the_handshake(make_client: MakeClient) -> None:
    with _chat([]) as url:
        # It is over before the message: that has the limit of writing alone.
        limits = Timeouts(write=PATIENCE_S, total=0.5)
        with make_client().websocket(url, timeout=limits) as ws:
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    ws.recv(0.4)
            ws.send("late")
            assert ws.recv(PATIENCE_S) == "late"


@pytest.mark.parametrize("version", VERSIONS)
def test_events_are_below_the_base(make_client: MakeClient, peer: Streams, version: str) -> None:
    client = make_client(
        versions=(version,), verify=peer.ca, base_url=peer.url(version, ""), follow_redirects=True
    )
    assert [event.id for event in client.events("/numbers")] == list("123456")
    events = client.events("/words", method="POST", data={"a": "b"})
    assert [event.data for event in events] == ["a=b", "[DONE]"]


def test_events_with_files_are_not_asked_for_again(make_client: MakeClient, peer: Streams) -> None:
    with pytest.raises(ValueError, match="give bytes or str, not dict"):
        make_client().events(peer.url("h1", "/words"), files={"a": b"b"}, reconnect=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_conversation_of_a_session(make_client: MakeClient, peer: Streams, version: str) -> None:
    """Both directions stream at once also where redirects and retries are looked after."""
    answers: queue.Queue[bytes] = queue.Queue()
    counted: list[int] = []

    def content() -> Iterator[bytes]:
        yield b"0\n"
        while (line := answers.get(timeout=PATIENCE_S)) != b"3":
            yield b"%d\n" % (int(line) + 1)

    async def awaited() -> AsyncIterator[bytes]:
        source = content()
        while (block := await asyncio.to_thread(next, source, None)) is not None:
            yield block

    client = make_client(
        versions=(version,),
        verify=peer.ca,
        follow_redirects=True,
        retries=2,
        cookies={"a": "b"},
    )
    given: Any = awaited() if hasattr(client, "asynchronous") else content()
    url = peer.url(version, "/echo")
    with client.stream(
        "POST",
        url,
        content=given,
        timeout=Timeouts(total=PATIENCE_S),
        progress=lambda count, _: counted.append(count),
    ) as response:
        had = []
        for line in response.iter_lines():
            had.append(line)
            answers.put(line.encode())
    assert had == ["0", "1", "2", "3"]
    assert counted == [0, 2, 4, 6, 8]


def test_streams_in_a_run_of_trio(peer: Streams) -> None:
    async def main() -> None:
        async with AsyncClient(versions=("h2",), verify=peer.ca, timeout=PATIENCE_S) as client:
            ids = [event.id async for event in client.events(peer.url("h2", "/numbers"))]
            assert ids == list("123456")
            url = peer.url("h2", "/talk")
            async with client.websocket(url) as ws, trio.open_nursery() as nursery:

                async def say(number: int) -> None:
                    await ws.send(f"{number} " + "x" * 300_000)

                for number in range(8):
                    nursery.start_soon(say, number)
                had = {(await ws.recv(PATIENCE_S))[:1] for _ in range(8)}
                assert had == set("01234567")
                with pytest.raises(TimeoutError):
                    await ws.recv(0.01)
                with trio.move_on_after(0.01) as scope:
                    await ws.recv()
                assert scope.cancelled_caught
                await ws.send("after that")
                assert await ws.recv(PATIENCE_S) == "after that"
            assert ws.close_code == 1000
            async with client.websocket(peer.url("h2", "/ticks")) as ws:
                assert [message async for message in ws] == ["tick 0", "tick 1", "tick 2"]

    trio.run(main)


def test_a_server_sees_the_end_while_the_websocket_is_held(make_client: MakeClient) -> None:
    ended = threading.Event()

    def talk(server: websockets.sync.server.ServerConnection) -> None:
        # To the end of the connection: the library waits for that after both have said Close.
        for message in server:
            server.send(message)
        ended.set()

    with websockets.sync.server.serve(talk, HOST, 0, ping_interval=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"ws://{HOST}:{server.socket.getsockname()[1]}"
            with make_client().websocket(url) as ws:
                ws.send("hello")
                assert ws.recv(PATIENCE_S) == "hello"
            assert ended.wait(PATIENCE_S)
            assert ws.close_code == 1000
        finally:
            server.shutdown()
            thread.join()
