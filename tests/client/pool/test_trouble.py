"""Trouble beyond the table of `client/behaviours`: many threads, files, servers that die."""

from __future__ import annotations

import asyncio
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from client.face import AnyClient, MakeClient
from peers import chaos, embedded, h2_chaos
from peers.peer import Peer
from peers.running import Peers
from repository import native
from trilane.client import errors
from trilane.client._flow import repeating

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world"


@pytest.fixture
def one(make_client: MakeClient) -> AnyClient:
    return make_client()


@pytest.fixture
def two(make_client: MakeClient) -> AnyClient:
    """HTTP/2 by prior knowledge."""
    return make_client(versions=("h2",))


def test_goaway_under_many_threads(two: AnyClient) -> None:
    with chaos.serve(h2_chaos.goaway_each(20)) as server, ThreadPoolExecutor(8) as threads:
        found = threads.map(lambda _: two.get(server.base).content, range(160))
        assert set(found) == {b"hello world"}
        assert server.connections >= 8


def test_a_file_is_sent_again_from_where_it_stood(two: AnyClient) -> None:
    with chaos.serve(h2_chaos.reset_each(2, 7)) as server:
        two.get(server.base)
        file = io.BytesIO(b"skipped" + bytes(1000))
        file.seek(7)
        assert two.post(server.base, file).content == b"hello world"
        assert file.tell() == 1007


def test_refusal_for_ever_ends(two: AnyClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeating, "_LONGEST_PAUSE_S", 0.001)
    streams: list[int] = []

    def refuse(stream: int, writer: asyncio.StreamWriter) -> None:
        streams.append(stream)
        writer.write(h2_chaos.frame(h2_chaos.RST_STREAM, 0, stream, bytes([0, 0, 0, 7])))

    with chaos.serve(h2_chaos.server(refuse)) as server, pytest.raises(errors.StreamReset):
        two.get(server.base)
    assert len(streams) == repeating.MOST_ATTEMPTS


def test_no_such_host(one: AnyClient) -> None:
    with pytest.raises(errors.ResolveError, match=r"nowhere\.invalid"):
        one.get("http://nowhere.invalid/")


@pytest.mark.parametrize("url", ["ftp://example.org/", "nowhere", "http://[::1", "http://a:b/"])
def test_a_url_that_is_none_is_refused(one: AnyClient, url: str) -> None:
    with pytest.raises(errors.InvalidRequest):
        one.get(url)


@pytest.mark.parametrize("listener", ["h1s", "h2", "h3"])
def test_a_server_that_dies_ends_every_request_with_an_error(
    make_client: MakeClient, tmp_path: Path, listener: str
) -> None:
    peer = embedded.start(native(), tmp_path)
    try:
        client = make_client(versions=(listener[:2],), verify=str(peer.ca))
        client.get(peer.url(listener))
        count = 20
        with ThreadPoolExecutor(count) as threads:
            url = peer.url(listener, "/drip?bytes=2&duration=300s&delay=0")
            responses = [client.send("GET", url) for _ in range(count)]
            reading = [threads.submit(response.read) for response in responses]
            peer.process.kill()
            # Of a dead peer of QUIC the kernel tells whoever sends.
            for _ in range(2):
                with pytest.raises(errors.Error):
                    client.get(peer.url(listener))
            for each in reading:
                with pytest.raises(errors.Error):
                    each.result()
            for response in responses:
                response.close()
        assert client.connections == []
    finally:
        peer.stop()


def test_http_1_0_is_named(one: AnyClient) -> None:
    with chaos.serve(chaos.answer(b"HTTP/1.0 200 Fine\r\n\r\nhello", then="close")) as server:
        response = one.get(server.base)
        assert (response.version, response.reason) == ("h1.0", "Fine")
        assert response.content == b"hello"
        assert one.connections == []


@pytest.mark.parametrize(("kind", "listener"), [("blocking", "h1"), ("asyncio", "h2")])
def test_a_large_upload(make_client: MakeClient, nginx_peer: Peer, listener: str) -> None:
    url = nginx_peer.url(listener, nginx_peer.upload)
    block = bytes(1 << 20)
    client = make_client(versions=(listener[:2],), verify=str(nginx_peer.ca))
    assert client.post(url, (block for _ in range(4))).status == 200
    assert client.post(url, block * 4).status == 200
    # Above the server's client_max_body_size: it answers to the head alone.
    assert client.post(url, block * 80).status == 413
    assert client.get(nginx_peer.url(listener)).status == 200


@pytest.mark.parametrize(
    ("kind", "name", "listener"),
    [
        *(("blocking", "nginx", "h1s"), ("asyncio", "nginx", "h2c")),
        *(("asyncio", "caddy", "h1"), ("blocking", "caddy", "h3")),
        *(("blocking", "hypercorn", "h2"), ("asyncio", "hypercorn", "h3")),
    ],
)
def test_servers_of_others_are_understood(
    make_client: MakeClient, peers: Peers, name: str, listener: str
) -> None:
    peer = peers[name]
    client = make_client(versions=(listener[:2],), verify=str(peer.ca))
    with ThreadPoolExecutor(10) as threads:

        def ask(url: str) -> tuple[str, bytes]:
            response = client.get(url)
            return response.version, response.content

        found = threads.map(ask, [peer.url(listener)] * 20)
        assert set(found) == {(listener[:2], b"hello world")}
    if peer.upload is not None:
        sent = bytes(range(250)) * 2_800
        response = client.post(peer.url(listener, peer.upload), sent)
        assert response.status == 200
        if peer.echoes:
            assert response.content == sent
