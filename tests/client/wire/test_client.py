"""`Client` and `HTTPConnection` against servers that are not ours: what callers see in the end."""

from __future__ import annotations

import base64
import http.client
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from peers import caddy, gonet, nginx
from peers.authority import Authority
from peers.chaos import H1, Script, answer, serve
from peers.h2_chaos import H2
from peers.peer import Peer
from peers.running import Peers
from trilane.client import Client, HTTPConnection, errors

from .memory import descriptors, little_memory
from .opening import EVERY, SPOKEN, WAIT_S, in_threads

Own = Callable[[Callable[[Path], Peer]], Peer]
TEXT = b"hello world " * 4096
# Made by node's zlib and by zstd: 64 MiB of zeros in br, 1,200 bytes of text in br and zstd.
BR_BOMB = (
    "y///P/gnAOKxQCD3/o///3/wTwDEYRGA7v0f////4J8AiMMCAN37P/7//8E/ARCHBQC693/8//+DfwIgDgsAdO//+P//B/8E"
    "QBwWAOje//H//w/+CYA4LADQvf/L//8//BMAcVgAoHv/Bw=="
)
BR_TEXT = "G68E+I2Ubt5EVYaWIGxvNYtjtUAGVNsLAA=="
ZSTD_TEXT = "KLUv/QRYnQAAYGhlbGxvIHdvcmxkIAEAofwvSQuy52M="


@pytest.fixture
def client(authority: Authority) -> Iterator[Client]:
    with Client(verify=str(authority.ca), timeout=WAIT_S, proxies=None) as made:
        yield made


def _only(version: str, authority: Authority) -> Client:
    return Client(versions=(version,), verify=str(authority.ca), timeout=WAIT_S, proxies=None)


@pytest.mark.parametrize(("name", "listener"), EVERY)
def test_get_head_and_post(peers: Peers, authority: Authority, name: str, listener: str) -> None:
    peer = peers[name]
    with _only(SPOKEN[listener], authority) as client:
        for _ in range(3):
            response = client.get(peer.url(listener))
            assert (response.status, response.content) == (200, b"hello world")
            assert response.version == SPOKEN[listener]
        if (name, listener) != ("caddy", "h3"):
            assert client.head(peer.url(listener)).content == b""
        if peer.upload is not None and (name, listener) != ("nghttpd-plain", "h2c"):
            posted = client.post(peer.url(listener, peer.upload), b"x" * 100_000)
            assert posted.content == (b"x" * 100_000 if peer.echoes else b"hello world")
        assert len(client.connections) == 1


@pytest.mark.parametrize(("name", "listener"), EVERY)
def test_connection_in_the_shape_of_http_client(
    peers: Peers, authority: Authority, name: str, listener: str
) -> None:
    peer = peers[name]
    host, _, port = peer.bases[listener].rpartition("//")[2].partition(":")
    with HTTPConnection(
        host,
        int(port),
        timeout=WAIT_S,
        secure=peer.bases[listener].startswith("https"),
        versions=(SPOKEN[listener],),
        ca=str(authority.ca),
    ) as connection:
        ids = [connection.request("GET", "/hello") for _ in range(5)]
        for stream_id in reversed(ids) if SPOKEN[listener] != "h1" else ids:
            response = connection.get_response(stream_id)
            assert (response.status, response.read()) == (200, b"hello world")
        connection.request("GET", "/bytes/16384")
        assert len(connection.getresponse().read()) == 16384


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
        with _only(version, authority) as client:
            url = peer.url("h1s" if version == "h1" else "h2")
            assert client.get(url).content == b"hello world"
            peer.process.kill()
            # Its worker may take the request with it, or the handshake of the next connection.
            ended = (errors.ConnectionRefused, errors.ConnectionClosed, errors.TLSError)
            with pytest.raises(ended):
                client.get(url)
            peer = own(lambda folder: nginx.start(folder, leaf, ports=ports))  # type: ignore[arg-type]
            assert client.get(url).content == b"hello world"


def test_quic_to_a_server_that_dies(own: Own, authority: Authority) -> None:
    peer = own(lambda folder: caddy.start(folder, authority.local()))
    url = peer.url("h3")
    with Client(versions=("h3",), verify=str(authority.ca), timeout=1.0, proxies=None) as client:
        assert client.get(url).content == b"hello world"
        peer.process.kill()
        with pytest.raises(errors.Error):
            client.get(url)


# Content codings.


@pytest.fixture
def compressing(own: Own, authority: Authority) -> dict[str, str]:
    """URLs of a text, by the coding that the server there prefers."""
    leaf = authority.local()
    gzips = "gzip on; gzip_types *; gzip_http_version 1.0;"
    zipper = own(lambda folder: nginx.start(folder, leaf, directives=gzips))
    other = own(lambda folder: caddy.start(folder, leaf, codings=("zstd", "gzip")))
    for peer in (zipper, other):
        (peer.process.log.parent / "htdocs" / "text.txt").write_bytes(TEXT)
    return {"gzip": zipper.url("h2", "/text.txt"), "zstd": other.url("h2", "/text.txt")}


def test_content_is_decoded(compressing: dict[str, str], client: Client) -> None:
    for coding, url in compressing.items():
        response = client.get(url)
        assert response.headers["content-encoding"] == coding
        assert response.content == TEXT
        with client.stream("GET", url) as streamed:
            pieces = list(streamed.iter_bytes(1000))
        assert b"".join(pieces) == TEXT
        plain = client.get(url, decode=False)
        assert len(plain.content) < len(TEXT) // 10
        asked = client.get(url, headers={"accept-encoding": "identity"})
        assert "content-encoding" not in asked.headers
        assert asked.content == TEXT


