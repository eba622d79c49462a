"""Numbers in flight that change, rates of connections, and what queues where a server is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .loading import codes, flag, load, load_text

if TYPE_CHECKING:
    from peers.running import Peers


@pytest.mark.parametrize("listener", ["h1", "h2c", "h3"])
def test_the_number_in_flight_follows_its_stages(peers: Peers, listener: str) -> None:
    """Up to 20, some time of it, and down again, on two threads of uneven shares."""
    # An odd number of connections: the threads have unequal parts.
    room = ["-c", "21"] if listener == "h1" else ["-c", "7", "-m", "3"]
    stages = ["--stages-in-flight", "400ms:20, 400ms:20, 400ms:4, 300ms:4, 200ms:0"]
    url = peers["embedded"].bases[listener] + "/delay/10ms"
    report = load(flag(listener), *room, "-t", "2", "-k", *stages, url).checked
    plan = report["plan"]
    assert plan["model"] == "closed"
    assert plan["rate_per_s"] is None
    told = [(stage["length_s"], stage["in_flight"]) for stage in plan["stages_in_flight"]]
    assert told == [(0.4, 20), (0.4, 20), (0.4, 4), (0.3, 4), (0.2, 0)]
    assert plan["duration_s"] == pytest.approx(1.7)
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--stages-in-flight", "1s:65"],
            "up to 65 requests in flight, and -c 64 with -m 1 has room for 64: type -c 65",
        ),
        (
            ["--h2c", "-c", "3", "-m", "4", "--stages-in-flight", "1s:5,1s:13"],
            "up to 13 requests in flight, and -c 3 with -m 4 has room for 12: type -c 4",
        ),
        (["--stages-in-flight", "1s:5", "-R", "5"], "-R and --stages-in-flight do not go"),
        (["--stages-in-flight", "1s:5", "--stages", "1s:5"], "--stages and --stages-in-flight"),
        (["--stages-in-flight", "1s:5", "-n", "5"], "-n and --stages-in-flight do not go"),
        (["--stages-in-flight", "1s:5", "-d", "5s"], "-d and --stages-in-flight do not go"),
        (["--stages-in-flight", "1s:5", "--warmup", "1s"], "--warmup and --stages-in-flight"),
        (["--stages-in-flight", "0s:5"], "takes no time"),
        (["--stages-in-flight", "1s:0"], "send nothing at all"),
        (["--stages-in-flight", "1s"], "'1s' has not the form TIME:REQUESTS"),
        (["--stages-in-flight", "1s:few"], "'few' is not a count"),
        (["--stages-in-flight", "1s:5", "--arrivals", "poisson"], "type it with -R 1k"),
        (["--rate-per-connection", "5", "-R", "5"], "-R and --rate-per-connection do not go"),
        (["--rate-per-connection", "5", "--stages", "1s:5"], "--stages and --rate-per-connection"),
        (["--rate-per-connection", "5", "--arrivals", "poisson"], "at an even spacing"),
        (["--rate-per-connection", "5", "--stages-in-flight", "1s:5"], "do not go together"),
        (["--rate-per-connection", "none"], "'none' is not a rate"),
        (["--quic-ack-frequency", "10"], "type it with --h3"),
        (["--quic-initial-packet-size", "1300"], "type it with --h3"),
        (["--quic-mtu-discovery", "off", "--h2c"], "type it with --h3"),
    ],
)
def test_pacing_that_is_none_is_told(arguments: list[str], said: str) -> None:
    shown = load_text(*arguments, "http://127.0.0.1:9/")
    assert shown.code == 2
    assert said in shown.err.replace('"', "'")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--quic-initial-packet-size", "1100"], "1100 is not between 1200 and 1452 bytes"),
        (["--quic-initial-packet-size", "9k"], "9216 is not between 1200 and 1452 bytes"),
        (["--quic-ack-frequency", "0"], "type --quic-ack-frequency 1"),
    ],
)
def test_a_quic_that_is_none_is_told(arguments: list[str], said: str) -> None:
    shown = load_text("--h3", *arguments, "https://127.0.0.1:9/")
    assert shown.code == 2
    assert said in shown.err


@pytest.mark.parametrize("listener", ["h1", "h2c", "h3"])
def test_each_connection_has_a_rate_of_its_own(peers: Peers, listener: str) -> None:
    streams = [] if listener == "h1" else ["-m", "4"]
    arguments = ["-c", "5", *streams, "-t", "2", "--rate-per-connection", "40", "-k", "-n", "200"]
    url = peers["embedded"].url(listener)
    report = load(flag(listener), *arguments, url).checked
    plan = report["plan"]
    assert (plan["model"], plan["rate_per_s"]) == ("open", 200)
    assert plan["asked"]["rate_per_connection_per_s"] == 40
    assert report["requests"]["ok"] == 200
    # The last of the 200 is due a second after the first.
    assert report["rate"]["window_s"] >= 0.97
    shown = load_text(flag(listener), *arguments, url)
    assert "open model, 40 requests/s on each connection, 200 on all, on time" in shown.out


def test_a_queue_that_grows_is_told(peers: Peers) -> None:
    """One connection serves 20 requests a second, and 200 are due."""
    url = peers["embedded"].bases["h1"] + "/delay/50ms"
    arguments = ["--h1", "-c", "1", "-R", "200", "-d", "2s", "--warmup", "0s", url]
    report = load(*arguments).checked
    backlog = report["backlog"]
    # At least what it cannot serve by the end, and not more than what was due.
    assert 300 <= backlog["at_end"] <= 400
    assert backlog["at_most"] == backlog["at_end"]
    assert backlog["since_s"] < 0.3
    assert backlog["at_most_s"] == pytest.approx(2.0, abs=0.11)
    assert abs(backlog["at_end"] - report["requests"]["unsent"]) <= 1
    windows = [window["backlog"] for window in report["windows"]]
    assert windows[-1] == backlog["at_end"]
    reasons = [reason for reason in report["validity"]["reasons"] if reason["code"] == "queued"]
    # Of the forty requests that left, the longest wait is told: a p99 takes a thousand.
    assert "(at most " in reasons[0]["text"]
    assert "the queue grew to" in reasons[0]["text"]
    assert reasons[0]["numbers"]["backlog"] == backlog["at_most"]
    assert report["rate"]["sent_per_s"] < 25
    shown = load_text(*arguments)
    assert "due and not sent: at most" in shown.out


def test_what_left_is_told_beside_what_was_asked_for(peers: Peers) -> None:
    report = load("--h1", "-c", "4", "-R", "500", "-n", "400", peers["embedded"].url("h1")).checked
    assert report["rate"]["sent_per_s"] == pytest.approx(400 / report["rate"]["window_s"])
    assert load("--h1", "-n", "9", peers["embedded"].url("h1")).good["rate"]["sent_per_s"] is None


def test_the_longest_wait_of_a_few_requests_is_not_called_a_percentile(peers: Peers) -> None:
    """A p99 takes a thousand."""
    out = load_text("-R", "50", "-n", "5", peers["embedded"].url("h1")).out
    line = next(line for line in out.splitlines() if "asked for" in line)
    assert line.endswith("(at most)"), line
