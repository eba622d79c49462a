"""`trilane load --cluster`: it reads like a load on one machine, whatever is lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.loading import Report, check, codes
from e2e.terminal import Terminal, measured
from peers.clusters import TRILANE, Cluster
from peers.counted import Counted
from peers.process import wait_until
from peers.running import Peers
from repository import ROOT
from trilane.cluster import command, load
from trilane.cluster.load import ClusterFailed

# More than any of these tests lasts: what ends such a load is what the test does.
ENDLESS = ("-d", "600s", "--warmup", "0s")
# So that a server in Python has time for other things.
GENTLE = ("-c", "4", "-R", "100")
NOBODY = "http://127.0.0.1:1/"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two workers, one of them with twice the cores."""
    with Cluster() as started:
        started.worker("small", "--label", "little")
        started.worker("large", "--label", "big", cores=2)
        yield started


@pytest.fixture(scope="module")
def connected(cluster: Cluster) -> Iterator[load.Cluster]:
    """The same, for loads whose coordinator is this process."""
    with load.Cluster(cluster.address) as found:
        yield found


@pytest.fixture
def counted() -> Iterator[Counted]:
    with Counted() as server:
        yield server


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Has a thread for a load whose coordinator is this process."""
    with ThreadPoolExecutor(1) as threads:
        yield threads


def good(report: Report) -> Report:
    """The report of a load that went well, whatever else the machine was doing."""
    check(report)
    reasons = report["validity"]["reasons"]
    # A busy machine sends requests of the open model late.
    assert {each["code"] for each in reasons if each["verdict"] == "invalid"} <= {"late"}, reasons
    return report


def test_a_load_on_two_workers_reads_like_one(
    cluster: Cluster, peers: Peers, tmp_path: Path
) -> None:
    url, file = peers["embedded"].url("h1"), tmp_path / "run.json"
    held = ("--fail-if", "p50>100s", "-o", str(file))
    ended = cluster.load("-n", "300", "-c", "9", "--warmup", "0s", *held, url).wait()
    report = good(json.loads(file.read_bytes()))
    invalid = report["validity"]["verdict"] == "invalid"
    assert (ended.code, ended.out) == (4 if invalid else 0, ""), ended
    assert report["requests"]["ok"] == 300
    assert report["plan"]["threads"] == 3
    large, small = report["workers"]
    assert [large["name"], large["threads"], large["cores"]] == ["large", 2, 2]
    assert [small["name"], small["threads"], small["cores"]] == ["small", 1, 1]
    assert large["ok"] + small["ok"] == 300
    for worker in (large, small):
        assert worker["lost"] is None
        # One clock of one kernel: the true offset is none.
        assert abs(worker["clock_offset_s"]) <= worker["clock_error_s"]


def test_what_a_load_reads_reaches_the_workers(
    connected: load.Cluster, peers: Peers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Certificates, schemas with what they import, and files where the command was typed."""
    (tmp_path / "call.json").write_text('{"name": "shelves/1/books/1"}')
    monkeypatch.chdir(tmp_path)
    peer, proto = peers["embedded"], ROOT / "proto"
    told = connected.measure(
        [
            *("-n", "30", "-c", "3", "--warmup", "0s", "-b", "@call.json", "--h2"),
            *("--grpc", "trilane.library.v1.Library/GetBook", "--proto-path", str(proto)),
            *("--proto", str(proto / "trilane/library/v1/library.proto")),
            *("--cacert", str(peer.ca), peer.url("h2", "")),
        ]
    )
    assert good(json.loads(told))["requests"]["ok"] == 30


def test_a_gate_is_breached_by_the_workers_that_were_asked_for(
    cluster: Cluster, peers: Peers, tmp_path: Path
) -> None:
    file = tmp_path / "run.json"
    chosen = ("--cluster", cluster.address, "--worker-label", "little", "--workers", "1")
    gate = ("--fail-if", "p99>1us", "--format", "json", "-o", str(file))
    count = ("-n", "100", "-c", "3", "--warmup", "0s")
    assert command.load([*chosen, *count, *gate, peers["embedded"].url("h1")]) == 3
    report = good(json.loads(file.read_bytes()))
    assert [worker["name"] for worker in report["workers"]] == ["small"]


def test_too_few_workers_are_named(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--cluster", cluster.address, "--workers")
    assert command.load([*asked, "3", NOBODY]) == 1
    assert capsys.readouterr().err == (
        f"trilane load: error: --workers 3: the cluster at {cluster.address} has 2 workers: "
        "large (cores: 2, big), small (cores: 1, little)\n"
    )
    assert command.load([*asked, "2", "--worker-label", "big", NOBODY]) == 1
    assert "has 2 workers, 1 of them with these labels: large" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["-c", "none"], 2, "'none'"),
        (["--search", "p99<10ms"], 2, "--search"),
        (["-b", "@/no/such/file"], 1, "/no/such/file"),
    ],
)
def test_what_cannot_be_measured_is_raised(
    connected: load.Cluster, arguments: list[str], code: int, told: str
) -> None:
    with pytest.raises(ClusterFailed, match=told) as failed:
        connected.measure([*arguments, NOBODY])
    assert failed.value.code == code


def test_from_a_notebook_a_load_is_measured(cluster: Cluster, peers: Peers) -> None:
    """In a program whose loop of asyncio runs already; one connection is of one worker."""

    async def cell() -> bytes:
        with load.Cluster(cluster.address) as connected:
            url = peers["embedded"].url("h1")
            return connected.measure(["-n", "50", "-c", "1", "--warmup", "0s", url])

    report = good(json.loads(asyncio.run(cell())))
    assert report["requests"]["ok"] == 50
    assert [worker["name"] for worker in report["workers"]] == ["large"]


