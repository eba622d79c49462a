"""Qlog: what is written of connections over QUIC, beside what aioquic writes of the same ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from client.face import MakeClient
from peers.authority import Authority
from peers.quic_logged import CONTENT, logged
from trilane.client import errors

KINDS = {"initial", "handshake", "1RTT", "0RTT"}


def _records(path: Path) -> list[dict[str, Any]]:
    """The records of JSON-SEQ (RFC 7464): each begins with RS and ends with a line."""
    text = path.read_text()
    assert text.startswith("\x1e")
    assert text.endswith("\n")
    return [json.loads(record) for record in text.split("\x1e")[1:]]


def _packets(events: list[dict[str, Any]], name: str) -> set[tuple[str, int]]:
    return {
        (event["data"]["header"]["packet_type"], event["data"]["header"]["packet_number"])
        for event in events
        if event["name"] == name and "packet_number" in event["data"]["header"]
    }


def test_each_connection_writes_a_file(
    make_client: MakeClient,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QLOGDIR", str(tmp_path))
    leaf = authority.local()
    with logged(leaf) as server:
        client = make_client(versions=("h3",), verify=str(leaf.ca))
        for _ in range(3):
            response = client.get(f"https://localhost:{server.port}/")
            assert (response.version, response.content) == ("h3", CONTENT)
        client.close(abort=True)
        [theirs] = server.traces()
    [path] = tmp_path.glob("*.sqlog")
    assert path.stat().st_mode & 0o777 == 0o600
    head, *events = _records(path)
    assert head["qlog_format"] == "JSON-SEQ"
    assert head["qlog_version"]
    assert "localhost" in head["title"]
    assert "vantage_point" in head["trace"]
    times = [event["time"] for event in events]
    assert times == sorted(times)
    # aioquic calls them by the same names.
    sent, received = "transport:packet_sent", "transport:packet_received"
    assert {sent, received} <= {event["name"] for event in events}
    ours, came = _packets(events, sent), _packets(theirs, received)
    assert {kind for kind, _ in ours} <= KINDS
    assert len(came) > 3
    assert came <= ours
    assert _packets(events, received) <= _packets(theirs, sent)


def test_no_connection_over_tcp_writes_one(
    make_client: MakeClient, nginx_peer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QLOGDIR", str(tmp_path))
    client = make_client(versions=("h2",), verify=str(nginx_peer.ca))
    assert client.get(nginx_peer.url("h2")).status == 200
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("versions", [("h3",), ("h3", "h2")])
def test_a_folder_that_cannot_be_written_to_is_an_error(
    make_client: MakeClient,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    versions: tuple[str, ...],
) -> None:
    monkeypatch.setenv("QLOGDIR", str(tmp_path / "nowhere"))
    leaf = authority.local()
    client = make_client(versions=versions, verify=str(leaf.ca), race=True)
    with pytest.raises(errors.LocalError, match=r"QLOGDIR=.*nowhere: no file can be made there"):
        client.get("https://localhost:9/")
