"""`Client` and `HTTPConnection` against servers that are not ours: what callers see in the end."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from client.waits import until
from peers import caddy, gonet, nginx
from peers.authority import Authority
from peers.peer import Peer
from peers.running import Peers
from trilane.client import Client, errors

from .opening import WAIT_S, in_threads

Own = Callable[[Callable[[Path], Peer]], Peer]
TEXT = b"hello world " * 4096


@pytest.fixture
def client(authority: Authority) -> Iterator[Client]:
    with Client(verify=str(authority.ca), timeout=WAIT_S, proxies=None) as made:
        yield made


def test_alt_svc_leads_to_quic(peers: Peers, client: Client) -> None:
    url = peers["caddy"].url("h2")
    versions = {client.get(url).version for _ in range(5)}
    assert versions <= {"h2", "h3"}
    assert client.get(url).version == "h3"


def test_a_server_that_dies_is_found_again(own: Own, authority: Authority) -> None:
    leaf = authority.local()
    peer = own(lambda folder: nginx.start(folder, leaf))
    ports = tuple(int(peer.bases[name].rpartition(":")[2]) for name in ("h1", "h1s", "h2c", "h2"))
    for version in ("h1", "h2"):
        with Client(
            versions=(version,), verify=str(authority.ca), timeout=WAIT_S, proxies=None
        ) as client:
            url = peer.url("h1s" if version == "h1" else "h2")
            assert client.get(url).content == b"hello world"
            peer.process.kill()
            # Its worker may take the request with it, or the handshake of the next connection.
            ended = (errors.ConnectionRefused, errors.ConnectionClosed, errors.TLSError)
            with pytest.raises(ended):
                client.get(url)
            peer = own(lambda folder: nginx.start(folder, leaf, ports=ports))  # type: ignore[arg-type]
            assert client.get(url).content == b"hello world"


def test_content_is_decoded(own: Own, authority: Authority, client: Client) -> None:
    peer = own(lambda folder: caddy.start(folder, authority.local(), codings=("zstd", "gzip")))
    (peer.process.log.parent / "htdocs" / "text.txt").write_bytes(TEXT)
    url = peer.url("h2", "/text.txt")
    # The first is what the server likes best.
    asking: dict[str, dict[str, str]] = {"zstd": {}, "gzip": {"accept-encoding": "gzip"}}
    for coding, fields in asking.items():
        response = client.get(url, headers=fields)
        assert response.headers["content-encoding"] == coding
        assert response.content == TEXT
        with client.stream("GET", url, headers=fields) as streamed:
            pieces = list(streamed.iter_bytes(1000))
        assert b"".join(pieces) == TEXT
        assert len(client.get(url, headers=fields, decode=False).content) < len(TEXT) // 10
    asked = client.get(url, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in asked.headers
    assert asked.content == TEXT


# Bad servers, as callers of http.client know them.


def test_threads_share_a_client(peers: Peers, client: Client) -> None:
    urls = [peers["nginx"].url("h2"), peers["gonet"].url("h2"), peers["nginx"].url("h1")]

    def work(index: int) -> None:
        for turn in range(10):
            response = client.get(urls[(index + turn) % 3])
            assert (response.status, response.content) == (200, b"hello world")

    in_threads(12, work)
    origins = [origin for origin, version in client.connections if version == "h2"]
    assert len(origins) == len(set(origins)) == 2


def test_threads_and_a_server_that_is_replaced(peers: Peers, client: Client) -> None:
    peer = peers["gonet"]
    stop = threading.Event()
    done = [0] * 6

    def work(index: int) -> None:
        try:
            while not stop.is_set():
                assert client.get(peer.url("h2")).content == b"hello world"
                done[index] += 1
        finally:
            stop.set()

    def some_more() -> None:
        before = list(done)
        until(lambda: stop.is_set() or all(map(operator.gt, done, before)))

    def replace() -> None:
        for _ in range(3):
            some_more()
            gonet.shut_down_and_succeed(peer)
        some_more()
        stop.set()

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        in_threads(6, work)
    finally:
        stop.set()
        thread.join()
    assert all(done)
