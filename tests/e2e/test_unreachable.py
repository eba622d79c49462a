"""Targets that cannot be reached, or not as asked: exit code 1 and one line."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from peers import chaos, nginx
from peers.peer import Peer
from peers.process import HOST, free_port

from .loading import Run, load

if TYPE_CHECKING:
    from peers.authority import Authority
    from peers.running import Peers

Own = Callable[[Callable[[Path], Peer]], Peer]


def fails(run: Run, *hints: str) -> None:
    """Exit code 1 and one line that holds at least one of the hints, in any case."""
    assert run.code == 1, run
    assert any(hint.lower() in run.message.lower() for hint in hints), run


@pytest.mark.parametrize("flag", ["--h1", "--h2c"])
def test_refused_port(flag: str) -> None:
    fails(load(flag, f"http://{HOST}:{free_port()}/", "-c", "4"), "refused")


def test_refused_port_with_tls() -> None:
    fails(load(f"https://{HOST}:{free_port()}/", "-c", "4"), "refused")


def test_unknown_host() -> None:
    fails(load("http://no-such-host.invalid/", "-c", "4"), "no-such-host.invalid")


def test_closed_udp_port() -> None:
    fails(
        load("--h3", f"https://{HOST}:{free_port()}/", "-c", "2"),
        "refused",
        "HTTP/3",
        "QUIC",
        "UDP",
    )


def test_udp_black_hole() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hole:
        hole.bind((HOST, 0))
        url = f"https://{HOST}:{hole.getsockname()[1]}/"
        run = load("--h3", url, "-c", "2", "--connect-timeout", "300ms")
        fails(run, "QUIC", "HTTP/3", "UDP")


def test_tcp_that_never_speaks_tls() -> None:
    with chaos.serve(chaos.silent) as server:
        url = f"https://localhost:{server.port}/"
        fails(load(url, "-c", "2", "--connect-timeout", "300ms"), "TLS")


def test_tls_alert() -> None:
    with chaos.serve(chaos.tls_alert) as server:
        fails(load(f"https://localhost:{server.port}/", "-c", "2", "-k"), "alert", "handshake")


def test_cleartext_server_asked_for_tls(peers: Peers) -> None:
    url = peers["gonet"].url("h1").replace("http://", "https://")
    fails(load(url, "-c", "2", "-k"), "TLS")


@pytest.mark.parametrize("flag", ["--h1", "--h2", "--h3"])
def test_unknown_authority_names_the_way_out(peers: Peers, flag: str) -> None:
    fails(
        load(flag, peers["caddy"].url(flag.removeprefix("--").replace("h1", "h1s")), "-c", "2"),
        "--cacert",
    )


def test_expired_certificate(own: Own, authority: Authority) -> None:
    peer = own(lambda folder: nginx.start(folder, authority.expired()))
    for listener in ("h1s", "h2"):
        fails(load(peer.url(listener), "-c", "2", "--cacert", str(authority.ca)), "expired")


def test_certificate_of_another_name(own: Own, authority: Authority) -> None:
    peer = own(lambda folder: nginx.start(folder, authority.wrong_name()))
    for listener in ("h1s", "h2"):
        run = load(peer.url(listener), "-c", "2", "--cacert", str(authority.ca))
        fails(run, "localhost", "name")
        accepted = load(peer.url(listener), "-c", "2", "-n", "10", "--insecure")
        assert accepted.good["requests"]["ok"] == 10


def test_version_that_the_server_lacks(peers: Peers) -> None:
    nginx_peer = peers["nginx"]
    trust = ["--cacert", str(nginx_peer.ca), "-c", "2"]
    fails(load("--h2", nginx_peer.url("h1s"), *trust), "HTTP/2")
    fails(load("--h3", nginx_peer.url("h1s"), *trust), "HTTP/3", "QUIC")
    # nghttpd agrees on no protocol, which is what servers without ALPN do, and then hangs up.
    run = load("--h1", peers["nghttpd"].url("h2"), *trust, "-n", "4")
    assert run.code == 4, run
    assert set(run.checked["requests"]["failures"]) == {"closed"}


def test_h2c_to_a_server_without_it(peers: Peers) -> None:
    # There is no negotiation: the first answer is HTTP/1.1, which is no frame.
    run = load("--h2c", peers["nginx"].url("h1"), "-c", "1", "-n", "4")
    assert run.code in (1, 4), run
    assert "HTTP/2" in run.out + run.err, run
