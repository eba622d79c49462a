"""Command lines of other load generators, typed as theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .loading import load_text

if TYPE_CHECKING:
    from peers.running import Peers

LINES = {
    "wrk": ("h1", "-t1 -c4 -d500ms --latency", "--h1 --warmup 0s -c 4 -t 1 -d 500ms --timeout 2s"),
    "wrk2": ("h1", "-t1 -c4 -d500ms -R200", "--timeout 2s -R 200"),
    "h2load": ("h2c", "-n200 -c2 -m 10", "--h2c -c 2 -m 10 -t 1 -n 200"),
    "oha": ("h3", "-n 100 -c 2 -p 4 --http-version 3 --no-tui", "--h3 -c 2 -m 4 -n 100"),
    "hey": ("h2", "-n 100 -c 5 -h2", "--h2 -c 5 -n 100 --timeout 20s"),
    "ab": ("h1", "-n 50 -c 5", "--h1 -c 5 -n 50 --timeout 30s --new-connections"),
}


@pytest.mark.parametrize("tool", LINES)
def test_a_line_of_another_tool_is_told_as_ours_and_done(peers: Peers, tool: str) -> None:
    listener, theirs, ours = LINES[tool]
    url = peers["embedded"].url(listener)
    shown = load_text("-k", "--compat", tool, "--", *theirs.split(), url)
    # 4 where a busy machine sent requests of wrk2's rate late, or left datagrams in its buffers.
    assert shown.code in {0, 4}, shown.err
    assert ours in shown.err
    assert shown.err.splitlines()[0].startswith("trilane load -k")
    assert "0 failed" in shown.out


def test_certificates_are_verified_whatever_the_tool_does(peers: Peers) -> None:
    shown = load_text("--compat", "wrk", "--", "-d1s", peers["embedded"].url("h1s"))
    assert shown.code == 1
    assert "not trusted here" in shown.err
