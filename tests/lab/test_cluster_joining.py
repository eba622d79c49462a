"""Who may take part in a load: the same Trilane everywhere, by TLS, once."""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import distributed
import psutil  # type: ignore[import-untyped]
import pytest

from peers.authority import Authority
from peers.clusters import TRILANE, Cluster
from peers.counted import Counted
from peers.process import wait_until
from trilane import _core
from trilane.cluster import agent, connecting, files, load, relay
from trilane.cluster.agent import Order, Preparation, Ready, Refused
from trilane.cluster.connecting import ClusterFailed, Tls
from trilane.cluster.deal import Share
from trilane.lab.processes import supervisor

LIMIT_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One worker, which no test harms."""
    with Cluster() as started:
        started.worker("one")
        yield started


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[distributed.Client]:
    with distributed.Client(cluster.address, set_as_default=False) as connected:
        yield connected


@pytest.fixture
def counted() -> Iterator[Counted]:
    with Counted() as server:
        yield server


def changed(folder: Path, code: str) -> dict[str, str]:
    """The environment of processes of Python that run `code` before anything else."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    return {"PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"}


def test_workers_of_dasks_own_command_take_part_where_they_have_trilane(
    counted: Counted, tmp_path: Path
) -> None:
    without = changed(tmp_path / "without", "import sys\nsys.modules['trilane'] = None\n")
    with Cluster() as cluster:
        cluster.dask_worker("has", {}, cores=2)
        cluster.dask_worker("lacks", without)
        with distributed.Client(cluster.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=LIMIT_S)
        arguments = ["-n", "20", "-c", "1", "--warmup", "0s", counted.url]
        with load.Cluster(cluster.address) as both:
            with pytest.raises(ClusterFailed) as refused:
                both.measure(arguments)
            assert counted.connections == 0
        with load.Cluster(cluster.address, workers=1) as one:
            report = json.loads(one.measure(arguments))
    assert "worker lacks has no Trilane that can take part" in str(refused.value)
    assert "pip install 'trilane[cluster]'" in str(refused.value)
    assert report["requests"]["ok"] == 20
    assert [worker["name"] for worker in report["workers"]] == ["has"]


def test_others_reach_only_the_port_of_a_worker_that_asks_for_certificates(
    cluster: Cluster, client: distributed.Client
) -> None:
    (address,) = client.scheduler_info()["workers"]
    started = psutil.Process(cluster.workers["one"].pid)
    listening = {
        each.laddr
        for process in (started, *started.children(recursive=True))
        for each in process.net_connections()
        if each.status == psutil.CONN_LISTEN
    }
    here = {"127.0.0.1", "::1"}
    assert {str(port) for host, port in listening if host not in here} <= {address.split(":")[-1]}
    assert {host for host, _ in listening} & here


def test_a_second_worker_of_the_same_name_is_told(cluster: Cluster) -> None:
    argv = [*TRILANE, "cluster", "worker", cluster.address, "--name", "one", "-t", "1"]
    done = supervisor.finished(argv, limit_s=LIMIT_S * 2)
    assert done.code == 1
    assert "one cannot join" in done.said
    assert "Traceback" not in done.said


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        argv = [*TRILANE, "cluster", "start", "--workers", "0", "--port", port]
        done = supervisor.finished(argv, limit_s=LIMIT_S * 2)
    assert done.code == 1
    assert done.errors.decode() == (
        f"trilane cluster start: error: no scheduler at 127.0.0.1:{port}: "
        "[Errno 98] Address already in use\n"
    )


