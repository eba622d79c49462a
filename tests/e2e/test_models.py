"""Counts, rates, timeouts and gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .loading import flag, load, load_text

if TYPE_CHECKING:
    from peers.running import Peers

LISTENERS = ["h1", "h1s", "h2c", "h2", "h3"]


def streams(listener: str) -> list[str]:
    return [] if listener.startswith("h1") else ["-m", "8"]


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("count", [1, 7, 1001])
def test_exactly_as_many_as_asked(peers: Peers, listener: str, count: int) -> None:
    peer = peers["embedded"]
    arguments = ["-c", "5", *streams(listener), "-t", "2", "-n", str(count), "-k"]
    requests = load(flag(listener), *arguments, peer.url(listener)).good["requests"]
    assert requests["started"] == requests["ok"] == count
    assert requests["abandoned"] == 0


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_rate_is_kept(peers: Peers, listener: str) -> None:
    peer = peers["embedded"]
    arguments = ["-c", "4", *streams(listener), "-R", "1k", "-n", "300", "-k"]
    report = load(flag(listener), *arguments, peer.url(listener)).checked
    assert report["plan"]["model"] == "open"
    assert report["plan"]["rate_per_s"] == 1000
    assert report["requests"]["ok"] == 300
    # The last request is due 299 ms after the first; no machine is too slow to be too fast.
    assert report["rate"]["window_s"] >= 0.298
    assert report["latency"]["lag"]["count"] == 300
    assert report["latency"]["response"]["max"] >= report["latency"]["service"]["min"]


def test_lateness_shows_in_the_response_time(peers: Peers) -> None:
    # One connection serves 20 requests a second; 200 are due. The last of them is due after 145 ms,
    # and cannot leave before the others have taken 29 times 50 ms.
    url = peers["gonet"].url("h1", "/delay/50ms")
    run = load("--h1", "-c", "1", "-R", "200", "-n", "30", url)
    assert run.code == 4, run
    report = run.checked
    assert report["validity"]["verdict"] == "invalid"
    assert report["latency"]["lag"]["max"] > 1.3
    assert report["latency"]["response"]["max"] > report["latency"]["service"]["max"] + 1.3


@pytest.mark.parametrize("listener", ["h1", "h1s", "h2c", "h2"])
def test_timeouts_are_counted(peers: Peers, listener: str) -> None:
    url = peers["gonet"].url(listener, "/delay/30s")
    arguments = ["-c", "2", *streams(listener), "-n", "4", "-k", "--timeout", "200ms"]
    run = load(flag(listener), *arguments, url)
    assert run.code == 4, run
    requests = run.checked["requests"]
    assert (requests["ok"], requests["failed"]) == (0, 4)
    assert set(requests["failures"]) == {"timeout"}


def test_gates(peers: Peers) -> None:
    arguments = ["--h1", "-c", "2", "-n", "2000", peers["gonet"].url("h1")]
    assert load(*arguments, "--fail-if", "p99>1h", "--fail-if", "failed>0").code == 0
    breached = load(*arguments, "--fail-if", "p50>1us")
    assert breached.code == 3, breached
    assert breached.checked["requests"]["ok"] == 2000
    assert "p50" in breached.err
    text = load_text(*arguments, "--fail-if", "p50>1us", "--fail-if", "p99>1h")
    assert text.code == 3
    assert "Requests/sec:" in text.out


def test_requested_fields_method_and_content_arrive(peers: Peers) -> None:
    url = peers["gonet"].url("h1", "/echo")
    report = load("-n", "20", "-c", "1", "-b", "some text", "-H", "X-One: 1", url).good
    assert report["plan"]["request"]["method"] == "POST"
    assert report["plan"]["request"]["body_bytes"] == 9
    assert report["target"]["body"]["bytes"] == 9


def test_urls_take_turns(peers: Peers) -> None:
    peer = peers["gonet"]
    urls = [peer.url("h1", "/bytes/10"), peer.url("h1", "/bytes/1000")]
    report = load("-n", "200", "-c", "1", "--check-body", *urls).good
    assert report["requests"]["ok"] == 200
    assert report["bytes"]["body_received"] == 100 * 10 + 100 * 1000
