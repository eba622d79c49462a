"""Who may run programs here: what `trilane cluster start` warns of, and what it cannot do."""

from __future__ import annotations

from pathlib import Path

import pytest

from trilane.cluster import local
from trilane.cluster.connecting import ClusterFailed


@pytest.mark.parametrize("host", ["::", "10.0.0.1", "machine-0.example"])
def test_whoever_reaches_it_without_tls_is_warned_of(host: str) -> None:
    assert f"whoever reaches {host} can run programs as you" in local._reachable(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_other_users_of_the_machine_are_warned_of(host: str) -> None:
    assert "every user of this machine can run programs" in local._reachable(host)


def test_a_certificate_that_cannot_be_made_is_no_reason_to_go_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "trilane").write_text("not a folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(ClusterFailed, match="or --insecure where only you reach it"):
        local._own_tls()
