"""Threads that share a client of either kind: one connection, no bursts, nothing left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from client.face import AnyClient, Each, LoopClient, MakeClient
from client.waits import until
from lab.contenders.counting import CountingRelay
from peers import chaos
from peers.peer import Peer
from peers.running import Peers
from trilane.client._flow.timeouts import Timeouts
from trilane.client.errors import ClientClosed, ConnectTimeout, Error, PoolTimeout


def _port(base: str) -> int:
    port = urlsplit(base).port
    assert port is not None
    return port


def _together(count: int, call: Callable[[int], object]) -> None:
    """Call it from that many threads, all beginning at once."""
    ready = threading.Barrier(count)

    def run(number: int) -> None:
        ready.wait()
        call(number)

    with ThreadPoolExecutor(count) as threads:
        for each in [threads.submit(run, number) for number in range(count)]:
            each.result()


def waiting(client: AnyClient) -> int:
    """How many requests have a place in a queue for a connection."""
    if isinstance(client, LoopClient):
        pool = client.asynchronous._pool
        return 0 if pool is None else pool.router._waiting
    return client._pool._router._waiting


def test_64_threads_send_their_requests_on_one_connection(
    make_client: MakeClient, server: Peer
) -> None:
    url = server.url("h2")
    wrong: list[bytes] = []
    with CountingRelay(_port(url)) as relay:
        client = make_client(versions=("h2", "h1"), verify=str(server.ca))
        through = url.replace(f":{_port(url)}", f":{relay.port}")

        def call(_number: int) -> None:
            for _ in range(5):
                response = client.get(through)
                if response.content != b"hello world" or response.version != "h2":
                    wrong.append(response.content)

        _together(64, call)
        assert wrong == []
        assert relay.tcp == 1
        assert len(client.connections) == 1
        client.close()


@pytest.mark.parametrize("version", ["h2", "h3"])
def test_50_threads_at_once_open_one_connection(
    make_client: MakeClient, server: Peer, version: str
) -> None:
    url = server.url(version)
    with CountingRelay(_port(url)) as relay:
        versions = ("h3",) if version == "h3" else ("h2", "h1")
        client = make_client(versions=versions, verify=str(server.ca))
        through = url.replace(f":{_port(url)}", f":{relay.port}")
        _together(50, lambda _: client.get(through).content.index(b"hello"))
        assert relay.connections == 1
        client.close()


def test_50_threads_at_once_against_http_1_stay_below_the_limit(
    make_client: MakeClient, server: Peer
) -> None:
    url = server.url("h1s")
    with CountingRelay(_port(url)) as relay:
        client = make_client(versions=("h1",), verify=str(server.ca), max_per_origin=6)
        through = url.replace(f":{_port(url)}", f":{relay.port}")
        _together(50, lambda _: client.get(through).content.index(b"hello"))
        assert 1 <= relay.tcp <= 6
        assert len(client.connections) == relay.tcp
        client.close()


def test_threads_wait_for_a_connection_and_are_served(
    make_client: MakeClient, server: Peer
) -> None:
    client = make_client(max_connections=2)
    with client.stream("GET", server.url("h1")):
        # The other one serves them all, one after another.
        _together(20, lambda _: client.get(server.url("h1")).content.index(b"hello"))
        assert len(client.connections) == 2


def test_connections_of_two_origins_are_apart(client: AnyClient, server: Peer) -> None:
    client.get(server.url("h1"))
    client.get(server.url("h2"))
    client.get(server.url("h2").replace("localhost", "127.0.0.1"))
    assert len(client.connections) == 3
    assert {version for _, version in client.connections} == {"h1", "h2"}


def test_a_pool_timeout_names_the_limit(make_client: MakeClient, server: Peer) -> None:
    client = make_client(max_connections=1)
    with (
        client.stream("GET", server.url("h1")),
        pytest.raises(PoolTimeout, match=r"free within 0\.2 s: read .*Timeouts\(pool="),
    ):
        client.get(server.url("h1"), timeout=Timeouts(pool=0.2))
    assert client.get(server.url("h1")).status == 200


def test_a_held_response_gives_way_when_it_is_closed(make_client: MakeClient, server: Peer) -> None:
    url = server.url("h1")
    client = make_client(max_connections=1)
    with client.stream("GET", url) as held, ThreadPoolExecutor(1) as threads:
        other = threads.submit(lambda: client.get(url).status)
        until(lambda: waiting(client))
        assert not other.done()
        held.close()
        assert other.result() == 200


def test_closing_at_once_ends_what_is_read(each: Each) -> None:
    client, _, base = each
    response = client.send("GET", f"{base}/bytes/50m")
    client.close(abort=True)
    # What had come is there, and it is not all.
    with pytest.raises(ConnectionError):
        response.read()
    assert client.connections == []
    with pytest.raises(ClientClosed, match="make a new one"):
        client.get(f"{base}/hello")
    client.close(abort=True)


def test_closing_ends_the_waiting(make_client: MakeClient, server: Peer) -> None:
    client = make_client(max_connections=1)
    held = client.send("GET", server.url("h1", "/bytes/50m"))
    with ThreadPoolExecutor(5) as threads:
        others = [threads.submit(client.get, server.url("h1")) for _ in range(5)]
        until(lambda: waiting(client) == 5)
        client.close(abort=True)
        for other in others:
            with pytest.raises(ClientClosed):
                other.result()
    held.close()


def test_who_waits_for_a_handshake_has_a_connect_timeout_too(make_client: MakeClient) -> None:
    client = make_client()
    with ThreadPoolExecutor(1) as threads:
        with chaos.serve(chaos.silent) as server:
            url = server.base.replace("http:", "https:")
            first = threads.submit(client.get, url)
            until(lambda: server.connections)
            with pytest.raises(ConnectTimeout, match=r"0\.3 s"):
                client.get(url, timeout=Timeouts(connect=0.3))
            assert not first.done()
        with pytest.raises(Error):
            first.result()


@pytest.mark.parametrize(("name", "version"), [("nginx", "h2"), ("embedded", "h3")])
def test_more_threads_than_the_server_has_streams(
    make_client: MakeClient, peers: Peers, name: str, version: str
) -> None:
    peer = peers[name]
    client = make_client(versions=(version,), verify=str(peer.ca))
    with ThreadPoolExecutor(150) as threads:
        statuses = threads.map(lambda url: client.get(url).status, [peer.url(version)] * 300)
        assert set(statuses) == {200}
    assert len(client.connections) <= 4
