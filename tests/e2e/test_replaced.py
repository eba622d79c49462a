"""Connections that are closed after so many requests and replaced: `--requests-per-connection`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .loading import flag, load

if TYPE_CHECKING:
    from peers.running import Peers

LISTENERS = [("nginx", "h1"), ("nginx", "h2"), ("gonet", "h2c"), ("caddy", "h3")]


@pytest.mark.parametrize(("name", "listener"), LISTENERS)
def test_each_request_has_a_connection_of_its_own(peers: Peers, name: str, listener: str) -> None:
    peer = peers[name]
    arguments = [flag(listener), "-c", "3", "-n", "30", "--cacert", str(peer.ca)]
    report = load(*arguments, "--new-connections", peer.url(listener)).good
    assert report["requests"]["ok"] == 30
    connections, phases = report["connections"], report["phases"]
    # When the last response ends the run, its connections may still be waiting for their tickets.
    assert 27 < connections["spent"] <= 30
    assert connections["spent"] + connections["open_at_end"] == connections["established"]
    # The last ones may be made for requests that others have sent by then.
    assert 30 <= connections["established"] <= 32
    assert connections["lost"] == connections["failed"] == {}
    made = phases["measured"]
    assert 27 <= made["first_byte"]["count"] <= 30
    assert report["rate"]["connections_per_s"] > 0
    # All but the first three waited for their connections.
    assert report["latency"]["queued"]["count"] == report["latency"]["response"]["count"] == 30
    assert report["latency"]["response"]["max"] > report["latency"]["service"]["min"]


@pytest.mark.parametrize(("name", "listener"), LISTENERS)
def test_connections_are_replaced_while_streams_are_in_flight(
    peers: Peers, name: str, listener: str
) -> None:
    peer = peers[name]
    streams = [] if listener in ("h1", "h1s") else ["-m", "4"]
    arguments = [flag(listener), "-c", "2", "-n", "100", "--cacert", str(peer.ca), *streams]
    report = load(*arguments, "--requests-per-connection", "10", peer.url(listener)).good
    assert report["requests"]["ok"] == 100
    assert report["requests"]["retried"] == 0
    assert report["connections"]["spent"] in (9, 10)
    assert report["connections"]["lost"] == {}


def test_the_open_model_replaces_connections_too(peers: Peers) -> None:
    url = peers["nginx"].url("h1")
    report = load("-R", "200", "-c", "20", "-n", "50", "--new-connections", url).checked
    assert report["requests"]["ok"] == 50
    assert report["connections"]["spent"] == 50
