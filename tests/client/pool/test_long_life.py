"""Clients that live long: after a thousand requests nothing is left open, and no place is lost.

The garbage collector is off: a program that has little garbage meets it as seldom.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import trio
import websockets.sync.server

from client.face import AnyClient, LoopClient, MakeClient
from client.waits import until
from peers import cut
from peers.peer import Peer
from trilane.client import ConnectTimeout, Error, ReadTimeout, Timeouts
from trilane.client._aio import AsyncClient
from trilane.client._pool import Client
from trilane.client.errors import TotalTimeout
from trilane.client.httpx import AsyncTransport

ROUNDS = 8
AT_ONCE = 50
OWN = 8
"""Descriptors of a client and its connections that stand: each has two."""


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture(autouse=True)
def _uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def together(client: AnyClient, urls: list[str], **options: Any) -> list[Any]:
    """GET all of them at once: what came of each."""
    if isinstance(client, LoopClient):
        client_of_loop = client.asynchronous

        async def gathered() -> list[Any]:
            getting = (client_of_loop.get(url, **options) for url in urls)
            came: list[Any] = await asyncio.gather(*getting, return_exceptions=True)
            return came

        return client.thread.run(gathered())
    return list(client.get_all(urls, **options))


def places(client: AnyClient) -> tuple[int, int, int]:
    """Leases, attempts and calls that wait, of all that a client's pool counts."""
    if isinstance(client, LoopClient):
        return client.thread.call(lambda: counted(client.asynchronous._pool.router))  # type: ignore[union-attr]
    client._pool.entries()
    return counted(client._pool._router)


def counted(router: Any) -> tuple[int, int, int]:
    for group in router._groups.values():
        known = [*router.entries, *router._attempts]
        assert group.count + group.draining == sum(one.route == group.route for one in known)
    return sum(entry.leases for entry in router.entries), len(router._attempts), router._waiting


def test_connections_that_ended_leave_nothing_open(
    make_client: MakeClient, server: Peer, version: str
) -> None:
    client = make_client(versions=(version,), verify=str(server.ca), idle_timeout=0.0)
    urls = [server.bases[version] + "/bytes/10"] * AT_ONCE
    together(client, urls)
    before = descriptors()
    for _ in range(ROUNDS):
        # Each round finds the connections of the last one idle for too long.
        assert [response.status for response in together(client, urls)] == [200] * AT_ONCE
    until(lambda: descriptors() <= before + OWN)
    assert places(client) == (0, 0, 0)


def test_trio_and_httpx_leave_nothing_open(server: Peer, version: str) -> None:
    url = server.bases[version] + "/bytes/10"
    left: list[int] = []

    async def ours() -> None:
        async with AsyncClient(
            versions=(version,), verify=str(server.ca), idle_timeout=0.0
        ) as client:
            await client.get(url)
            before = descriptors()
            for _ in range(ROUNDS):
                await client.get(url)
            left.append(descriptors() - before)

    async def httpxs() -> None:
        transport = AsyncTransport(
            versions=(version,), verify=str(server.ca), limits=httpx.Limits(keepalive_expiry=0.0)
        )
        async with httpx.AsyncClient(transport=transport) as client:
            await client.get(url)
            before = descriptors()
            for _ in range(ROUNDS):
                await client.get(url)
            left.append(descriptors() - before)

    trio.run(ours)
    trio.run(httpxs)
    asyncio.run(httpxs())
    assert max(left) <= OWN, left


def test_websockets_leave_nothing_open(make_client: MakeClient) -> None:
    def echo(one: websockets.sync.server.ServerConnection) -> None:
        for message in one:
            one.send(message)

    with websockets.sync.server.serve(echo, "127.0.0.1", 0) as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        client = make_client(versions=("h1",))
        url = f"ws://127.0.0.1:{serving.socket.getsockname()[1]}/"
        # Those of the server are in this process, and are its own.
        before = descriptors()
        for _ in range(ROUNDS):
            with client.websocket(url) as ws:
                ws.send("hello")
                assert ws.recv(120.0) == "hello"
        until(lambda: descriptors() <= before + OWN)
        serving.shutdown()
        thread.join()
    assert places(client) == (0, 0, 0)


def test_a_connection_that_fell_silent_fails_one_round(
    make_client: MakeClient, server: Peer, version: str
) -> None:
    """As when a NAT has forgotten the flow: neither end is told."""
    port = urlsplit(server.bases[version]).port
    assert port is not None
    with cut.to(port) as way:
        url = f"{urlsplit(server.bases[version]).scheme}://localhost:{way.port}/bytes/10"
        client = make_client(versions=(version,), verify=str(server.ca), max_connections=20)
        patient = Timeouts(120.0, 120.0, 120.0, 120.0)
        # Of HTTP/1.1 each connection has to be found out for itself.
        urls = [url] * (1 if version == "h1" else 10)
        before = descriptors()
        for _ in range(2):
            for _ in range(5):
                answered = together(client, urls, timeout=patient)
                assert {response.status for response in answered} == {200}
            way.cut()
            with pytest.raises(ReadTimeout):
                client.get(url, timeout=patient._replace(read=0.2))
        # Those of the silent ones, which were not idle for too long yet, and of what carries them.
        until(lambda: descriptors() <= before + 6 * OWN)
        assert places(client) == (0, 0, 0)


