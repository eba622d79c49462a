"""Numbers in flight that change, rates of connections, and what queues where a server is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .loading import codes, load, load_text

if TYPE_CHECKING:
    from peers.running import Peers


def test_the_number_in_flight_follows_its_stages(peers: Peers) -> None:
    """Up to 20, some time of it, and down again, on two threads of uneven shares."""
    # An odd number of connections: the threads have unequal parts.
    room = ["-c", "7", "-m", "3", "-t", "2"]
    stages = ["--stages-in-flight", "200ms:20, 200ms:20, 200ms:4, 100ms:0"]
    url = peers["embedded"].bases["h2c"] + "/delay/10ms"
    report = load("--h2c", *room, *stages, url).checked
    plan = report["plan"]
    assert plan["model"] == "closed"
    assert plan["rate_per_s"] is None
    told = [(stage["length_s"], stage["in_flight"]) for stage in plan["stages_in_flight"]]
    assert told == [(0.2, 20), (0.2, 20), (0.2, 4), (0.1, 0)]
    assert plan["duration_s"] == pytest.approx(0.7)
    assert plan["warmup_s"] == 0
    assert report["backlog"] is None
    assert report["requests"]["failed"] == 0
    # The load changes on purpose: that is neither a cold start nor a drift.
    assert codes(report).isdisjoint({"cold_start", "drift", "streams_allowed"})
    assert 0 < report["connections"]["in_flight_at_most"] <= 20
    for window in report["windows"]:
        # A slow machine has fewer of the allowed ones in flight, and none has more.
        assert window["in_flight"] <= 20, window
        assert window["backlog"] is None
    assert any(window["in_flight"] > 10 for window in report["windows"])


def test_stages_in_flight_are_shown(peers: Peers) -> None:
    stages = ["--stages-in-flight", "200ms:4,100ms:0", "-c", "4"]
    shown = load_text(*stages, peers["embedded"].url("h1"))
    assert "closed model, 0.2 s to 4, 0.1 s to 0 in flight" in shown.out


def test_each_connection_has_a_rate_of_its_own(peers: Peers) -> None:
    arguments = ["--h2c", "-c", "5", "-m", "4", "-t", "2", "--rate-per-connection", "40"]
    url = peers["embedded"].url("h2c")
    report = load(*arguments, "-n", "100", url).checked
    plan = report["plan"]
    assert (plan["model"], plan["rate_per_s"]) == ("open", 200)
    assert plan["asked"]["rate_per_connection_per_s"] == 40
    assert report["requests"]["ok"] == 100
    # The last of the 100 is due half a second after the first.
    assert report["rate"]["window_s"] >= 0.47
    shown = load_text(*arguments, "-n", "5", url)
    assert "open model, 40 requests/s on each connection, 200 on all, on time" in shown.out


def test_a_queue_that_grows_is_told(peers: Peers) -> None:
    """One connection serves 20 requests a second, and 200 are due."""
    url = peers["embedded"].bases["h1"] + "/delay/50ms"
    arguments = ["--h1", "-c", "1", "-R", "200", "-d", "1s", "--warmup", "0s"]
    report = load(*arguments, url).checked
    backlog = report["backlog"]
    # At least what it cannot serve by the end, and not more than what was due.
    assert 150 <= backlog["at_end"] <= 200
    assert backlog["at_most"] == backlog["at_end"]
    assert backlog["since_s"] < 0.3
    assert backlog["at_most_s"] == pytest.approx(1.0, abs=0.11)
    assert abs(backlog["at_end"] - report["requests"]["unsent"]) <= 1
    windows = [window["backlog"] for window in report["windows"]]
    assert windows[-1] == backlog["at_end"]
    reasons = [reason for reason in report["validity"]["reasons"] if reason["code"] == "queued"]
    # Of the twenty requests that left, the longest wait is told: a p99 takes a thousand.
    assert "(at most " in reasons[0]["text"]
    assert "the queue grew to" in reasons[0]["text"]
    assert reasons[0]["numbers"]["backlog"] == backlog["at_most"]
    assert report["rate"]["sent_per_s"] < 25
    shown = load_text("--h1", "-c", "1", "-R", "200", "-n", "10", url)
    assert "due and not sent: at most" in shown.out


def test_the_longest_wait_of_a_few_requests_is_not_called_a_percentile(peers: Peers) -> None:
    """A p99 takes a thousand."""
    out = load_text("-R", "200", "-n", "5", peers["embedded"].url("h1")).out
    line = next(line for line in out.splitlines() if "asked for" in line)
    assert line.endswith("(at most)"), line