def test_a_cluster_is_started_with_workers_and_says_what_to_type(
    counted: Counted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    argv = [*TRILANE, "cluster", "start", "--workers", "1", "-t", "1", "--port", "0"]
    with supervisor.started(argv, pipes=True) as child:
        address = child.read_line("its address", LIMIT_S).decode().split()[2].rstrip(",")
        assert address.startswith("tls://")
        assert (tmp_path / "trilane" / "cluster-key.pem").stat().st_mode & 0o777 == 0o600
        # Other users of this machine reach it, and have another certificate or none.
        theirs = tmp_path / "theirs"
        _core.make_cluster_identity(theirs)
        certificate = theirs / "cluster.pem"
        strangers = Tls(certificate, certificate, theirs / "cluster-key.pem").security()
        for known, security in ((address.replace("tls", "tcp"), None), (address, strangers)):
            with pytest.raises(ClusterFailed, match="is no scheduler of Dask, or"):
                connecting.knock(known, security)
        typed = child.read_line("what to type", LIMIT_S).decode()
        assert typed.endswith(f"trilane load --cluster {address} URL")
        with load.Cluster(address) as connected:
            told = connected.measure(["-n", "20", "-c", "1", "--warmup", "0s", counted.url])
    assert json.loads(told)["requests"]["ok"] == 20


class Prepared:
    """A run of one worker, prepared as the coordinator does; the test carries it out."""

    def __init__(self, client: distributed.Client, url: str) -> None:
        self.client = client
        ((self.address, told),) = client.scheduler_info()["workers"].items()
        self.name = told["name"]
        self.run = uuid.uuid4().hex
        key = bytes(32)
        reference = client.run_on_scheduler(relay.begin, self.run, client.id, key, 0, [b"one"])
        self.preparation = Preparation(
            self.run, {self.address: 0}, reference, key, {"a file": b"content"}, LIMIT_S
        )
        ready = client.run(agent.prepare, self.preparation)[self.address]
        assert isinstance(ready, Ready)
        arguments = ["-n", "20", "-c", "1", "--warmup", "0s", url]
        start = time.time_ns() - ready.offset.offset + 5 * 10**9
        self.order = Order(self.run, 0, b"one", arguments, {}, Share(0, 1), 1, start)

    def carry_out(self, order: Order) -> tuple[bytes, bytes]:
        """As Dask does it: the same function with the same order."""
        done: tuple[bytes, bytes] = self.client.submit(
            agent.carry_out, order, workers=[self.address], pure=False, retries=0
        ).result(timeout=LIMIT_S)
        return done


@pytest.fixture
def prepared(client: distributed.Client, counted: Counted) -> Prepared:
    return Prepared(client, counted.url)


def test_a_repeated_task_is_refused(prepared: Prepared, counted: Counted) -> None:
    kind, _ = prepared.carry_out(prepared.order)
    assert kind == b"R"
    assert counted.requests == 20
    kind, content = prepared.carry_out(prepared.order)
    assert kind == b"E"
    assert b"was given the same share of the load again" in content
    assert counted.requests == 20


def test_a_repeated_task_is_refused_by_a_process_that_was_started_again(
    prepared: Prepared, counted: Counted
) -> None:
    """What a process remembers is lost with it; the machine remembers, too."""
    assert prepared.carry_out(prepared.order)[0] == b"R"
    prepared.client.run(agent._CLAIMED.clear)
    with pytest.raises(Refused, match="does not repeat it"):
        agent.claim(prepared.run, prepared.name)
    kind, content = prepared.carry_out(prepared.order)
    assert kind == b"E"
    assert b"again" in content
    assert counted.requests == 20


def test_a_start_in_the_past_is_refused(prepared: Prepared, counted: Counted) -> None:
    kind, content = prepared.carry_out(replace(prepared.order, start=time.time_ns() - 10**9))
    assert kind == b"E"
    assert b"does not begin late" in content
    assert counted.connections == 0


def test_an_order_that_was_not_prepared_is_refused(prepared: Prepared, counted: Counted) -> None:
    kind, content = prepared.carry_out(replace(prepared.order, run=uuid.uuid4().hex))
    assert kind == b"E"
    assert b"was started again since it prepared" in content
    assert counted.connections == 0


def test_what_was_prepared_is_removed_when_the_coordinator_is_gone(
    cluster: Cluster, counted: Counted
) -> None:
    before = set(files.own_folder().iterdir())
    with distributed.Client(cluster.address, set_as_default=False) as client:
        Prepared(client, counted.url)
        kept = set(files.own_folder().iterdir()) - before - {files.own_folder() / "claims"}
        assert len(kept) == 1
        assert [path.read_bytes() for path in next(iter(kept)).rglob("a file")] == [b"content"]
    # The client has left: its run's clock ends, and with it what waits for the run's start.
    wait_until(lambda: not any(path.exists() for path in kept), "prepared files are removed")


def test_a_worker_that_no_datagram_gets_through_to_is_refused(
    prepared: Prepared, counted: Counted
) -> None:
    nobody = replace(prepared.preparation.reference, port=1, hosts=())
    preparation = replace(prepared.preparation, run=uuid.uuid4().hex, reference=nobody, limit_s=1.0)
    answer = prepared.client.run(agent.prepare, preparation, on_error="return")[prepared.address]
    assert isinstance(answer, Refused)
    assert "got no answer within 0.5 s from the scheduler's clock" in str(answer)


def certificates(authority: Authority) -> list[str]:
    member = authority.member()
    return [
        *("--cluster-tls-ca", str(member.ca)),
        *("--cluster-tls-cert", str(member.cert), "--cluster-tls-key", str(member.key)),
    ]


def test_a_cluster_with_tls(
    authority: Authority, counted: Counted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # There are no files of one's own there.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    own, strangers = authority.member(), Authority(tmp_path / "strangers").member()
    flags = [
        *("--cluster-tls-ca", str(own.ca)),
        *("--cluster-tls-cert", str(own.cert), "--cluster-tls-key", str(own.key)),
    ]
    with Cluster(flags) as cluster:
        assert cluster.address.startswith("tls://")
        cluster.worker("one")
        ended = cluster.load("-n", "20", "-c", "1", "--warmup", "0s", counted.url).wait()
        assert ended.code in {0, 4}, ended
        assert ended.report["requests"]["ok"] == 20
        others = Tls(strangers.ca, strangers.cert, strangers.key)
        for address, tls, message in (
            (cluster.address, None, "needs --cluster-tls-ca, --cluster-tls-cert and"),
            (cluster.address.replace("tls", "tcp"), None, "or one that speaks tls"),
            (cluster.address, others, "or none that speaks tls and takes this certificate"),
        ):
            with pytest.raises(ClusterFailed, match=message), load.Cluster(address, tls=tls):
                pass
