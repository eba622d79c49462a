"""Certificates of clients, names in the handshake, another address than the URL's."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography import x509

from peers import gonet, nginx
from peers.peer import Peer

from .grpc_calls import PROTO_FLAGS, UNARY
from .loading import flag, load

if TYPE_CHECKING:
    from peers.authority import Authority
    from peers.running import Peers

Own = Callable[[Callable[[Path], Peer]], Peer]
ELSEWHERE = "elsewhere.example"


@pytest.mark.parametrize("listener", ["h1s", "h2"])
def test_client_certificate(own: Own, authority: Authority, listener: str) -> None:
    peer = own(lambda folder: gonet.start(folder, authority.local(), client_ca=authority.ca))
    client = authority.client()
    arguments = [flag(listener), "-c", "2", "-n", "10", "--cacert", str(authority.ca)]
    proven = load(
        *arguments, "--cert", str(client.cert), "--key", str(client.key), peer.url(listener)
    )
    assert proven.good["requests"]["ok"] == 10
    # In TLS 1.3 the server's refusal comes after the client's handshake is complete.
    bare = load(*arguments, peer.url(listener))
    assert bare.code in (1, 4), bare
    assert "certificate" in bare.out.lower() + bare.err.lower(), bare


@pytest.mark.parametrize("protocols", ["TLSv1.2", "TLSv1.3"])
def test_both_tls_versions(own: Own, authority: Authority, protocols: str) -> None:
    peer = own(lambda folder: nginx.start(folder, authority.local(), protocols=protocols))
    # A thread for each connection: one alone could answer all before the next is made.
    arguments = ["-n", "50", "-c", "4", "-t", "4", "--cacert", str(authority.ca)]
    for listener in ("h1s", "h2"):
        report = load(*arguments, peer.url(listener)).good
        assert report["target"]["tls"]["version"] == protocols
        handshakes = report["phases"]["handshakes"]
        assert handshakes["full"] + handshakes["resumed"] == report["phases"]["tls"]["count"] == 4


@pytest.mark.parametrize("listener", ["h1s", "h2"])
def test_sni_is_sent_and_verified(own: Own, authority: Authority, listener: str) -> None:
    peer = own(lambda folder: nginx.start(folder, authority.wrong_name()))
    arguments = [flag(listener), "-c", "1", "-n", "10", "--cacert", str(authority.ca)]
    report = load(*arguments, "--sni", ELSEWHERE, peer.url(listener, "/sni")).good
    assert report["target"]["body"]["crc32"] == f"{zlib.crc32(ELSEWHERE.encode()):08x}"


def test_another_address_than_the_url_says(own: Own, authority: Authority) -> None:
    peer = own(lambda folder: nginx.start(folder, authority.wrong_name()))
    address = peer.bases["h2"].removeprefix("https://").replace("localhost", "127.0.0.1")
    arguments = ["-c", "1", "-n", "10", "--cacert", str(authority.ca), "--connect-to", address]
    report = load(*arguments, f"https://{ELSEWHERE}/sni").good
    assert report["target"]["peer"] == address
    assert report["target"]["body"]["crc32"] == f"{zlib.crc32(ELSEWHERE.encode()):08x}"


def test_h3_with_a_private_authority(peers: Peers) -> None:
    peer = peers["caddy"]
    arguments = ["-c", "2", "-t", "2", "-n", "20", "--cacert", str(peer.ca)]
    report = load("--h3", *arguments, peer.url("h3")).good
    assert report["target"]["tls"]["version"] == "TLSv1.3"
    assert report["phases"]["quic"]["count"] == 2
    assert report["phases"]["connect"] is None


@pytest.mark.parametrize(
    ("offer", "version", "cipher"),
    [
        (["--tls", "1.2"], "TLSv1.2", None),
        (["--tls", "1.3"], "TLSv1.3", None),
        (
            ["--ciphers", "TLS_CHACHA20_POLY1305_SHA256"],
            "TLSv1.3",
            "TLS13_CHACHA20_POLY1305_SHA256",
        ),
        (
            ["--ciphers", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "--tls", "1.2"],
            "TLSv1.2",
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        ),
        (
            ["--ciphers", "tls13_aes_128_gcm_sha256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"],
            "TLSv1.3",
            "TLS13_AES_128_GCM_SHA256",
        ),
    ],
)
def test_version_and_cipher_are_those_that_are_offered(
    own: Own, authority: Authority, offer: list[str], version: str, cipher: str | None
) -> None:
    """Go's server chooses among what is offered alone."""
    peer = own(lambda folder: gonet.start(folder, authority.local()))
    arguments = ["--h1", "-n", "10", "-c", "2", "--cacert", str(authority.ca), *offer]
    report = load(*arguments, peer.url("h1s")).good
    assert report["target"]["tls"]["version"] == version
    assert cipher in {None, report["target"]["tls"]["cipher"]}


@pytest.mark.parametrize("listener", ["h2", "h3"])
@pytest.mark.parametrize("call", [(), ("--grpc", UNARY.name, *PROTO_FLAGS)], ids=["get", "call"])
def test_a_client_certificate_of_version_1_is_told(
    peers: Peers, authority: Authority, listener: str, call: tuple[str, ...]
) -> None:
    client = authority.version_1()
    found = x509.load_pem_x509_certificate(client.cert.read_bytes())
    assert found.version == x509.Version.v1
    proof = ["--cert", str(client.cert), "--key", str(client.key)]
    run = load(flag(listener), "-n", "1", *call, *proof, peers["embedded"].url(listener, "/"))
    assert run.code in {1, 2}, run
    assert f"{client.cert} is no X.509 certificate of version 3" in run.message
    assert "-extfile" in run.message
