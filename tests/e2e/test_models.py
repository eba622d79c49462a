"""Counts, rates, timeouts and gates."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from peers import chaos

from .loading import codes, flag, load, load_text

if TYPE_CHECKING:
    from peers.running import Peers


def streams(listener: str) -> list[str]:
    return [] if listener.startswith("h1") else ["-m", "8"]


@pytest.mark.parametrize("listener", ["h1", "h2c", "h3"])
def test_exactly_as_many_as_asked(peers: Peers, listener: str) -> None:
    peer = peers["embedded"]
    arguments = ["-c", "5", *streams(listener), "-t", "2", "-n", "101", "-k"]
    report = load(flag(listener), *arguments, peer.url(listener)).good
    requests = report["requests"]
    assert requests["started"] == requests["ok"] == 101
    assert requests["abandoned"] == 0
    assert report["rate"]["sent_per_s"] is None


def test_a_rate_is_kept(peers: Peers) -> None:
    arguments = ["--h2c", "-c", "4", "-m", "8", "-R", "1k", "-n", "300"]
    report = load(*arguments, peers["embedded"].url("h2c")).checked
    assert report["plan"]["model"] == "open"
    assert report["plan"]["rate_per_s"] == 1000
    assert report["requests"]["ok"] == 300
    # The last request is due 299 ms after the first; no machine is too slow to be too fast.
    assert report["rate"]["window_s"] >= 0.298
    assert report["latency"]["late"]["count"] == report["latency"]["queued"]["count"] == 300
    assert report["latency"]["response"]["max"] >= report["latency"]["service"]["min"]


def test_a_rate_in_stages_sends_what_lies_under_it(peers: Peers) -> None:
    """A fifth of a second up to 400/s, a fifth of it, and none from there on."""
    stages = ["--stages", "200ms:400, 200ms:400, 200ms:0, 100ms:0"]
    arguments = ["--h2c", "-c", "4", "-m", "8", "-t", "2", *stages]
    report = load(*arguments, peers["embedded"].url("h2c")).checked
    plan, requests = report["plan"], report["requests"]
    assert plan["model"] == "open"
    assert plan["arrivals"] == "constant"
    assert [stage["rate_per_s"] for stage in plan["stages"]] == [400, 400, 0, 0]
    assert plan["duration_s"] == pytest.approx(0.7)
    assert plan["rate_per_s"] == pytest.approx(160 / 0.7)
    assert plan["warmup_s"] == 0
    # The rate changes on purpose: that is neither a cold start nor a drift.
    assert codes(report).isdisjoint({"cold_start", "drift"})
    # 40, 80 and 40; what the last stage is too short for is told.
    assert requests["started"] + requests["unsent"] == 160


def test_arrivals_at_random_are_as_many_as_asked_for(peers: Peers) -> None:
    arguments = ["--h1", "-c", "4", "-R", "2k", "--arrivals", "poisson", "-n", "500"]
    report = load(*arguments, peers["embedded"].url("h1")).checked
    assert report["plan"]["arrivals"] == "poisson"
    assert report["requests"]["ok"] == 500
    # The five hundredth is due after 250 ms, with a deviation of 11.
    assert report["rate"]["window_s"] >= 0.19
    shown = load_text(*arguments, peers["embedded"].url("h1"))
    assert "open model, 2000 requests/s at random (Poisson)" in shown.out


def test_what_is_too_late_is_shed_and_accounted_for(peers: Peers) -> None:
    """One request at a time takes 50 ms, and one is due each 5 ms: nine of ten are too late."""
    url = peers["embedded"].bases["h1"] + "/delay/50ms"
    arguments = ["--h1", "-c", "1", "-R", "200", "-n", "100", "--shed-after", "20ms"]
    report = load(*arguments, url).checked
    requests = report["requests"]
    assert requests["started"] == requests["ok"]
    assert requests["started"] + requests["shed"] == 100
    assert requests["shed"] >= requests["ok"] > 0
    # From when it was due: it left at most so late.
    assert report["latency"]["late"]["max"] <= report["latency"]["response"]["max"]
    assert report["latency"]["queued"]["max"] <= 0.021
    shown = load_text(*arguments, "--fail-if", "shed>0", url)
    assert shown.code == 3
    assert "more than 0.02 s late and were shed" in shown.out


def test_larger_frames_are_taken_where_they_are_announced(peers: Peers) -> None:
    """Servers fill what is announced: without the announcement such a frame ends the connection."""
    url = peers["embedded"].bases["h2c"] + "/bytes/1m"
    report = load("--h2c", "-c", "1", "-m", "2", "-n", "4", "--max-frame-size", "256k", url).good
    assert report["target"]["client_settings"]["max_frame_size"] == 262_144
    assert report["bytes"]["body_received"] == 4 << 20
    usual = load("--h2c", "-c", "1", "-n", "2", url).good
    assert usual["target"]["client_settings"]["max_frame_size"] == 16_384


def test_the_warm_up_takes_none_of_the_requests(peers: Peers) -> None:
    arguments = ["--h1", "-c", "2", "-n", "100", "--warmup", "200ms", peers["gonet"].url("h1")]
    requests = load(*arguments).good["requests"]
    assert requests["started"] == requests["ok"] == 100
    assert requests["warmup"]["ok"] > 0


def test_a_worker_without_a_connection_ends_with_the_others(peers: Peers) -> None:
    """The first connection is passed on to a server that is right; no other says anything."""
    parts = urlsplit(peers["gonet"].bases["h1s"])
    taken = False

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        if taken:
            await chaos.forever()
        taken = True
        onward, back = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            await asyncio.gather(copy(reader, back), copy(onward, writer))
        finally:
            back.transport.abort()

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
        sink.write_eof()

    with chaos.serve(script) as server:
        url = server.base.replace("http:", "https:") + "/hello"
        timing = ["-d", "500ms", "--warmup", "0s", "--connect-timeout", "1h"]
        run = load("--h1", "-k", "-c", "2", "-t", "2", *timing, url)
    assert run.code == 0, run
    assert run.checked["requests"]["ok"] > 0


def test_timeouts_are_counted(peers: Peers) -> None:
    url = peers["gonet"].url("h2", "/delay/30s")
    run = load("--h2", "-c", "2", "-m", "8", "-n", "4", "-k", "--timeout", "200ms", url)
    assert run.code == 4, run
    requests = run.checked["requests"]
    assert (requests["ok"], requests["failed"]) == (0, 4)
    assert set(requests["failures"]) == {"timeout"}


def test_gates(peers: Peers) -> None:
    arguments = ["--h1", "-c", "2", "-n", "50", peers["gonet"].url("h1")]
    assert load(*arguments, "--fail-if", "p50>1h", "--fail-if", "failed>0").code == 0
    breached = load(*arguments, "--fail-if", "p50>1us")
    assert breached.code == 3, breached
    assert breached.checked["requests"]["ok"] == 50
    assert "p50" in breached.err
    text = load_text(*arguments, "--fail-if", "p50>1us", "--fail-if", "p50>1h")
    assert text.code == 3
    assert "Requests/sec:" in text.out


def test_requested_fields_method_and_content_arrive(peers: Peers) -> None:
    url = peers["gonet"].url("h1", "/echo")
    report = load("-n", "20", "-c", "1", "-b", "some text", "-H", "X-One: 1", url).good
    assert report["plan"]["request"]["method"] == "POST"
    assert report["plan"]["request"]["body_bytes"] == 9
    assert report["target"]["body"]["bytes"] == 9


@pytest.mark.parametrize("listener", ["h1", "h2c", "h3"])
def test_many_urls_take_turns(peers: Peers, listener: str) -> None:
    """More than a connection keeps encoded, each for itself: what is kept is the right one's."""
    peer = peers["embedded"]
    urls = [peer.url(listener, f"/bytes/{number}") for number in range(100)]
    arguments = ["-n", "200", "-c", "2", *streams(listener), "--check-body", "-k"]
    report = load(flag(listener), *arguments, *urls).good
    assert report["requests"]["ok"] == 200
    assert report["bytes"]["body_received"] == 2 * sum(range(100))


@pytest.mark.parametrize("name", ["cubic", "reno", "bbr"])
def test_the_congestion_controller_over_http3_is_the_one_asked_for(peers: Peers, name: str) -> None:
    peer = peers["embedded"]
    arguments = ["-n", "4", "-c", "2", "-k", "--congestion-control", name, peer.url("h3")]
    report = load("--h3", *arguments).good
    assert report["target"]["congestion_control"] == name
    assert report["requests"]["ok"] == 4
