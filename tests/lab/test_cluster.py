"""`trilane load --cluster`: it reads like a load on one machine, whatever is lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import trilane.cluster.load
from e2e.loading import Report, check, codes
from e2e.terminal import Terminal, measured
from peers.clusters import TRILANE, Cluster, Ended
from peers.counted import Counted
from peers.process import wait_until
from peers.running import Peers
from repository import ROOT

# More than any of these tests lasts: what ends such a load is what the test does.
ENDLESS = ("-d", "600s", "--warmup", "0s")
# So that a server in Python has time for other things.
GENTLE = ("-c", "4", "-R", "100")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster that no test harms: two workers, one of them with twice the cores."""
    with Cluster() as started:
        started.worker("small", "--label", "any")
        started.worker("large", "--label", "any", "--label", "big", cores=2)
        yield started


@pytest.fixture
def counted() -> Iterator[Counted]:
    with Counted() as server:
        yield server


class Told:
    """What a load on a cluster has told of itself so far: a line for each second that has come."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "seconds.ndjson"
        self.flags = ("--ndjson", str(self._file))

    def wait(self) -> None:
        """Return once a second of it has come from the workers."""
        wait_until(
            lambda: self._file.exists() and b"\n" in self._file.read_bytes(), "a second is told"
        )


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


def good(ended: Ended) -> Report:
    """The report of a load that went well, whatever else the machine was doing."""
    report = ended.report
    check(report)
    reasons = report["validity"]["reasons"]
    invalid = {reason["code"] for reason in reasons if reason["verdict"] == "invalid"}
    assert ended.code == (4 if invalid else 0), ended
    # A busy machine sends requests of the open model late.
    assert invalid <= {"late"}, ended
    return report


def test_a_load_on_two_workers_reads_like_one(cluster: Cluster, peers: Peers) -> None:
    url = peers["embedded"].url("h1")
    ended = cluster.load("-n", "3000", "-c", "9", "--warmup", "0s", url).wait()
    report = good(ended)
    assert report["requests"]["ok"] == 3000
    assert report["plan"]["threads"] == 3
    large, small = report["workers"]
    assert [large["name"], large["threads"], large["cores"]] == ["large", 2, 2]
    assert [small["name"], small["threads"], small["cores"]] == ["small", 1, 1]
    assert large["ok"] + small["ok"] == 3000
    assert {worker["lost"] for worker in (large, small)} == {None}
    for worker in (large, small):
        # One clock of one kernel: the true offset is none.
        assert abs(worker["clock_offset_s"]) <= worker["clock_error_s"]


@pytest.mark.parametrize("listener", ["h2", "h3"])
def test_certificates_reach_the_workers(cluster: Cluster, peers: Peers, listener: str) -> None:
    peer = peers["embedded"]
    ended = cluster.load(
        *("-n", "100", "-c", "3", "--warmup", "0s", f"--{listener}"),
        *("--cacert", str(peer.ca), peer.url(listener)),
    ).wait()
    assert good(ended)["requests"]["ok"] == 100


def test_schemas_of_calls_reach_the_workers_with_what_they_import(
    cluster: Cluster, peers: Peers
) -> None:
    proto = ROOT / "proto"
    ended = cluster.load(
        *("-n", "30", "-c", "3", "--warmup", "0s", "-b", '{"name": "shelves/1/books/1"}'),
        *("--grpc", "trilane.library.v1.Library/GetBook", "--proto-path", str(proto)),
        *(
            "--proto",
            str(proto / "trilane/library/v1/library.proto"),
            peers["embedded"].url("h2c", ""),
        ),
    ).wait()
    assert good(ended)["requests"]["ok"] == 30


def test_files_are_those_of_where_the_command_was_typed(
    cluster: Cluster, peers: Peers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "body.txt").write_bytes(b"from a file of the coordinator")
    monkeypatch.chdir(tmp_path)
    peer = peers["embedded"]
    url = peer.url("h1", peer.upload)
    ended = cluster.load("-n", "30", "-c", "3", "--warmup", "0s", "-b", "@body.txt", url).wait()
    report = good(ended)
    assert report["requests"]["ok"] == 30
    # The server sends back what it got.
    assert report["target"]["body"]["bytes"] == len(b"from a file of the coordinator")


def test_gates_are_held_on_the_merge(cluster: Cluster, peers: Peers) -> None:
    url = peers["embedded"].url("h1")
    common = ("-n", "3000", "-c", "3", "--warmup", "0s")
    breached = cluster.load(*common, "--fail-if", "p99>1us", url).wait()
    assert breached.code == 3, breached
    held = cluster.load(*common, "--fail-if", "p99>100s", url).wait()
    assert held.code in {0, 4}, held


def test_a_plan_of_fewer_connections_takes_fewer_workers(cluster: Cluster, peers: Peers) -> None:
    ended = cluster.load("-n", "50", "-c", "1", "--warmup", "0s", peers["embedded"].url("h1"))
    report = good(ended.wait())
    assert [worker["name"] for worker in report["workers"]] == ["large"]


def test_workers_are_chosen_by_label_and_number(cluster: Cluster, peers: Peers) -> None:
    common = ("-n", "50", "-c", "3", "--warmup", "0s", peers["embedded"].url("h1"))
    labelled = good(cluster.load("--worker-label", "any", "--worker-label", "big", *common).wait())
    assert [worker["name"] for worker in labelled["workers"]] == ["large"]
    one = good(cluster.load("--workers", "1", *common).wait())
    assert [worker["name"] for worker in one["workers"]] == ["large"]


def test_the_result_goes_where_the_command_says(
    cluster: Cluster, peers: Peers, tmp_path: Path
) -> None:
    file = tmp_path / "run.json"
    ended = cluster.load("-n", "50", "-c", "2", "-o", str(file), peers["embedded"].url("h1")).wait()
    assert ended.code in {0, 4}, ended
    assert b'"workers"' in file.read_bytes()


def test_too_few_workers_are_named(cluster: Cluster) -> None:
    ended = cluster.load("--workers", "3", "http://127.0.0.1:1/").wait()
    assert ended.code == 1
    assert ended.message == (
        f"trilane load: error: --workers 3: the cluster at {cluster.address} has 2 workers: "
        "large (cores: 2, any, big), small (cores: 1, any)"
    )
    ended = cluster.load("--workers", "2", "--worker-label", "big", "http://127.0.0.1:1/").wait()
    assert ended.code == 1
    assert "has 2 workers, 1 of them with these labels: large" in ended.message


def test_wrong_usage_is_told_as_on_one_machine(cluster: Cluster) -> None:
    ended = cluster.load("-c", "none", "http://127.0.0.1:1/").wait()
    assert ended.code == 2
    assert "'none'" in ended.message


def test_what_a_cluster_cannot_do_is_refused(cluster: Cluster) -> None:
    ended = cluster.load("--search", "p99<10ms", "http://127.0.0.1:1/").wait()
    assert ended.code == 2, ended
    assert "--search" in ended.message


def test_a_file_that_is_not_there_is_named(cluster: Cluster) -> None:
    ended = cluster.load("-b", "@/no/such/file", "http://127.0.0.1:1/").wait()
    assert ended.code in {1, 2}
    assert "/no/such/file" in ended.message


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


@pytest.mark.parametrize("victim", ["worker", "whole command"])
def test_a_killed_worker_makes_the_run_invalid_and_keeps_the_rest(
    counted: Counted, told: Told, victim: str
) -> None:
    with Cluster() as cluster:
        cluster.worker("stays")
        killed = cluster.worker("goes")
        loading = cluster.load("-d", "8s", "--warmup", "0s", *GENTLE, *told.flags, counted.url)
        told.wait()
        if victim == "worker":
            os.kill(killed.pid, signal.SIGKILL)
        else:
            killed.kill()
        ended = loading.wait()
        assert ended.code == 4, ended
        report = ended.report
        check(report)
        assert "worker_lost" in codes(report)
        lost = {worker["name"]: worker["lost"] for worker in report["workers"]}
        assert lost["stays"] is None
        assert "left the cluster" in lost["goes"]
        assert report["requests"]["ok"] > 0
        # The load of the killed worker has ended, too.
        counted.until(lambda seen: seen.open == 0)
        if victim == "worker":
            # It was started again: it did not begin the load again, and takes part in the next.
            connections = counted.connections
            again = cluster.load("-n", "20", "-c", "2", "--warmup", "0s", counted.url).wait()
            assert good(again)["requests"]["ok"] == 20
            assert counted.connections == connections + 2


def test_a_worker_that_hangs_is_lost(counted: Counted, told: Told) -> None:
    with Cluster() as cluster:
        cluster.worker("stays")
        pid = cluster.worker("hangs").pid
        loading = cluster.load("-d", "15s", "--warmup", "0s", *GENTLE, *told.flags, counted.url)
        told.wait()
        os.kill(pid, signal.SIGSTOP)
        try:
            ended = loading.wait()
        finally:
            os.kill(pid, signal.SIGCONT)
        assert ended.code == 4, ended
        lost = {worker["name"]: worker["lost"] for worker in ended.report["workers"]}
        assert lost["stays"] is None
        assert "not heard of" in lost["hangs"]
        # Once it goes on it finds nobody there, and ends its load.
        counted.until(lambda seen: seen.open == 0)


def test_without_its_scheduler_a_load_ends_by_itself(counted: Counted, told: Told) -> None:
    with Cluster() as cluster:
        cluster.worker("one")
        cluster.worker("two")
        loading = cluster.load(*ENDLESS, *GENTLE, *told.flags, counted.url)
        told.wait()
        cluster.scheduler.kill()
        # The load would go on for minutes: that its connections close is what is tested.
        counted.until(lambda seen: seen.open == 0)
        ended = loading.wait()
    assert ended.code == 4, ended
    report = ended.report
    check(report)
    assert {worker["lost"] for worker in report["workers"]} == {"the scheduler was lost"}
    assert report["requests"]["ok"] > 0


def test_a_scheduler_that_hangs_ends_the_load_too(counted: Counted, told: Told) -> None:
    """No connection closes then: only the clock's silence tells."""
    with Cluster() as cluster:
        cluster.worker("one")
        loading = cluster.load(*ENDLESS, *GENTLE, *told.flags, counted.url)
        told.wait()
        cluster.scheduler.send_signal(signal.SIGSTOP)
        try:
            counted.until(lambda seen: seen.open == 0)
            ended = loading.wait()
        finally:
            cluster.scheduler.send_signal(signal.SIGCONT)
    assert ended.code == 4, ended


