"""What happens to a run while it is under way."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hangups import hangups
from peers import embedded, gonet, nginx
from peers.peer import Peer
from peers.process import free_port
from repository import native

from .loading import Watched, codes, flag, load

if TYPE_CHECKING:
    from peers.authority import Authority
    from peers.running import Peers

Own = Callable[[Callable[[Path], Peer]], Peer]


def streams(listener: str) -> list[str]:
    return [] if listener.startswith("h1") else ["-m", "8"]


@pytest.fixture
def start(own: Own, authority: Authority) -> Callable[[str, list[int]], Peer]:
    """Starts a server for a listener: nginx, which speaks no HTTP/3 on Debian, or our own."""

    def started(listener: str, ports: list[int]) -> Peer:
        if listener == "h3":
            return own(lambda folder: embedded.start(native(), folder, ports=(ports[0], ports[1])))
        four = (ports[0], ports[1], ports[2], ports[3])
        return own(lambda folder: nginx.start(folder, authority.local(), ports=four))

    return started


@pytest.mark.parametrize("listener", ["h2", "h3"])
def test_server_killed(start: Callable[[str, list[int]], Peer], listener: str) -> None:
    peer = start(listener, [free_port() for _ in range(4)])
    # Without a duration: the run ends when no connection has been made for the longer timeout.
    arguments = ["-c", "4", *streams(listener), "-n", "1000000000", "-k"]
    running = Watched(
        *(flag(listener), *arguments, "--timeout", "1s", "--connect-timeout", "5s"),
        peer.url(listener),
    )
    running.until_ok()
    peer.process.kill()
    run = running.wait()
    assert run.code == 4, run
    requests = run.checked["requests"]
    assert requests["ok"] > 0
    assert requests["failed"] > 0
    kinds = {"refused", "closed", "reset", "timeout"}
    if listener == "h3":
        # No kernel tells of each connection's end.
        assert "refused" in requests["failures"], requests
    else:
        kinds |= {"body", "connect", "tls"}
    assert set(requests["failures"]) <= kinds, requests
    validity = run.checked["validity"]
    assert validity["verdict"] == "invalid"
    assert "given_up" in codes(run.checked)


@pytest.mark.parametrize("listener", ["h1", "h3"])
def test_server_restarted(start: Callable[[str, list[int]], Peer], listener: str) -> None:
    ports = [free_port() for _ in range(4)]
    first = start(listener, ports)
    arguments = ["-c", "4", *streams(listener), "-d", "1h", "--warmup", "0s", "-k"]
    running = Watched(flag(listener), *arguments, first.url(listener))
    running.until_ok()
    first.process.kill()
    running.until(lambda counts: counts.failed > 0)
    start(listener, ports)
    # It goes on by itself: from then on all is good again.
    ended = running.until(lambda _: True)
    again = running.until_ok(ended.ok)
    running.until_ok(again.ok)
    running.interrupt()
    run = running.wait()
    assert run.code == 130, run
    requests = run.checked["requests"]
    assert requests["ok"] > again.ok
    assert requests["failed"] == again.failed > 0


def test_interrupt_prints_the_partial_report(peers: Peers) -> None:
    peer = peers["embedded"]
    arguments = ["-c", "2", "-m", "8", "-d", "1h", "--warmup", "0s", "-k"]
    running = Watched("--h3", *arguments, peer.url("h3"))
    shown = running.until_ok()
    running.interrupt()
    run = running.wait()
    assert run.code == 130, run
    assert run.checked["interrupted"] is True
    assert run.checked["requests"]["ok"] >= shown.ok


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_a_run_prints_its_report(peers: Peers, number: signal.Signals) -> None:
    url = peers["gonet"].url("h1")
    with hangups(signal.SIG_DFL):
        running = Watched("-d", "1h", "--warmup", "0s", "-c", "2", url)
    shown = running.until_ok()
    running.interrupt(number)
    run = running.wait()
    assert run.code == 130, run
    assert run.checked["interrupted"] is True
    assert run.checked["requests"]["ok"] >= shown.ok


def test_a_hangup_does_not_end_what_nohup_started(peers: Peers) -> None:
    url = peers["gonet"].url("h1")
    with hangups(signal.SIG_IGN):
        running = Watched("-d", "1h", "--warmup", "0s", "-c", "2", url)
    shown = running.until_ok()
    running.interrupt(signal.SIGHUP)
    running.until_ok(running.until_ok(shown.ok).ok)
    running.interrupt()
    assert running.wait().code == 130


def test_interrupt_during_the_warm_up(peers: Peers) -> None:
    running = Watched("-d", "1h", "--warmup", "1h", "-c", "2", peers["gonet"].url("h1"))
    shown = running.until_ok()
    running.interrupt()
    run = running.wait()
    assert run.code == 130, run
    requests = run.checked["requests"]
    assert requests["ok"] == requests["failed"] == 0
    assert requests["started"] == requests["abandoned"] <= 2
    assert requests["warmup"]["ok"] >= shown.ok


def test_requests_per_connection_of_the_server(own: Own, authority: Authority) -> None:
    peer = own(lambda folder: nginx.start(folder, authority.local(), keepalive_requests=10))
    for listener in ("h1", "h2"):
        report = load(
            flag(listener), "-c", "4", *streams(listener), "-n", "200", "-k", peer.url(listener)
        ).good
        assert report["requests"]["ok"] == report["requests"]["started"] == 200
        assert report["phases"]["connect"]["count"] >= 20 - 4


@pytest.mark.parametrize("listener", ["h1s", "h2c"])
def test_connection_that_ends_with_each_response(peers: Peers, listener: str) -> None:
    peer = peers["gonet"]
    trust = ["--cacert", str(peer.ca)]
    url = peer.url(listener, "/close")
    report = load(flag(listener), "-c", "2", "-n", "40", *trust, url).good
    assert report["requests"]["ok"] == 40
    assert report["phases"]["connect"]["count"] >= 36


@pytest.mark.parametrize("listener", ["h1", "h2"])
def test_graceful_shutdown(own: Own, authority: Authority, listener: str) -> None:
    """GOAWAY says what was not processed, so nothing is lost. An HTTP/1.1 connection that is closed
    while a request is on its way says nothing: that request has failed."""
    peer = own(lambda folder: gonet.start(folder, authority.local()))
    arguments = ["-c", "4", *streams(listener), "-d", "1h", "--warmup", "0s", "-k"]
    running = Watched(flag(listener), *arguments, peer.url(listener))
    shown = running.until_ok()
    for _ in range(3):
        gonet.shut_down_and_succeed(peer)
        shown = running.until_ok(shown.ok)
    running.interrupt()
    report = running.wait().checked
    requests = report["requests"]
    assert report["phases"]["connect"]["count"] > 4
    if listener.startswith("h1"):
        assert set(requests["failures"]) <= {"closed", "reset"}, requests
        assert requests["failed"] <= 3 * 4
        assert requests["retried"] == 0
    else:
        assert requests["failed"] == 0, requests
