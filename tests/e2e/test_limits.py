"""Requests larger than what the server says it accepts: the run ends and names both sizes."""

from __future__ import annotations

import struct
import threading
from typing import TYPE_CHECKING

import pytest

from peers import chaos, h2_chaos

from .loading import Running, flag, load

if TYPE_CHECKING:
    import asyncio

    from peers.running import Peers

# What the embedded server accepts (bytes), and more than that.
LIMIT = 65_536
LONG = "x" * 66_000
# RFC 9113 §6.5.2 and RFC 9114 §7.2.4.1.
SETTING = {
    "h2c": "SETTINGS_MAX_HEADER_LIST_SIZE",
    "h2": "SETTINGS_MAX_HEADER_LIST_SIZE",
    "h3": "SETTINGS_MAX_FIELD_SECTION_SIZE",
}
# A limit that no request keeps, in a SETTINGS frame.
NOTHING = h2_chaos.frame(h2_chaos.SETTINGS, 0, 0, struct.pack(">HI", 6, 10))

# Far longer than the tests may take: the run must end for a better reason.
ENDS = [("-d", "1h"), ("-n", "1000000"), ("-d", "1h", "-R", "1000")]


@pytest.mark.parametrize("end", ENDS, ids=" ".join)
@pytest.mark.parametrize("listener", SETTING)
def test_a_request_larger_than_the_server_accepts(
    peers: Peers, listener: str, end: tuple[str, ...]
) -> None:
    arguments = ["-c", "2", "-m", "4", "-k", *end, "-H", f"cookie: {LONG}"]
    run = load(flag(listener), *arguments, peers["embedded"].url(listener))
    assert run.code == 1, run
    assert run.report is None
    assert f"larger than the {LIMIT} bytes" in run.message
    assert SETTING[listener] in run.message
    size = int(run.message.partition("field section of ")[2].split()[0])
    assert len(LONG) < size < len(LONG) + 1000


@pytest.mark.parametrize("listener", SETTING)
def test_a_request_that_is_too_large_among_others(peers: Peers, listener: str) -> None:
    peer = peers["embedded"]
    urls = [peer.url(listener), peer.url(listener, f"/{LONG}")]
    run = load(flag(listener), "-c", "1", "-m", "3", "-n", "60", "-k", *urls)
    assert run.code == 4, run
    requests = run.checked["requests"]
    assert (requests["ok"], requests["failed"]) == (30, 30)
    # What left before SETTINGS came, the server refuses.
    assert requests["failures"]["limit"]["count"] >= 28, requests
    assert f"larger than the {LIMIT} bytes" in requests["failures"]["limit"]["example"]


def test_a_server_that_lowers_its_limit_between_requests() -> None:
    served = 0

    def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        served += 1
        writer.write((NOTHING if served % 5 == 0 else b"") + h2_chaos.response(stream))

    with chaos.serve(h2_chaos.server(on_request)) as server:
        run = load("--h2c", "-c", "1", "-n", "60", server.base + "/")
        assert server.connections >= 10
    assert run.code == 4, run
    requests = run.checked["requests"]
    # Each connection carries five, and fails one of those for which it is not good any more.
    assert (requests["ok"], requests["failed"]) == (50, 10)
    assert requests["failures"]["limit"]["count"] == 10
    assert "larger than the 10 bytes" in requests["failures"]["limit"]["example"]


def test_an_interrupt_while_nothing_can_be_sent() -> None:
    lowered = threading.Event()

    def on_request(stream: int, writer: asyncio.StreamWriter) -> None:
        if stream == 3:
            writer.write(NOTHING + h2_chaos.response(stream))
            lowered.set()

    with chaos.serve(h2_chaos.server(on_request)) as server:
        running = Running("--h2c", "-c", "1", "-m", "4", "-d", "1h", server.base + "/")
        assert lowered.wait(60)
        running.interrupt()
        run = running.wait()
    assert run.code == 130, run
    requests = run.checked["requests"]
    assert requests["failed"] == 0, requests
    assert requests["warmup"]["ok"] + requests["ok"] <= 1, requests