def test_a_port_where_nothing_listens_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    ended = Cluster.load_at(f"tcp://127.0.0.1:{port}", "http://127.0.0.1:1/").wait()
    assert ended.code == 1
    assert f"no scheduler answers at tcp://127.0.0.1:{port}: Connection refused" in ended.message


def test_what_listens_but_is_no_scheduler_is_one_line(peers: Peers) -> None:
    address = peers["embedded"].bases["h1"].replace("http", "tcp")
    ended = Cluster.load_at(address, "http://127.0.0.1:1/").wait()
    assert ended.code == 1
    assert f"what answers at {address} is no scheduler of Dask" in ended.message


def test_from_a_notebook_a_load_is_measured(cluster: Cluster, peers: Peers) -> None:
    """In a program whose loop of asyncio runs already."""

    async def cell() -> bytes:
        with trilane.cluster.load.Cluster(cluster.address, labels=["big"]) as connected:
            assert [place.name for place in connected.places()] == ["large"]
            url = peers["embedded"].url("h1")
            return connected.measure(["-n", "50", "-c", "2", "--warmup", "0s", url])

    report = json.loads(asyncio.run(cell()))
    check(report)
    assert report["requests"]["ok"] == 50
    assert [worker["name"] for worker in report["workers"]] == ["large"]


def test_what_cannot_be_measured_is_raised(cluster: Cluster) -> None:
    with (
        trilane.cluster.load.Cluster(cluster.address) as connected,
        pytest.raises(trilane.cluster.load.ClusterFailed, match="'none'") as failed,
    ):
        connected.measure(["-c", "none", "http://127.0.0.1:1/"])
    assert failed.value.code == 2
