"""What went over the wire, and what requests consist of: the same numbers for every version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from client.wire import h3_chaos

from .loading import flag, load, load_text

if TYPE_CHECKING:
    from peers.authority import Leaf
    from peers.running import Peers

LISTENERS = ["h1", "h1s", "h2c", "h2", "h3"]


def streams(listener: str) -> list[str]:
    return [] if listener.startswith("h1") else ["-m", "5"]


def test_headers_are_counted_alike_in_every_version(peers: Peers) -> None:
    """Names and values, pseudo-fields among them, whatever a version makes of them."""
    decoded = {}
    for listener in LISTENERS:
        parts = ["-n", "20", "-c", "2", *streams(listener), "-k", "-H", "X-Some: thing"]
        report = load(flag(listener), *parts, peers["embedded"].url(listener)).good
        sent = report["bytes"]
        if listener == "h1":
            planned = report["plan"]["request"]["header_bytes"]
        decoded[listener] = sent["header_sent_decoded"] / 20
        received = sent["header_received_decoded"] / 20
        # `:status` and 200 at least.
        assert received > 10, sent
        assert sent["header_sent_encoded"] > 0
        if listener.startswith("h1"):
            assert sent["header_received_encoded"] > sent["header_received_decoded"]
        else:
            assert sent["header_sent_encoded"] < sent["header_sent_decoded"]
    # Schemes and ports differ in length, the rest is the same.
    assert max(decoded.values()) - min(decoded.values()) <= 2, decoded
    authority = peers["embedded"].url("h1").split("/")[2]
    path = "/" + peers["embedded"].url("h1").split("/", 3)[3]
    fields = {
        ":method": "GET",
        ":scheme": "http",
        ":path": path,
        ":authority": authority,
        "x-some": "thing",
    }
    least = sum(len(name) + len(value) for name, value in fields.items())
    # And what is sent with each request beside them.
    assert decoded["h1"] >= least
    assert decoded["h1"] == planned


@pytest.mark.parametrize("listener", ["h1", "h2", "h3"])
def test_handshakes_and_round_trips_are_told(peers: Peers, listener: str) -> None:
    arguments = [flag(listener), "-n", "40", "-c", "4", *streams(listener), "-k"]
    url = peers["embedded"].url(listener)
    report = load(*arguments, "--resume", "off", url).good
    sent = report["bytes"]
    if listener in {"h1", "h2c"}:
        assert (sent["handshake_sent"], sent["handshake_received"]) == (0, 0)
    else:
        # A ClientHello, and a certificate with what belongs to it, on each connection.
        assert 4 * 200 <= sent["handshake_sent"] <= 4 * 4000
        assert 4 * 500 <= sent["handshake_received"] <= 4 * 8000
    if listener == "h3":
        # A first datagram is as long as this (RFC 9000 §14.1).
        assert sent["handshake_sent"] >= 4 * 1200
    assert 0 < sent["min_rtt_s"] <= sent["rtt_s"] * 20
    shown = load_text(*arguments, "-v", url).out
    rows = shown[shown.index("\nWire ") :]
    for name in ("payload", "headers", "uncompressed", "bodies", "handshakes"):
        assert name in rows
    assert ("datagrams" if listener == "h3" else "segments") in rows
    assert "at least" in rows


@pytest.mark.parametrize("listener", ["h1", "h3"])
def test_requests_consist_of_phases(peers: Peers, listener: str) -> None:
    arguments = [flag(listener), "-n", "60", "-c", "4", *streams(listener), "-k"]
    url = peers["embedded"].url(listener)
    phases = load(*arguments, url).good["phases"]
    cold, warm = phases["cold"], phases["warm"]
    assert (cold["ttfb"]["count"], warm["ttfb"]["count"]) == (4, 56)
    assert (cold["body"]["count"], warm["body"]["count"]) == (4, 56)
    assert cold["wait"] is warm["wait"] is None
    assert phases["dns"]["hdr"]
    made = phases["quic"] if listener == "h3" else phases["connect"]
    assert made["count"] == 4
    assert made["hdr"]
    report = load(*arguments, "-R", "1k", url).checked
    phases, latency = report["phases"], report["latency"]
    cold, warm = phases["cold"], phases["warm"]
    waits = cold["wait"]["count"] + warm["wait"]["count"]
    assert waits == latency["queued"]["count"] == 60
    shown = load_text(*arguments, "-R", "1k", "-v", url).out
    for row in ("cold wait", "cold first byte", "cold body", "warm wait", "warm body"):
        assert f"\n  {row} " in shown
    # Each request on a connection of its own: all are cold.
    report = load(*arguments, "--new-connections", url).good
    counts = {name: report["phases"][name]["ttfb"]["count"] for name in ("cold", "warm")}
    assert counts == {"cold": 60, "warm": 0}


def test_packets_of_quic_are_as_asked_for(peers: Peers) -> None:
    arguments = ["--h3", "-n", "40", "-c", "1", "-m", "4", "-k"]
    url = peers["embedded"].bases["h3"] + "/bytes/20k"
    fixed = load(*arguments, "--quic-mtu-discovery", "off", url).good
    assert fixed["target"]["mtu"] == 1200
    larger = ["--quic-initial-packet-size", "1400", "--quic-mtu-discovery", "off"]
    report = load(*arguments, *larger, url).good
    assert report["target"]["mtu"] == 1400
    asked = report["plan"]["asked"]
    assert asked["quic_initial_packet_size"] == 1400
    assert (asked["quic_mtu_discovery"], asked["quic_ack_frequency"]) == (False, None)
    assert report["target"]["ack_frequency"] is None
    usual = load(*arguments, url).good
    assert usual["target"]["mtu"] > 1400


def test_a_server_that_knows_how_is_asked_to_acknowledge_less_often(peers: Peers) -> None:
    upload = ["-b", "x" * 100_000, "-n", "10", "-c", "1", "-m", "4", "-k"]
    url = peers["embedded"].url("h3")
    report = load("--h3", *upload, "--quic-ack-frequency", "40", url).good
    assert report["plan"]["asked"]["quic_ack_frequency"] == 40
    # ACK_FREQUENCY was sent; how many acknowledgements that saves is the machine's doing as well.
    assert report["target"]["ack_frequency"] is True


def test_a_server_that_does_not_know_how_is_told(leaf: Leaf) -> None:
    def script(server: h3_chaos.Server, stream: int) -> None:
        server.send(stream, h3_chaos.response(), end=True)

    with h3_chaos.serve(script, leaf) as port:
        url = f"https://localhost:{port}/"
        asked = ["--h3", "--cacert", str(leaf.ca), "-c", "1", "-n", "3"]
        asked += ["--quic-ack-frequency", "10"]
        report = load(*asked, url).good
        assert report["target"]["ack_frequency"] is False
        assert (
            "no ACK_FREQUENCY, which the server does not know" in load_text(*asked, "-v", url).out
        )
