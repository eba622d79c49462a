"""HTTP/3: found by Alt-Svc, remembered, and given up where UDP goes nowhere."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from client.face import AnyClient, LoopClient, MakeClient
from client.waits import PATIENCE_S
from lab.contenders.counting import CountingRelay
from peers.peer import Peer
from trilane.client import errors
from trilane.client._flow.origins import parse
from trilane.client._flow.timeouts import Timeouts


def _port(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handshake of HTTP/3 has time, however busy the machine is."""
    monkeypatch.setattr("trilane.client._flow.routing.LEAST_PATIENCE_S", PATIENCE_S)


@pytest.mark.usefixtures("patient")
def test_alt_svc_leads_to_http_3(make_client: MakeClient, server: Peer) -> None:
    client = make_client(verify=str(server.ca))
    versions = [client.get(server.url("h2")).version for _ in range(5)]
    assert versions == ["h2", "h3", "h3", "h3", "h3"]
    assert len(client.connections) == 2


@pytest.mark.usefixtures("patient")
def test_alt_svc_of_another_server_leads_to_http_3_too(
    make_client: MakeClient, caddy_peer: Peer
) -> None:
    client = make_client(verify=str(caddy_peer.ca))
    versions = [client.get(caddy_peer.url("h2")).version for _ in range(3)]
    assert versions == ["h2", "h3", "h3"]


@pytest.mark.usefixtures("patient")
def test_an_alternative_that_is_misdirected_is_given_up(
    make_client: MakeClient, server: Peer
) -> None:
    client = make_client(verify=str(server.ca))
    assert [client.get(server.url("h2")).version for _ in range(2)] == ["h2", "h3"]
    # The origin itself says the same then, and that is the response.
    response = client.get(server.url("h2", "/status/421"))
    assert (response.status, response.version) == (421, "h2")
    assert client.get(server.url("h2")).version == "h2"
    assert [version for _, version in client.connections] == ["h2"]


def test_what_is_raced_and_misdirected_is_given_up_too(
    make_client: MakeClient, server: Peer
) -> None:
    client = make_client(verify=str(server.ca), race=True)
    # Its handshake has a head start, which a busy machine may use up.
    raced = client.get(server.url("h2")).version
    response = client.get(server.url("h2", "/status/421"))
    assert (response.status, response.version) == (421, "h2")
    assert raced in {"h3", "h2"}
    assert client.get(server.url("h2")).version == "h2"


@pytest.mark.usefixtures("patient")
def test_content_that_was_sent_once_is_not_sent_to_the_origin_too(
    make_client: MakeClient, server: Peer
) -> None:
    client = make_client(verify=str(server.ca))
    assert [client.get(server.url("h2")).version for _ in range(2)] == ["h2", "h3"]
    response = client.post(server.url("h2", "/status/421"), iter([b"once"]))
    assert (response.status, response.version) == (421, "h3")
    assert client.get(server.url("h2")).version == "h2"


@pytest.mark.usefixtures("patient")
def test_a_change_of_the_network_forgets_alternatives(
    make_client: MakeClient, server: Peer
) -> None:
    client = make_client(verify=str(server.ca))
    assert client.get(server.url("h2")).version == "h2"
    client.network_changed()
    assert client.get(server.url("h2")).version == "h2"
    assert client.get(server.url("h2")).version == "h3"


@pytest.mark.parametrize("settings", [{"alternatives": "off"}, {"versions": ("h2", "h1")}])
def test_it_is_not_used_where_it_is_switched_off(
    make_client: MakeClient, server: Peer, settings: dict[str, object]
) -> None:
    client = make_client(verify=str(server.ca), **settings)
    assert [client.get(server.url("h2")).version for _ in range(3)] == ["h2"] * 3


@pytest.mark.usefixtures("patient")
def test_threads_go_over_without_a_failure(make_client: MakeClient, server: Peer) -> None:
    client = make_client(verify=str(server.ca))
    url = server.url("h2")
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda _: client.get(url).version, range(200)))
    assert set(found) <= {"h2", "h3"}
    assert client.get(url).version == "h3"


@contextmanager
def _black_hole(server: Peer) -> Iterator[str]:
    """A URL of the server; what is sent to the same port over UDP is never answered."""
    url = server.url("h2")
    with CountingRelay(_port(url)) as relay:
        relay._selector.unregister(relay._datagrams)
        yield url.replace(f":{_port(url)}", f":{relay.port}")
        assert relay.tcp <= 1


def _announce(client: AnyClient, url: str) -> None:
    """As if the server had sent Alt-Svc."""
    origin, value = parse(url).origin, f'h3=":{_port(url)}"'
    if isinstance(client, LoopClient):
        pool = client.thread.call(client.asynchronous._pool_here)
        client.thread.call(pool.learn, origin, value, 0.0)
    else:
        client._pool.learn(origin, value, 0.0)


@pytest.mark.parametrize("standing", [False, True])
def test_udp_that_goes_nowhere_is_tried_once(
    make_client: MakeClient, nginx_peer: Peer, standing: bool
) -> None:
    with _black_hole(nginx_peer) as url:
        client = make_client(verify=str(nginx_peer.ca))
        if standing:
            assert client.get(url).version == "h2"
        _announce(client, url)
        assert [client.get(url).version for _ in range(6)] == ["h2"] * 6
        assert len(client.connections) == 1
        client.close()


def test_other_threads_do_not_wait_for_the_try(make_client: MakeClient, nginx_peer: Peer) -> None:
    with _black_hole(nginx_peer) as url, ThreadPoolExecutor(8) as threads:
        client = make_client(verify=str(nginx_peer.ca))
        client.get(url)
        _announce(client, url)
        assert set(threads.map(lambda _: client.get(url).version, range(100))) == {"h2"}
        client.close()


def test_http_3_alone_where_udp_goes_nowhere(make_client: MakeClient, server: Peer) -> None:
    client = make_client(versions=("h3",), verify=str(server.ca))
    with _black_hole(server) as url, pytest.raises(errors.ConnectTimeout):
        client.get(url, timeout=Timeouts(connect=0.5))


def test_http_3_alone_where_nobody_listens(make_client: MakeClient) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(errors.ConnectFailed):
        make_client(versions=("h3",)).get(f"https://127.0.0.1:{port}/")


def test_without_tls_there_is_none(make_client: MakeClient, server: Peer) -> None:
    client = make_client(versions=("h3",))
    with pytest.raises(errors.VersionUnavailable, match="add h1 to versions"):
        client.get(server.url("h1"))


def test_fifty_threads_over_http_3(make_client: MakeClient, server: Peer) -> None:
    client = make_client(versions=("h3",), verify=str(server.ca))
    url = server.url("h3", "/bytes/10k")
    with ThreadPoolExecutor(50) as threads:
        sizes = {len(r.content) for r in threads.map(lambda _: client.get(url), range(300))}
    assert sizes == {10240}
    assert len(client.connections) == 1
