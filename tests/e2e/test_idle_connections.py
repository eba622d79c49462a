"""The memory of connections on which hardly anything happens."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest

from peers import embedded
from repository import native

from .loading import load

if TYPE_CHECKING:
    from pathlib import Path

CONNECTIONS = 10_000
LIMIT_BYTES = 100 << 20
# Of the client and of the server, beside one for each connection.
FILES = 200


def test_ten_thousand_connections_that_are_idle_take_little_memory(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < CONNECTIONS + FILES:
        pytest.skip(f"a process may open {hard} files here, and {CONNECTIONS + FILES} are needed")
    # What is started takes over the limit of the one who starts it.
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        peer = embedded.start(native(), tmp_path)
        try:
            # At this rate a connection sees a request in a hundred seconds.
            shape = ["-c", str(CONNECTIONS), "-t", "1", "-R", "100", "-n", "200"]
            run = load("--h1", *shape, "--timeout", "120s", peer.url("h1"))
        finally:
            peer.stop()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    report = run.checked
    assert report["connections"]["open_at_end"] == CONNECTIONS, report["connections"]
    assert (report["requests"]["ok"], report["requests"]["failed"]) == (200, 0)
    assert report["cost"]["peak_rss_bytes"] < LIMIT_BYTES
