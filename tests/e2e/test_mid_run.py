"""What happens to a run while it is under way."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from peers import gonet, nginx
from peers.peer import Peer
from peers.process import free_port

from .loading import Running, flag, load

if TYPE_CHECKING:
    from peers.authority import Authority
    from peers.running import Peers

Own = Callable[[Callable[[Path], Peer]], Peer]
TCP = ["h1", "h1s", "h2c", "h2"]
EVERY = [*TCP, "h3"]


def streams(listener: str) -> list[str]:
    return [] if listener.startswith("h1") else ["-m", "8"]


@pytest.mark.parametrize("listener", TCP)
def test_server_killed(own: Own, authority: Authority, listener: str) -> None:
    peer = own(lambda folder: nginx.start(folder, authority.local()))
    arguments = [
        "-c",
        "4",
        *streams(listener),
        "-d",
        "2s",
        "--warmup",
        "0s",
        "--timeout",
        "2s",
        "-k",
    ]
    running = Running(flag(listener), *arguments, peer.url(listener))
    time.sleep(0.8)
    peer.process.kill()
    run = running.wait(20)
    assert run.code == 4, run
    requests = run.checked["requests"]
    assert requests["ok"] > 0
    assert requests["failed"] > 0
    kinds = {"refused", "closed", "reset", "body", "connect", "timeout", "tls"}
    assert set(requests["failures"]) <= kinds
    assert run.checked["validity"]["verdict"] == "invalid"


@pytest.mark.parametrize("listener", TCP)
def test_server_restarted(own: Own, authority: Authority, listener: str) -> None:
    ports = (free_port(), free_port(), free_port(), free_port())
    first = own(lambda folder: nginx.start(folder, authority.local(), ports=ports))
    arguments = [
        "-c",
        "4",
        *streams(listener),
        "-d",
        "4s",
        "--warmup",
        "0s",
        "--timeout",
        "2s",
        "-k",
    ]
    running = Running(flag(listener), *arguments, first.url(listener))
    time.sleep(1.0)
    first.process.kill()
    own(lambda folder: nginx.start(folder, authority.local(), ports=ports))
    report = running.wait(20).checked
    # It goes on by itself: the last whole second is good again.
    assert report["windows"][3]["ok"] > 0, report["windows"]
    assert report["windows"][3]["failed"] == 0, report["windows"]


@pytest.mark.parametrize("listener", EVERY)
def test_interrupt_prints_the_partial_report(peers: Peers, listener: str) -> None:
    peer = peers["embedded"]
    arguments = ["-c", "2", *streams(listener), "-d", "60s", "--warmup", "0s", "-k"]
    running = Running(flag(listener), *arguments, peer.url(listener))
    time.sleep(1.0)
    running.interrupt()
    run = running.wait(10)
    assert run.code == 130, run
    assert run.checked["interrupted"] is True
    assert run.checked["requests"]["ok"] > 0


def test_interrupt_during_the_warm_up(peers: Peers) -> None:
    running = Running("-d", "60s", "--warmup", "60s", "-c", "2", peers["gonet"].url("h1"))
    time.sleep(0.7)
    running.interrupt()
    run = running.wait(10)
    assert run.code == 130, run
    requests = run.checked["requests"]
    assert requests["ok"] == requests["failed"] == 0
    assert requests["started"] == requests["abandoned"] <= 2
    assert requests["warmup"]["ok"] > 0


@pytest.mark.parametrize("listener", TCP)
def test_requests_per_connection_of_the_server(
    own: Own, authority: Authority, listener: str
) -> None:
    peer = own(lambda folder: nginx.start(folder, authority.local(), keepalive_requests=10))
    report = load(
        flag(listener), "-c", "4", *streams(listener), "-n", "1000", "-k", peer.url(listener)
    ).good
    assert report["requests"]["ok"] == report["requests"]["started"] == 1000
    assert report["phases"]["connect"]["count"] >= 100 - 4


@pytest.mark.parametrize("listener", TCP)
def test_connection_that_ends_with_each_response(peers: Peers, listener: str) -> None:
    peer = peers["gonet"]
    report = load(
        *(
            flag(listener),
            "-c",
            "2",
            "-n",
            "100",
            "--cacert",
            str(peer.ca),
            peer.url(listener, "/close"),
        )
    ).good
    assert report["requests"]["ok"] == 100
    assert report["phases"]["connect"]["count"] >= 90


@pytest.mark.parametrize("listener", TCP)
def test_graceful_shutdown_loses_nothing(
    own: Own, authority: Authority, tmp_path: Path, listener: str
) -> None:
    peer = own(lambda folder: gonet.start(gonet.build(tmp_path), folder, authority.local()))
    arguments = ["-c", "4", *streams(listener), "-d", "3s", "--warmup", "0s", "-k"]
    running = Running(flag(listener), *arguments, peer.url(listener))
    for _ in range(3):
        time.sleep(0.7)
        gonet.shut_down_and_succeed(peer)
    report = running.wait(20).checked
    assert report["requests"]["failed"] == 0, report["requests"]
    assert report["phases"]["connect"]["count"] > 4
