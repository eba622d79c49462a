"""SSLKEYLOGFILE: the secrets of connections, for programs that look into what was captured."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .loading import flag, load, load_text

if TYPE_CHECKING:
    from peers.running import Peers


@pytest.mark.parametrize("listener", ["h1s", "h2", "h3"])
def test_the_secrets_of_every_connection_are_written(
    peers: Peers, listener: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a connection have its random number in front: NSS Key Log Format."""
    file = tmp_path / "keys.log"
    monkeypatch.setenv("SSLKEYLOGFILE", str(file))
    arguments = [flag(listener), "-c", "3", "-n", "9", "--resume", "off", "-k"]
    peer = peers["embedded" if listener == "h3" else "gonet"]
    assert load(*arguments, peer.url(listener)).good["requests"]["ok"] == 9
    lines = [line.split() for line in file.read_text().splitlines()]
    assert all(len(line) == 3 for line in lines)
    for label in ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"):
        randoms = {random for kind, random, _ in lines if kind == label}
        assert len(randoms) == 3, label
        assert all(len(bytes.fromhex(random)) == 32 for random in randoms)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "missing" / "keys.log"))
    shown = load_text("--h2", "-k", "-n", "1", "https://127.0.0.1:9/")
    assert shown.code == 1
    assert "SSLKEYLOGFILE names" in shown.err
    assert "missing/keys.log" in shown.err
