"""Every version against every server that speaks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .loading import Report, flag, load

if TYPE_CHECKING:
    from pathlib import Path

    from peers.running import Peers

LISTENERS = {
    "nginx": ["h1", "h1s", "h2c", "h2"],
    "nghttpd": ["h2"],
    "nghttpd-plain": ["h2c"],
    "caddy": ["h1", "h1s", "h2c", "h2", "h3"],
    "gonet": ["h1", "h1s", "h2c", "h2"],
    "hypercorn": ["h1", "h1s", "h2c", "h2", "h3"],
    "embedded": ["h1", "h1s", "h2c", "h2", "h3"],
}
PAIRS = [(name, listener) for name, listeners in LISTENERS.items() for listener in listeners]
# More than the 65,535 bytes that a server grants at first: the upload has to wait for its windows.
UPLOAD_BYTES = 200_000

every_pair = pytest.mark.parametrize(
    ("name", "listener"), PAIRS, ids=[f"{n}-{v}" for n, v in PAIRS]
)


def run(peers: Peers, name: str, listener: str, path: str | None, *arguments: str) -> Report:
    """A load that must go well, on the version of the listener and no other."""
    peer = peers[name]
    streams = [] if listener.startswith("h1") else ["-m", "4"]
    trust = ["--insecure"] if peer.ca is None else ["--cacert", str(peer.ca)]
    report = load(
        *(flag(listener), "-c", "2", *streams, "-t", "2", "--check-body", *trust),
        *(peer.url(listener, path), *arguments),
    ).good
    assert report["target"]["version"] == flag(listener).removeprefix("--")
    assert report["target"]["alpn"] == {"h1s": "http/1.1", "h2": "h2", "h3": "h3"}.get(listener)
    assert (report["target"]["tls"] is None) == (listener in {"h1", "h2c"})
    return report


@every_pair
def test_responses_arrive_whole(peers: Peers, name: str, listener: str) -> None:
    """Small and large ones in turn: more than a connection's first window."""
    peer = peers[name]
    report = run(peers, name, listener, None, "-n", "40", peer.url(listener, "/bytes/131072"))
    assert report["requests"]["ok"] == report["requests"]["started"] == 40
    assert report["status"] == {"200": 40}
    assert report["target"]["body"] == {"bytes": 11, "crc32": "0d4a1185"}
    assert report["bytes"]["body_received"] == 20 * (11 + 131072)
    assert report["phases"]["connect" if listener != "h3" else "quic"]["count"] == 2


@every_pair
def test_uploads_wait_for_the_windows(
    peers: Peers, name: str, listener: str, tmp_path: Path
) -> None:
    content = tmp_path / "content"
    content.write_bytes(bytes(index * 7 % 253 for index in range(UPLOAD_BYTES)))
    peer = peers[name]
    report = run(peers, name, listener, peer.upload, "-n", "12", "-X", "POST", "-b", f"@{content}")
    assert report["requests"]["ok"] == 12
    # Some of them answer without reading what comes.
    early = report["requests"]["early_responses"]
    missing = early["body_bytes"] - early["body_sent"]
    if listener == "h3" and not peer.echoes:
        # What QUIC has taken over, it has not sent yet; at the end it need not, where the last
        # response does not wait for it.
        missing = 12 * UPLOAD_BYTES
    assert 12 * UPLOAD_BYTES - missing <= report["bytes"]["body_sent"] <= 12 * UPLOAD_BYTES
    if peer.echoes:
        assert early["count"] == 0
        assert report["target"]["body"]["bytes"] == UPLOAD_BYTES


@pytest.mark.parametrize("listener", ["h1", "h2"])
def test_trailers_interim_responses_and_unknown_lengths(peers: Peers, listener: str) -> None:
    more = [peers["gonet"].url(listener, path) for path in ("/hints", "/bytes/5000")]
    report = run(peers, "gonet", listener, "/trailers", "-n", "30", *more)
    assert report["requests"]["ok"] == 30
    assert report["bytes"]["body_received"] == 10 * (11 + 11 + 5000)
    assert report["status"] == {"200": 30}


@pytest.mark.parametrize("listener", ["h1s", "h2c"])
def test_head_and_not_found(peers: Peers, listener: str) -> None:
    report = run(peers, "nginx", listener, "/bytes/1024", "-n", "10", "-X", "HEAD")
    assert report["requests"]["ok"] == 10
    assert report["bytes"]["body_received"] == 0
    url = peers["nginx"].url(listener, "/missing")
    bad = load(flag(listener), "-n", "10", "-c", "2", "--insecure", url)
    assert bad.code == 4
    assert bad.checked["status"] == {"404": 10}
    assert bad.checked["requests"]["failures"]["status"]["count"] == 10


def test_alpn_prefers_h2_and_falls_back_to_h1(peers: Peers) -> None:
    ca = str(peers["nginx"].ca)
    offered = load("-n", "10", "-c", "1", "--cacert", ca, peers["nginx"].url("h2")).good
    assert offered["target"]["version"] == "h2"
    fallen = load("-n", "10", "-c", "1", "--cacert", ca, peers["nginx"].url("h1s")).good
    assert fallen["target"]["version"] == "h1"


def test_a_burst_of_datagrams_is_not_refused_by_the_kernel(peers: Peers, tmp_path: Path) -> None:
    content = tmp_path / "content"
    content.write_bytes(bytes(1_000_000))
    peer = peers["embedded"]
    report = run(peers, "embedded", "h3", peer.upload, "-n", "20", "-b", f"@{content}")
    sent = report["bytes"]["datagrams_sent"]
    # One send of more than 64 KiB fails as a whole; a twelfth of all packets was lost that way.
    assert report["bytes"]["retransmits"] < 0.05 * sent, report["bytes"]