def test_retries_go_round_a_connection_that_fell_silent(
    make_client: MakeClient, server: Peer, version: str
) -> None:
    port = urlsplit(server.bases[version]).port
    assert port is not None
    with cut.to(port) as way:
        url = f"{urlsplit(server.bases[version]).scheme}://localhost:{way.port}/bytes/10"
        client = make_client(
            versions=(version,),
            verify=str(server.ca),
            retries=3,
            max_per_origin=1,
            timeout=Timeouts(120.0, 0.3, 120.0, 120.0),
        )
        client.get(url, timeout=120.0)
        way.cut()
        assert client.get(url).status == 200


@contextmanager
def deaf() -> Iterator[int]:
    """A port of every address of this machine where nobody answers, by TCP or UDP."""
    with (
        socket.socket() as listener,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket() as first,
        socket.socket() as second,
    ):
        listener.bind(("", 0))
        port = listener.getsockname()[1]
        udp.bind(("", port))
        # The queue of connections that wait to be accepted is full then.
        listener.listen(0)
        for one in (first, second):
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        yield port


@pytest.mark.parametrize(("kind", "version"), [("blocking", "h2"), ("asyncio", "h3")])
def test_hosts_that_do_not_answer_hold_up_no_other(
    make_client: MakeClient, server: Peer, version: str
) -> None:
    client = make_client(versions=(version,), verify=str(server.ca), max_connections=100)
    url = server.bases[version] + "/bytes/10"
    urls = [url] * 10
    together(client, urls)
    before = descriptors()
    failed: list[BaseException] = []

    def ask(number: int, port: int) -> None:
        try:
            client.get(f"https://127.0.1.{number}:{port}/", timeout=120.0)
        except Error as error:
            failed.append(error)

    with deaf() as port:
        asking = [threading.Thread(target=ask, args=(n, port), daemon=True) for n in range(1, 61)]
        for one in asking:
            one.start()
        until(lambda: places(client)[1] == len(asking))
        for _ in range(ROUNDS):
            answered = together(client, urls)
            assert [response.status for response in answered] == [200] * len(urls)
        assert failed == []
    # Nobody listens there any more, which the system says at the next attempt.
    for one in asking:
        one.join()
    assert len(failed) == len(asking)
    assert places(client) == (0, 0, 0)
    until(lambda: descriptors() <= before + OWN)


@pytest.mark.parametrize(
    ("limits", "late"),
    [
        (Timeouts(connect=0.2, read=None, write=None, pool=None), ConnectTimeout),
        (Timeouts(None, None, None, None, total=0.2), TotalTimeout),
    ],
)
def test_a_resolver_that_takes_too_long_is_not_waited_for(
    make_client: MakeClient, server: Peer, limits: Timeouts, late: type[Error]
) -> None:
    answers = threading.Event()

    def resolver(host: str, _port: int) -> str | None:
        if host == "slow.example":
            answers.wait()
        return "127.0.0.1"

    client = make_client(versions=("h1",), resolver=resolver)
    try:
        with pytest.raises(late):
            client.get("http://slow.example/", timeout=limits)
        # And it holds up no other name.
        assert client.get(server.bases["h1"].replace("127.0.0.1", "fast.example")).status == 200
    finally:
        answers.set()
    assert places(client) == (0, 0, 0)


class Interrupted(BaseException):
    """What a signal handler raises, such as the time limit of a job."""


class Interrupting:
    """Raises at one of the points at which Python runs signal handlers."""

    def __init__(self) -> None:
        self.left = 0

    def __call__(self, frame: Any, event: str, _: object) -> None:
        # As a function begins, and as one in C has ended.
        if event not in {"call", "c_return"} or "trilane/client" not in frame.f_code.co_filename:
            return
        self.left -= 1
        if self.left == 0:
            raise Interrupted

    def at(self, point: int, work: Callable[[], object]) -> bool:
        """Whether the work came to that point of it."""
        self.left = point
        sys.setprofile(self)
        try:
            work()
        except Interrupted:
            return True
        finally:
            sys.setprofile(None)
        return False


def test_what_a_signal_handler_raises_loses_no_place(
    server: Peer, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignored: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    url = server.bases[version] + "/bytes/10"
    interrupting = Interrupting()
    with Client(
        versions=(version,), verify=str(server.ca), max_connections=2, timeout=60.0
    ) as client:

        def whole() -> None:
            client.get(url)

        def dropped() -> None:
            with client.stream("GET", url) as response:
                response.read1(1)

        whole()
        before = descriptors()
        for work in (whole, dropped):
            point = 1
            while interrupting.at(point, work):
                point += 1
                assert places(client) == (0, 0, 0)
            assert point > 30
        assert places(client) == (0, 0, 0)
        until(lambda: descriptors() <= before + 4)
        assert client.get(url).status == 200
    assert ignored == []
