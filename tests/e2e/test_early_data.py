"""Requests in early data, and resumed sessions: with nginx, Caddy, OpenSSL and our own server."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from peers import caddy, chaos, embedded, nginx
from peers.peer import Peer
from peers.process import HOST, find
from repository import native

from .loading import flag, load

if TYPE_CHECKING:
    from peers.authority import Authority
    from peers.running import Peers

Own = Callable[[Callable[[Path], Peer]], Peer]

TAKES_EARLY_DATA = "ssl_early_data on;"


def taking(own: Own, authority: Authority, name: str) -> Peer:
    """A server that takes early data."""
    if name == "nginx":
        leaf = authority.local()
        return own(lambda folder: nginx.start(folder, leaf, directives=TAKES_EARLY_DATA))
    if name == "caddy":
        return own(lambda folder: caddy.start(folder, authority.local()))
    return own(lambda folder: embedded.start(native(), folder, early_data=True))


def one_by_one(peer: Peer, listener: str, path: str | None = None) -> dict[str, Any]:
    """The set-up of a run of twenty requests, each on a connection of its own, after the other."""
    arguments = [flag(listener), "-c", "1", "-n", "20", "--cacert", str(peer.ca)]
    arguments += ["--new-connections", "--early-data"]
    report = load(*arguments, peer.url(listener, path)).good
    assert report["requests"]["ok"] == 20
    assert report["plan"]["asked"]["early_data"]
    return report


@pytest.mark.parametrize(
    ("name", "listener"),
    [
        ("nginx", "h1s"),
        ("nginx", "h2"),
        ("caddy", "h3"),
        ("embedded", "h2"),
        ("embedded", "h3"),
    ],
)
def test_all_but_the_first_request_go_early(
    own: Own, authority: Authority, name: str, listener: str
) -> None:
    phases = one_by_one(taking(own, authority, name), listener)["phases"]
    assert phases["handshakes"] == {"full": 1, "resumed": 19, "early_data": 19}
    early = phases["early_data"]
    assert (early["offered"], early["accepted"], early["requests"]) == (19, 19, 19)
    assert (early["rejected"], early["requests_rejected"], early["too_early"]) == (0, 0, 0)
    assert phases["measured"]["early_data"] == early


@pytest.mark.parametrize("listener", ["h1s", "h2"])
def test_what_is_too_early_is_sent_again_behind_the_handshake(
    own: Own, authority: Authority, listener: str
) -> None:
    report = one_by_one(taking(own, authority, "nginx"), listener, "/late")
    early = report["phases"]["early_data"]
    assert early["accepted"] == early["requests"] == 19
    # Where the handshake is done as nginx looks at a request, it is not too early any more.
    late = report["status"].get("425", 0)
    assert early["too_early"] == report["requests"]["retried"] == late
    assert report["status"]["200"] == 20
    assert report["connections"]["established"] == 20


def test_what_is_rejected_is_sent_again(own: Own, authority: Authority) -> None:
    listener = "h2"
    # Neither knows the other's sessions, and they take turns.
    both = [taking(own, authority, "nginx") for _ in range(2)]
    ports = itertools.cycle(int(peer.bases[listener].rsplit(":")[-1]) for peer in both)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(HOST, next(ports))
        await asyncio.gather(pump(reader, forth), pump(back, writer))

    with chaos.serve(relay) as server:
        base = f"https://localhost:{server.port}"
        peer = Peer(both[0].process, {listener: base}, both[0].ca)
        report = one_by_one(peer, listener)
    phases = report["phases"]
    assert phases["handshakes"] == {"full": 20, "resumed": 0, "early_data": 0}
    early = phases["early_data"]
    assert (early["rejected"], early["requests"], early["requests_rejected"]) == (19, 19, 19)
    assert (report["status"], report["requests"]["failed"]) == ({"200": 20}, 0)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes one way until they end."""
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()
    writer.close()


@pytest.mark.parametrize(("name", "listener"), [("nginx", "h1s"), ("nginx", "h2"), ("caddy", "h3")])
@pytest.mark.parametrize("resume", ["on", "off"])
def test_sessions_are_resumed_unless_told_otherwise(
    peers: Peers, name: str, listener: str, resume: str
) -> None:
    peer = peers[name]
    arguments = [flag(listener), "-c", "1", "-n", "10", "--cacert", str(peer.ca)]
    arguments += ["--new-connections", "--resume", resume]
    report = load(*arguments, peer.url(listener)).good
    resumed = 9 if resume == "on" else 0
    handshakes = report["phases"]["handshakes"]
    assert handshakes == {"full": 10 - resumed, "resumed": resumed, "early_data": 0}
    assert report["phases"]["early_data"] is None


@pytest.mark.parametrize("listener", ["h2", "h3"])
def test_the_embedded_server_takes_early_data_only_when_told(peers: Peers, listener: str) -> None:
    phases = one_by_one(peers["embedded"], listener)["phases"]
    assert phases["handshakes"] == {"full": 1, "resumed": 19, "early_data": 0}
    assert phases["early_data"]["offered"] == 0


@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("POST", 425)])
def test_the_embedded_server_answers_openssl_early(
    own: Own, authority: Authority, tmp_path: Path, method: str, status: int
) -> None:
    peer = taking(own, authority, "embedded")
    request = tmp_path / "request"
    head = f"{method} /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    request.write_bytes((head + "Content-Length: 0\r\n\r\n").encode())
    session = str(tmp_path / "session")

    def s_client(*arguments: str, given: bytes) -> str:
        address = peer.bases["h1s"].removeprefix("https://")
        program = find("openssl", "apt-get install openssl")
        asked = [program, "s_client", "-connect", address, "-servername", "localhost"]
        asked += ["-CAfile", str(peer.ca), "-alpn", "http/1.1", "-ign_eof", *arguments]
        run = subprocess.run(asked, input=given, capture_output=True, timeout=60, check=False)
        return run.stdout.decode()

    s_client("-sess_out", session, given=request.read_bytes())
    told = s_client("-sess_in", session, "-early_data", str(request), given=b"")
    assert "Early data was accepted" in told
    assert f"HTTP/1.1 {status} " in told
