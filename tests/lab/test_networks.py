"""Experiments, servers and calls of the lab on emulated networks."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from others import others
from peers import networks
from peers.process import MissingProgramError, find, is_alive, wait_until
from peers.running import absent
from trilane.lab import study
from trilane.lab.asked import CannotRun, Wanted
from trilane.lab.clients import engine_run, reference
from trilane.lab.clients.engine_run import EnginePlan
from trilane.lab.clients.executor import Setting
from trilane.lab.clients.reference import NoReference
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.experiment.form import Form, Sweep
from trilane.lab.experiment.workload import ArmSpec, Workload
from trilane.lab.model.sample import Sample
from trilane.lab.network import emulated
from trilane.lab.network.emulated import Emulated, NetworkFailed
from trilane.lab.processes import proc, supervisor
from trilane.lab.processes.place import Place
from trilane.lab.storage import runs
from trilane.lab.targets import running

WORKLOAD = Workload(kind="urls", paths=("/hello", "/bytes/100"), count=8)
RTT_S = 0.02


@pytest.fixture(scope="module", autouse=True)
def _there_are_networks() -> None:
    networks.need()


# A network measures itself before it is used, which takes seconds: tests that share this one, and
# ask for the same of it, share that as well.
SHARED = "rtt=10ms"


@pytest.fixture(scope="module")
def network() -> Iterator[Emulated]:
    with emulated.opened() as opened:
        yield opened


def experiment(*arms: ArmSpec, sweep: Sweep | None = None) -> Experiment:
    form = Form(
        name="fair",
        baseline=arms[0].name,
        rank="elapsed_s",
        measures=("elapsed_s", "wire_bytes_per_request"),
        workload=WORKLOAD,
        arms=arms,
        sweep=sweep,
    )
    return Experiment(name="trial", title="A trial", question="?", forms={"fair": form})


def made_of(made: Experiment, state: Path, blocks: int = 1) -> study.Result:
    wanted = Wanted(experiment=made, form="fair", blocks=blocks, seed=5, state=state)
    return study.run(wanted, study.Watcher.quiet())


def test_arms_are_made_on_the_network_that_they_name(
    tmp_path: Path, lab_schema: Draft202012Validator
) -> None:
    lossy = f"rtt={1e3 * RTT_S:g}ms,loss=20%"
    done = made_of(
        experiment(
            WORKLOAD.arm("http-client", "h1", name="near"),
            WORKLOAD.arm("http-client", "h1", name="far", network=lossy),
            WORKLOAD.arm("engine", "h3", name="quic", network=lossy),
        ),
        tmp_path,
        blocks=2,
    )
    comparison = done.result.points[0].comparison
    assert [arm.network for arm in comparison.arms] == ["direct", lossy, lossy]
    lab_schema.validate(json.loads((done.folder / "result.json").read_text()))
    assert runs.load(done.folder).judged == done.result
    samples = [sample for arm in comparison.arms for sample in arm.samples if sample.run]
    assert {sample.arm for sample in samples} == {"near", "far", "quic"}
    for sample in samples:
        assert sample.run is not None
        assert sample.run.requests.ok == WORKLOAD.count
        if sample.arm == "near":
            assert sample.network is None
            continue
        _is_of_a_lossy_network(sample)
    # Of one block all arms meet the same network, and blocks differ.
    drawn = {(sample.block, sample.network.network) for sample in samples if sample.network}
    assert len({block for block, _ in drawn}) == len({text for _, text in drawn}) == len(drawn) == 2


def _is_of_a_lossy_network(sample: Sample) -> None:
    on, run = sample.network, sample.run
    assert on is not None
    assert run is not None
    # One after the other, and a round trip each.
    assert (run.elapsed_s or 0) >= 8 * RTT_S
    assert on.congestion_control == "cubic"
    assert on.down.received.packets >= 8
    # The last ones may be under way.
    assert 0 <= on.up.received.packets - on.up.forwarded.packets - on.up.lost.packets <= 10
    assert {each.property for each in on.check.properties} >= {"delay", "loss"}
    assert run.wire is not None
    # What it sent, lost or not, and what reached it: the network counts the same packets.
    assert run.wire.interface == "road"
    assert run.wire.bytes <= on.up.received.bytes + on.down.forwarded.bytes


def test_the_round_trip_time_can_be_swept(tmp_path: Path) -> None:
    arm = WORKLOAD.arm("engine", "h1", name="one", network="rate=50mbit")
    sweep = Sweep("rtt", (0.001, 0.03), "s")
    done = made_of(experiment(arm, sweep=sweep), tmp_path)
    near, far = (point.comparison.arms[0] for point in done.result.points)
    assert [near.network, far.network] == ["rate=50mbit,rtt=1ms", "rate=50mbit,rtt=30ms"]
    assert (far.summary["elapsed_s"].median or 0) >= 8 * 0.03


def test_round_trips_before_an_answer_are_measured(tmp_path: Path) -> None:
    """New connections over TCP and TLS, over QUIC, and with early data."""

    def arm(name: str, version: str, *flags: str, server: tuple[str, ...] = ()) -> ArmSpec:
        return WORKLOAD.arm(
            "engine",
            version,
            "load",
            name=name,
            network="rtt=50ms",
            flags=("--new-connections", *flags),
            server_flags=server,
        )

    early = ("--early-data",)
    made = experiment(
        arm("h2", "h2", "--resume", "off"),
        arm("h3", "h3", "--resume", "off"),
        arm("h3-retry", "h3", "--resume", "off", server=("--retry",)),
        arm("h3-early", "h3", *early, server=early),
    )
    form = replace(made.forms["fair"], measures=("elapsed_s", "round_trips"))
    done = made_of(replace(made, forms={"fair": form}), tmp_path)
    arms = {arm.name: arm for arm in done.result.points[0].comparison.arms}
    at_least = {"h2": 3, "h3": 2, "h3-retry": 3, "h3-early": 1}
    for name, trips in at_least.items():
        seen = arms[name].summary["round_trips"].median
        assert seen is not None
        assert seen > 0.98 * trips
    assert arms["h3-early"].server_flags == list(early)
    for sample in arms["h3-early"].samples:
        assert sample.run is not None
        assert sample.run.phases is not None
        handshakes = sample.run.phases.handshakes
        assert handshakes is not None
        assert handshakes.early_data == handshakes.resumed == sample.run.requests.ok - 1


def test_the_congestion_control_of_an_arm_is_that_of_both_ends(tmp_path: Path) -> None:
    def arm(name: str, version: str, control: str) -> ArmSpec:
        return WORKLOAD.arm(
            "engine",
            version,
            "load",
            name=name,
            network="rtt=5ms",
            congestion_control=control,
        )

    done = made_of(
        experiment(
            arm("h2", "h2", "cubic"), arm("h2-reno", "h2", "reno"), arm("h3-reno", "h3", "reno")
        ),
        tmp_path,
    )
    arms = done.result.points[0].comparison.arms
    for told, control in zip(arms, ("cubic", "reno", "reno"), strict=True):
        assert told.congestion_control == control
        for sample in told.samples:
            assert sample.network is not None
            assert sample.network.congestion_control == control
            assert sample.run is not None
            assert sample.run.target.congestion_control == control
    quic = "the embedded server with --quic-congestion reno on an emulated network with reno"
    assert done.result.points[0].comparison.ledger.server[quic]["flags"] == [
        "--quic-congestion",
        "reno",
    ]


@pytest.mark.parametrize("name", ["caddy", pytest.param("nginx", marks=others)])
def test_servers_of_others_are_reached_as_on_one_machine(
    name: str, network: Emulated, tmp_path: Path
) -> None:
    """By the URL and the certificate that they have there, over every version that they speak."""
    try:
        find(name, "the tests' own peers need it as well")
    except MissingProgramError as error:
        absent(error)
    with running.open_target(
        name, state=tmp_path, folder=tmp_path, cpus=None, threads=1, place=network.server
    ) as target:
        asked = [version for version in target.origins if version != "h2c"]
        for version in asked:
            network.begin(SHARED, 0)
            setting = Setting(
                target.origins[version],
                target.cacert,
                place=network.client,
                interface=network.interface,
            )
            plan = EnginePlan(WORKLOAD.arm("engine", version), WORKLOAD, ["/hello"], setting)
            run = engine_run.run(plan, log=tmp_path / "log", limit_s=60)
            assert run.requests.ok == WORKLOAD.count
            assert run.target.version == version
            assert run.latency.service is not None
            assert (run.latency.service.min or 0) >= 0.01
            assert network.end().down.forwarded.packets >= WORKLOAD.count
        assert {"h1", "h2"} <= set(asked)
        pids = target.pids
    assert not [pid for pid in pids if is_alive(pid)]


def test_programs_at_the_ends_see_each_other_and_nothing_else(network: Emulated) -> None:
    with socket.create_server(("127.0.0.1", 0)) as here:
        origin = f"http://127.0.0.1:{here.getsockname()[1]}"
        with pytest.raises(NoReference, match="Connection refused"):
            network.server.call(reference.read, WORKLOAD, origin, None, {})


def test_what_a_call_raises_is_raised_where_it_was_called(network: Emulated) -> None:
    assert network.server.call(int, "17") == 17
    with pytest.raises(ValueError, match="invalid literal"):
        network.server.call(int, "x")
    with pytest.raises(TypeError, match="pickle"):
        network.server.call(socket.socket)
    # What it prints is no answer.
    network.server.call(print, "17")
    assert network.server.call(int, "18") == 18


def test_a_program_keeps_its_process_id_on_its_way_to_the_network(network: Emulated) -> None:
    command = network.client.command([sys.executable, "-c", "import os; print(os.getpid())"])
    with supervisor.started(command) as child:
        assert child.wait(60)
        assert child.reap().code == 0
        assert int(child.output()) == child.pid


def test_a_namespace_that_is_gone_is_named() -> None:
    done = supervisor.finished(Place(network="/proc/0/ns/net").command(["true"]), limit_s=60)
    assert done.code == 127
    assert done.why() == "/proc/0/ns/net: No such file or directory"


def test_what_is_no_network_is_told(network: Emulated) -> None:
    with pytest.raises(NetworkFailed, match=r"the emulated network failed: rtt=x: .* not a time"):
        network.begin("rtt=x", 0)
    network.begin(SHARED, 0)


def test_a_network_that_died_is_told() -> None:
    with emulated.opened() as network:
        os.kill(network.pid, signal.SIGKILL)
        with pytest.raises(NetworkFailed, match="the emulated network ended"):
            network.begin(SHARED, 0)


def test_a_server_that_is_not_ours_cannot_be_put_on_a_network(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        url = f"http://127.0.0.1:{there.getsockname()[1]}"
        far = WORKLOAD.arm("engine", "h1", name="far", network="rtt=5ms", server=url)
        with pytest.raises(CannotRun, match="cannot be reached over an emulated network: describe"):
            made_of(experiment(far), tmp_path)


def test_nothing_is_left_when_a_lab_with_a_network_is_killed(tmp_path: Path) -> None:
    race = ("race", "--network", "rtt=1ms", "-d", "1h", "--blocks", "1", "--h1", "--state")
    lab = subprocess.Popen(
        [sys.executable, "-m", "trilane", *race, str(tmp_path / "state")],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: len(_natives(lab.pid)) >= 3, "network, server and client run")
        pids = proc.descendants(lab.pid)
    finally:
        lab.kill()
        lab.wait()
    wait_until(lambda: not [pid for pid in pids if is_alive(pid)], "all of them have ended")


def _natives(lab: int) -> list[int]:
    """Those descendants that are the network, the embedded server, or the engine in its run."""
    found = []
    for pid in proc.descendants(lab):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"open" in words or b"--exit-with-parent" in words or b"3600s" in words:
            found.append(pid)
    return found