def test_an_interrupt_ends_the_load_and_prints_what_was_measured(
    cluster: Cluster, counted: Counted
) -> None:
    loading = cluster.load(*ENDLESS, *GENTLE, counted.url)
    counted.until(lambda seen: seen.requests > 50)
    loading.interrupt()
    ended = loading.wait()
    assert ended.code == 130, ended
    report = ended.report
    check(report)
    assert report["requests"]["ok"] > 0
    assert {worker["lost"] for worker in report["workers"]} == {None}
    counted.until(lambda seen: seen.open == 0)


def test_a_key_under_live_ends_the_load_of_all(
    cluster: Cluster, counted: Counted, tmp_path: Path
) -> None:
    argv = [*TRILANE, "load", "--cluster", cluster.address, *ENDLESS, *GENTLE, counted.url]
    terminal = Terminal(tmp_path, argv)
    try:
        text = terminal.until(measured)
        assert counted.url in text.splitlines()[0]
        terminal.press(b"q")
        run = terminal.wait()
    finally:
        terminal.close()
    assert run.code == 130
    assert run.report is not None
    check(run.report)
    assert run.report["requests"]["ok"] > 0
    counted.until(lambda seen: seen.open == 0)


def test_a_killed_coordinator_takes_its_load_with_it(cluster: Cluster, counted: Counted) -> None:
    loading = cluster.load(*ENDLESS, *GENTLE, counted.url)
    counted.until(lambda seen: seen.requests > 20)
    os.killpg(loading.process.pid, signal.SIGKILL)
    loading.process.wait()
    counted.until(lambda seen: seen.open == 0)


def test_a_port_where_nothing_listens_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert command.load(["--cluster", f"tcp://127.0.0.1:{port}", NOBODY]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert f"no scheduler answers at tcp://127.0.0.1:{port}: Connection refused" in line


def test_what_listens_but_is_no_scheduler_is_one_line(
    peers: Peers, capsys: pytest.CaptureFixture[str]
) -> None:
    address = peers["embedded"].bases["h1"].replace("http", "tcp")
    assert command.load(["--cluster", address, NOBODY]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert f"what answers at {address} is no scheduler of Dask" in line


def asked(count: int) -> Callable[[Counted], bool]:
    """Whether so many requests have come."""
    return lambda seen: seen.requests >= count


def is_told(file: Path) -> bool:
    """Whether a second of a load is in its file."""
    return file.exists() and b"\n" in file.read_bytes()


def impatient(connected: load.Cluster, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Once this is set, the coordinator waits a second at most for an answer of the scheduler."""
    hurried, ask = threading.Event(), connected._ask

    def hurrying(make: Any, what: str, limit_s: float | None = None) -> Any:
        return ask(make, what, 1.0 if hurried.is_set() else limit_s)

    monkeypatch.setattr(connected, "_ask", hurrying)
    return hurried


def test_a_scheduler_that_hangs_or_ends_ends_the_load(
    counted: Counted, pool: ThreadPoolExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it hangs no connection closes: only the clock's silence tells."""
    with Cluster() as cluster:
        cluster.worker("one")
        for number in (signal.SIGSTOP, signal.SIGKILL):
            with load.Cluster(cluster.address) as connected:
                hurried = impatient(connected, monkeypatch)
                told = tmp_path / f"{number}.ndjson"
                words = [*ENDLESS, *GENTLE, "--ndjson", str(told), counted.url]
                loading = pool.submit(connected.measure, words)
                wait_until(partial(is_told, told), "a second is told")
                # From now on it does not wait for answers as long as a slow machine may take.
                hurried.set()
                counted.until(asked(counted.requests + 50))
                cluster.scheduler.send_signal(number)
                # The load would go on for minutes: that its connections close is what is tested.
                try:
                    counted.until(lambda seen: seen.open == 0)
                    report = json.loads(loading.result())
                finally:
                    cluster.scheduler.send_signal(signal.SIGCONT)
            check(report)
            assert [each["lost"] for each in report["workers"]] == ["the scheduler was lost"]
            assert report["requests"]["ok"] > 0


def test_workers_that_are_killed_or_hang_are_lost_and_the_rest_is_kept(
    cluster: Cluster, connected: load.Cluster, counted: Counted, pool: ThreadPoolExecutor
) -> None:
    stopped = cluster.worker("stopped")
    killed, hangs = cluster.workers["small"].pid, stopped.pid
    timed = ["-d", "6s", "--warmup", "0s", *GENTLE, counted.url]
    loading = pool.submit(connected.measure, timed)
    counted.until(lambda seen: seen.requests > 50)
    os.kill(killed, signal.SIGKILL)
    os.kill(hangs, signal.SIGSTOP)
    try:
        report = json.loads(loading.result())
    finally:
        os.kill(hangs, signal.SIGCONT)
    check(report)
    assert "worker_lost" in codes(report)
    assert report["validity"]["verdict"] == "invalid"
    lost = {worker["name"]: worker["lost"] for worker in report["workers"]}
    assert lost["large"] is None
    assert "left the cluster" in lost["small"]
    assert "not heard of" in lost["stopped"]
    assert report["requests"]["ok"] > 0
    # The load of the one has ended, and that of the other ends once it finds nobody there.
    counted.until(lambda seen: seen.open == 0)
    stopped.command.terminate()
    stopped.command.wait(60)
    # What was started again did not begin the load again, and takes part in the next.
    wait_until(lambda: len(connected.places()) == 2, "the killed worker was started again")
    connections = counted.connections
    again = connected.measure(["-n", "30", "-c", "3", "--warmup", "0s", counted.url])
    assert [each["name"] for each in good(json.loads(again))["workers"]] == ["large", "small"]
    assert counted.connections == connections + 3
