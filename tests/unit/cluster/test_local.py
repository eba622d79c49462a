"""Who may run programs here: what `trilane cluster start` refuses, and what it warns of."""

from __future__ import annotations

import pytest

from trilane.cluster import local
from trilane.cluster.connecting import ClusterFailed


@pytest.mark.parametrize("host", ["::", "10.0.0.1", "machine-0.example"])
def test_where_other_machines_reach_it_a_scheduler_needs_tls_or_a_word(host: str) -> None:
    with pytest.raises(ClusterFailed, match="or --insecure where only you reach it") as refused:
        local._reachable(host, insecure=False)
    assert refused.value.code == 2
    assert f"whoever reaches {host} can run programs as you" in local._reachable(
        host, insecure=True
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_other_users_of_the_machine_are_warned_of(host: str) -> None:
    assert "every user of this machine can run programs" in local._reachable(host, insecure=False)
