"""Experiments on a cluster of Dask: which machines have the servers, and which make the load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import trilane.lab
from others import others
from peers.clusters import Cluster, serving
from peers.process import wait_until
from peers.running import absent
from trilane.cluster import experiments
from trilane.cluster.connecting import ClusterFailed
from trilane.cluster.experiments import Asked
from trilane.lab import Experiment, Form, Machines, Workload
from trilane.lab.processes import launch
from trilane.lab.targets.running import TargetFailed

WORKLOAD = Workload(kind="urls", paths=("/hello", "/bytes/100"), count=40)
MACHINES = Machines(clients=("load",), server="big")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        started.worker("one", "--label", "load")
        started.worker("two", "--label", "load", "--label", "both")
        started.worker("large", "--label", "big", "--label", "both")
        yield started


def experiment(*versions: str, server: str = "embedded") -> Experiment:
    arms = tuple(
        WORKLOAD.arm("engine", version, "load", name=version, connections=4, server=server)
        for version in versions
    )
    form = Form(
        name="fair",
        baseline=versions[0],
        rank="requests_per_s",
        measures=("requests_per_s", "server_cpu_us_per_request"),
        workload=WORKLOAD,
        arms=arms,
    )
    return Experiment("spread", "Spread", "Which?", {"fair": form}, cluster=MACHINES)


def served(cluster: Cluster, name: str) -> list[str]:
    """Command lines of servers below a worker."""
    return serving(cluster.workers[name].command.pid)


def test_the_server_is_on_the_machine_with_its_label_and_is_measured_there(
    cluster: Cluster, tmp_path: Path
) -> None:
    made = experiment("h1", "h2")
    with experiments.opened(Asked(cluster.address), made.cluster) as machines:
        result = trilane.lab.run(made, blocks=1, seed=1, state=tmp_path, cluster=machines)
        assert machines.servers_elsewhere
        assert [place.name for place in machines.places] == ["one", "two"]
    (point,) = result.points
    for arm in point.comparison.arms:
        assert arm.server == "embedded"
        for sample in arm.samples:
            assert sample.run is not None, sample.problem
            assert sample.run.requests.ok == 40
            told = sample.run.workers
            assert told is not None
            assert {worker.name: worker.ok for worker in told} == {"one": 20, "two": 20}
            assert sample.server is not None
            assert sample.server.cpu_s > 0
    assert "servers on 127.0.0.1" in result.machine["cluster"]
    wait_until(lambda: not served(cluster, "large"), "the server has ended")


@pytest.mark.parametrize("server", ["nginx", pytest.param("go", marks=others)])
def test_a_server_of_others_is_reached_there_too(
    cluster: Cluster, tmp_path: Path, server: str
) -> None:
    if launch.find_program(server) is None:
        absent(f"{server} is not installed")
    # By another address than its own it would not be reached, if it listened on that alone.
    made = experiment("h2", server=server)
    with experiments.opened(Asked(cluster.address), made.cluster) as machines:
        there = replace(machines, host="127.0.0.2")
        result = trilane.lab.run(made, blocks=1, seed=1, state=tmp_path, cluster=there)
    (point,) = result.points
    for arm in point.comparison.arms:
        assert arm.server == server
        for sample in arm.samples:
            assert sample.run is not None, sample.problem
            assert sample.run.requests.ok == 40
            assert sample.server is not None
            assert sample.server.cpu_s > 0


def test_a_server_ends_with_the_one_who_asked_for_it(cluster: Cluster) -> None:
    with experiments.opened(Asked(cluster.address), MACHINES) as machines:
        opened = machines.opened("embedded", versions=["h1"], threads=1, flags=[])
        with opened as target:
            assert len(served(cluster, "large")) == 1
            assert (
                Path(str(target.cacert)).read_text() == Path(str(target.trusted_there)).read_text()
            )
        wait_until(lambda: not served(cluster, "large"), "the server has ended")
        # One that nobody closes ends with the connection to the cluster.
        left = machines.opened("embedded", versions=["h1"], threads=1, flags=[])
        left.__enter__()
        assert len(served(cluster, "large")) == 1
    wait_until(lambda: not served(cluster, "large"), "the server has ended")


def test_a_server_that_cannot_be_is_told_as_on_one_machine(cluster: Cluster) -> None:
    with experiments.opened(Asked(cluster.address), MACHINES) as machines:
        opened = machines.opened("embedded", versions=["h9"], threads=1, flags=[])
        with pytest.raises(TargetFailed, match="embedded does not speak h9, only h1"):
            opened.__enter__()


@pytest.mark.parametrize(
    ("machines", "told"),
    [
        (replace(MACHINES, server="huge"), "huge"),
        (replace(MACHINES, clients=("none",)), "none"),
        (replace(MACHINES, workers=3), "3"),
        (replace(MACHINES, server="both"), "2 workers have the label 'both': "),
        (Machines(clients=("both",), server="load"), "2 workers have the label 'load'"),
        (Machines(clients=(), server="big"), "large has the label 'big' of the servers and makes"),
    ],
)
def test_machines_that_are_not_there_are_told(
    cluster: Cluster, machines: Machines, told: str
) -> None:
    with (
        pytest.raises(ClusterFailed) as caught,
        experiments.opened(Asked(cluster.address), machines),
    ):
        pass
    assert told in str(caught.value)


def test_where_servers_are_reached_is_found_or_said(cluster: Cluster) -> None:
    clients = Machines(clients=("load",))
    with experiments.opened(Asked(cluster.address), clients) as machines:
        assert (machines.host, machines.servers_elsewhere) == ("127.0.0.1", False)
    said = Asked(cluster.address, advertise="lab.example")
    with experiments.opened(said, clients) as machines:
        assert machines.host == "lab.example"
