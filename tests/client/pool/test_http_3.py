"""HTTP/3: found by Alt-Svc, remembered, and given up where UDP goes nowhere."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from lab.contenders.counting import CountingRelay
from peers.peer import Peer
from trilane.client import errors
from trilane.client.origins import parse
from trilane.client.pool import Client
from trilane.client.timeouts import Timeouts


def _port(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


def test_alt_svc_leads_to_http_3(server: Peer) -> None:
    with Client(verify=str(server.ca), timeout=20.0) as client:
        versions = [client.get(server.url("h2")).version for _ in range(5)]
        assert versions == ["h2", "h3", "h3", "h3", "h3"]
        assert len(client.connections) == 2


def test_alt_svc_of_another_server_leads_to_http_3_too(caddy_peer: Peer) -> None:
    with Client(verify=str(caddy_peer.ca), timeout=20.0) as client:
        versions = [client.get(caddy_peer.url("h2")).version for _ in range(3)]
        assert versions == ["h2", "h3", "h3"]


def test_an_alternative_that_is_misdirected_is_given_up(server: Peer) -> None:
    with Client(verify=str(server.ca), timeout=20.0) as client:
        assert [client.get(server.url("h2")).version for _ in range(2)] == ["h2", "h3"]
        # The origin itself says the same then, and that is the response.
        response = client.get(server.url("h2", "/status/421"))
        assert (response.status, response.version) == (421, "h2")
        assert client.get(server.url("h2")).version == "h2"
        assert [version for _, version in client.connections] == ["h2"]


def test_a_change_of_the_network_forgets_alternatives(server: Peer) -> None:
    with Client(verify=str(server.ca), timeout=20.0) as client:
        assert client.get(server.url("h2")).version == "h2"
        client.network_changed()
        assert client.get(server.url("h2")).version == "h2"
        assert client.get(server.url("h2")).version == "h3"


def test_it_is_not_used_where_it_is_switched_off(server: Peer) -> None:
    for client in (
        Client(verify=str(server.ca), alternatives="off"),
        Client(verify=str(server.ca), versions=("h2", "h1")),
    ):
        with client:
            assert [client.get(server.url("h2")).version for _ in range(3)] == ["h2"] * 3


def test_it_can_be_raced_at_once(server: Peer) -> None:
    with Client(verify=str(server.ca), race=True, timeout=20.0) as client:
        assert client.get(server.url("h3")).version == "h3"


def test_threads_go_over_without_a_failure(server: Peer) -> None:
    with (
        Client(verify=str(server.ca), timeout=30.0) as client,
        ThreadPoolExecutor(16) as threads,
    ):
        url = server.url("h2")
        found = list(threads.map(lambda _: client.get(url).version, range(200)))
    assert set(found) == {"h2", "h3"}
    assert found[-1] == "h3"


@contextmanager
def _black_hole(server: Peer) -> Iterator[str]:
    """A URL of the server; what is sent to the same port over UDP is never answered."""
    url = server.url("h2")
    with CountingRelay(_port(url)) as relay:
        relay._selector.unregister(relay._datagrams)
        yield url.replace(f":{_port(url)}", f":{relay.port}")
        assert relay.tcp <= 1


def _announce(client: Client, url: str) -> None:
    """As if the server had sent Alt-Svc."""
    client._pool.learn(parse(url).origin, f'h3=":{_port(url)}"', 0.0)


@pytest.mark.parametrize("standing", [False, True])
def test_udp_that_goes_nowhere_costs_one_request_a_moment(nginx_peer: Peer, standing: bool) -> None:
    with _black_hole(nginx_peer) as url, Client(verify=str(nginx_peer.ca), timeout=20.0) as client:
        if standing:
            assert client.get(url).version == "h2"
        _announce(client, url)
        began = time.monotonic()
        assert client.get(url).version == "h2"
        assert time.monotonic() - began < 5.0
        assert [client.get(url).version for _ in range(5)] == ["h2"] * 5
        assert len(client.connections) == 1


def test_other_threads_do_not_wait_for_the_try(nginx_peer: Peer) -> None:
    with (
        _black_hole(nginx_peer) as url,
        Client(verify=str(nginx_peer.ca), timeout=20.0) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        client.get(url)
        _announce(client, url)
        assert set(threads.map(lambda _: client.get(url).version, range(100))) == {"h2"}


def test_http_3_alone_where_udp_goes_nowhere(server: Peer) -> None:
    with (
        _black_hole(server) as url,
        Client(versions=("h3",), verify=str(server.ca)) as client,
        pytest.raises(errors.ConnectTimeout),
    ):
        client.get(url, timeout=Timeouts(connect=0.5))


def test_http_3_alone_where_nobody_listens() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with Client(versions=("h3",), timeout=2.0) as client, pytest.raises(errors.ConnectFailed):
        client.get(f"https://127.0.0.1:{port}/")


def test_without_tls_there_is_none(server: Peer) -> None:
    with (
        Client(versions=("h3",)) as client,
        pytest.raises(errors.VersionUnavailable, match="add h1 to versions"),
    ):
        client.get(server.url("h1"))


def test_fifty_threads_over_http_3(server: Peer) -> None:
    with (
        Client(versions=("h3",), verify=str(server.ca), timeout=30.0) as client,
        ThreadPoolExecutor(50) as threads,
    ):
        url = server.url("h3", "/bytes/10k")
        assert {len(r.content) for r in threads.map(lambda _: client.get(url), range(500))} == {
            10240
        }
        assert len(client.connections) == 1