def _coded(coding: str, content: bytes) -> Script:
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return answer(head.encode(), content, then="go on")


@pytest.mark.parametrize(
    ("coding", "content", "expected"),
    [
        ("br", base64.b64decode(BR_TEXT), b"hello world " * 100),
        ("zstd", base64.b64decode(ZSTD_TEXT), b"hello world " * 100),
        ("deflate", zlib.compress(TEXT), TEXT),
        ("deflate", zlib.compress(TEXT)[2:-4], TEXT),
        ("gzip, br", b"", b""),
        ("identity", TEXT, TEXT),
        ("unheard-of", b"as it is", b"as it is"),
    ],
)
def test_other_codings(client: Client, coding: str, content: bytes, expected: bytes) -> None:
    with serve(_coded(coding, content)) as chaos:
        assert client.get(chaos.base).content == expected
        assert client.get(chaos.base).content == expected
        assert chaos.connections == 1


def _gzip(content: bytes) -> bytes:
    squeeze = zlib.compressobj(9, wbits=31)
    return squeeze.compress(content) + squeeze.flush()


@pytest.mark.parametrize(
    ("coding", "content"),
    [
        ("gzip, gzip", _gzip(_gzip(bytes(64 << 20)))),
        ("br", base64.b64decode(BR_BOMB)),
        ("deflate, gzip", _gzip(zlib.compress(bytes(64 << 20)))),
    ],
)
def test_bombs_are_refused(client: Client, coding: str, content: bytes) -> None:
    with (
        serve(_coded(coding, content)) as chaos,
        little_memory(32),
        pytest.raises(errors.DecodingError),
    ):
        client.get(chaos.base)


def test_a_limit_of_decoded_bytes() -> None:
    with (
        Client(max_decoded=10_000, timeout=WAIT_S, proxies=None) as client,
        serve(_coded("gzip", _gzip(TEXT))) as chaos,
        pytest.raises(errors.DecodingError),
    ):
        client.get(chaos.base)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_content_that_is_broken(client: Client, coding: str) -> None:
    whole = {
        "gzip": _gzip(TEXT),
        "deflate": zlib.compress(TEXT),
        "br": base64.b64decode(BR_TEXT),
        "zstd": base64.b64decode(ZSTD_TEXT),
    }[coding]
    for content in (whole[:-5], b"\xff\x00garbage" * 10):
        with serve(_coded(coding, content)) as chaos, pytest.raises(errors.DecodingError):
            client.get(chaos.base)


# Bad servers, as callers of http.client know them.


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("close at accept", http.client.RemoteDisconnected),
        # It may be seen while connecting.
        ("reset at accept", ConnectionError),
        ("silent after accept", TimeoutError),
        ("close mid-head", http.client.HTTPException),
        ("close mid-body", http.client.IncompleteRead),
        ("close mid-chunk", http.client.IncompleteRead),
        ("silent mid-body", TimeoutError),
        ("garbage", http.client.HTTPException),
        ("two content-lengths", http.client.HTTPException),
        ("endless head", http.client.HTTPException),
        ("endless 1xx", http.client.HTTPException),
        ("bad chunk size", http.client.HTTPException),
    ],
)
def test_bad_servers_are_what_http_client_says(name: str, kind: type[Exception]) -> None:
    before = descriptors()
    timeout = 0.3 if kind is TimeoutError else WAIT_S
    with serve(H1[name][0]) as chaos:
        with HTTPConnection("127.0.0.1", chaos.port, timeout=timeout) as connection:
            with pytest.raises(kind) as caught:
                _one(connection)
            assert isinstance(caught.value, errors.Error)
        with Client(timeout=timeout, proxies=None) as client, pytest.raises(kind):
            client.get(chaos.base)
    del caught
    assert descriptors() <= before


def _one(connection: HTTPConnection) -> bytes:
    connection.request("GET", "/")
    return connection.getresponse().read()


@pytest.mark.parametrize("name", [name for name in H2 if "refused" not in name])
def test_bad_servers_of_http_2(name: str) -> None:
    with (
        serve(H2[name][0]) as chaos,
        Client(versions=("h2",), timeout=0.5, proxies=None) as client,
        pytest.raises(errors.Error),
    ):
        client.get(chaos.base)


def test_threads_share_a_client(peers: Peers, client: Client) -> None:
    urls = [peers["nginx"].url("h2"), peers["gonet"].url("h2"), peers["nginx"].url("h1")]

    def work(index: int) -> None:
        for turn in range(30):
            response = client.get(urls[(index + turn) % 3])
            assert (response.status, response.content) == (200, b"hello world")

    in_threads(24, work)
    origins = [origin for origin, version in client.connections if version == "h2"]
    assert len(origins) == len(set(origins)) == 2


def test_threads_and_a_server_that_is_replaced(own: Own, peers: Peers, client: Client) -> None:
    peer = peers["gonet"]
    stop = threading.Event()
    done = [0] * 6

    def work(index: int) -> None:
        while not stop.is_set():
            assert client.get(peer.url("h2")).content == b"hello world"
            done[index] += 1

    def replace() -> None:
        for _ in range(5):
            stop.wait(0.15)
            gonet.shut_down_and_succeed(peer)
        stop.wait(0.2)
        stop.set()

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        in_threads(6, work)
    finally:
        stop.set()
        thread.join()
    assert min(done) > 5
