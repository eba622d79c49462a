"""Servers that misbehave: what is sent again, and what is which error."""

from __future__ import annotations

import asyncio
import io
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from client.face import AnyClient, MakeClient
from client.waits import until
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


def test_goaway_is_not_seen_by_the_caller(two: AnyClient) -> None:
    with chaos.serve(h2_chaos.goaway_each(3)) as server:
        for _ in range(20):
            assert two.get(server.base).content == b"hello world"
        assert server.connections >= 7


def test_goaway_under_many_threads(two: AnyClient) -> None:
    with chaos.serve(h2_chaos.goaway_each(20)) as server, ThreadPoolExecutor(8) as threads:
        found = threads.map(lambda _: two.get(server.base).content, range(160))
        assert set(found) == {b"hello world"}
        assert server.connections >= 8


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_refused_streams_are_sent_again(two: AnyClient, method: str) -> None:
    with chaos.serve(h2_chaos.reset_each(2, 7)) as server:
        for _ in range(10):
            assert two.request(method, server.base, content=b"x").content == b"hello world"
        assert server.connections == 1


def test_content_that_cannot_be_sent_again_is_not(two: AnyClient) -> None:
    with chaos.serve(h2_chaos.reset_each(1, 7)) as server:
        with pytest.raises(errors.StreamReset) as caught:
            two.post(server.base, iter([b"once"]))
        assert caught.value.retryable
        assert caught.value.error_code == 7
        assert caught.value.stream_id == 1


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


def test_other_resets_are_not_sent_again(two: AnyClient) -> None:
    with chaos.serve(h2_chaos.reset_each(1, 2)) as server:
        with pytest.raises(errors.StreamReset) as caught:
            two.get(server.base)
        assert not caught.value.retryable
        assert isinstance(caught.value, ConnectionResetError)


def test_a_kept_connection_that_was_closed_is_replaced(one: AnyClient) -> None:
    closed = threading.Semaphore(0)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await chaos.request(reader)
        writer.write(OK)
        await chaos.close_at_accept(reader, writer)
        closed.release()

    with chaos.serve(script) as server:
        for method in ("GET", "POST", "GET"):
            assert one.request(method, server.base, content=None).content == b"hello world"
            # Its end is in our socket then: it was sent before the server's own wait for it ended.
            closed.acquire()
        assert server.connections == 3


async def _closes_at_the_second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes the second request of a connection, and closes instead of answering."""
    await chaos.request(reader)
    writer.write(OK)
    await chaos.request(reader)


def test_a_kept_connection_that_closes_under_a_request(one: AnyClient) -> None:
    with chaos.serve(_closes_at_the_second) as server:
        for _ in range(4):
            assert one.get(server.base).content == b"hello world"
        assert server.connections == 4
        # POST may have been processed (RFC 9110 §9.2.2).
        with pytest.raises(errors.ConnectionClosed) as caught:
            one.post(server.base, b"x")
        assert caught.value.retryable


def test_a_new_connection_that_closes_is_an_error(one: AnyClient) -> None:
    with chaos.serve(chaos.close_at_accept) as server:
        with pytest.raises(errors.ConnectionClosed):
            one.get(server.base)
        assert server.connections == 1


# What our errors are called in the tables of the bad servers.
KINDS: dict[str, tuple[type[BaseException], ...]] = {
    "timeout": (errors.Timeout,),
    "reset": (errors.StreamReset, errors.ConnectionClosed, errors.ConnectFailed),
    "closed": (errors.ConnectionClosed, errors.GoAway),
    "protocol": (errors.RemoteProtocolError,),
    "limit": (errors.LimitExceeded, errors.GoAway, errors.RemoteProtocolError),
    "body": (errors.IncompleteBody,),
}
# An error of each kind. `tests/conformance` has every rule that a server may break.
BAD = {
    "h1": [
        *("close at accept", "reset mid-body", "silent mid-body", "close mid-body"),
        *("garbage", "endless head"),
    ],
    "h2": [
        *("silent", "reset", "RST_STREAM", "content-length too long"),
        *("bad HPACK index", "endless CONTINUATION"),
    ],
}


@pytest.mark.parametrize(
    ("version", "name"), [(version, name) for version, names in BAD.items() for name in names]
)
def test_misbehaviour_is_named(make_client: MakeClient, version: str, name: str) -> None:
    script, kinds = (chaos.H1 if version == "h1" else h2_chaos.H2)[name]
    allowed = {each for kind in kinds for each in KINDS[kind]}
    with chaos.serve(script) as server:
        # Short where a limit is what ends it: what must fire should do so soon.
        client = make_client(versions=(version,), timeout=0.3 if "timeout" in kinds else 60.0)
        with pytest.raises(errors.Error) as caught:
            client.get(server.base)
        assert isinstance(caught.value, tuple(allowed)), (caught.value, kinds)
        assert str(caught.value)
        if version == "h1":
            until(lambda: client.connections == [])


def test_content_cut_off_keeps_what_came(one: AnyClient) -> None:
    with chaos.serve(chaos.answer(OK[:-6], then="close")) as server:
        with pytest.raises(errors.IncompleteBody) as caught:
            one.get(server.base)
        assert caught.value.partial == b"hello"


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
        # A dead peer of QUIC is told by the kernel, or by a limit.
        timeout = 5.0 if listener == "h3" else 60.0
        version = listener[:2]
        client = make_client(versions=(version,), verify=str(peer.ca), timeout=timeout)
        client.get(peer.url(listener))
        count = 20
        with ThreadPoolExecutor(count) as threads:
            url = peer.url(listener, "/drip?bytes=2&duration=300s&delay=0")
            responses = [client.send("GET", url) for _ in range(count)]
            reading = [threads.submit(response.read) for response in responses]
            peer.process.kill()
            for each in reading:
                with pytest.raises(errors.Error):
                    each.result()
            for response in responses:
                response.close()
        with pytest.raises(errors.Error):
            client.get(peer.url(listener))
        assert client.connections == []
    finally:
        peer.stop()


def test_http_1_0_is_named(one: AnyClient) -> None:
    with chaos.serve(chaos.answer(b"HTTP/1.0 200 Fine\r\n\r\nhello", then="close")) as server:
        response = one.get(server.base)
        assert (response.version, response.reason) == ("h1.0", "Fine")
        assert response.content == b"hello"
        assert one.connections == []


@pytest.mark.parametrize("listener", ["h1", "h2"])
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
    ("name", "listener"),
    [
        *(("nginx", listener) for listener in ("h1s", "h2c")),
        *(("caddy", listener) for listener in ("h1", "h3")),
        *(("hypercorn", listener) for listener in ("h2", "h3")),
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
