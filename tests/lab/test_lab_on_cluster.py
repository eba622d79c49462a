"""Experiments whose load is made by other machines, which here are an engine on another address."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from trilane.cli.app import run as command
from trilane.lab import race, study
from trilane.lab.asked import CannotRun, Wanted
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.model.lab import LabResult

# All of 127.0.0.0/8 is this machine, and what listens on 127.0.0.1 alone does not answer here.
ELSEWHERE = "127.0.0.2"


@dataclass
class Machinery:
    """A cluster of one machine, which knows our servers by another address than we do."""

    host: str = ELSEWHERE
    servers_elsewhere: bool = False
    asked: list[Sequence[str]] = field(default_factory=list)

    def described(self) -> str:
        return f"clients on here (2 CPUs); servers on {self.host}"

    def opened(self, name: str, **_: Any) -> Any:
        raise AssertionError(name)

    def measure(self, arguments: Sequence[str]) -> bytes:
        self.asked.append(arguments)
        done = subprocess.run(
            [sys.executable, "-m", "trilane", "load", *arguments, "--format", "json"],
            capture_output=True,
            timeout=120,
            check=False,
        )
        if done.returncode not in {0, 4}:
            raise RunFailed(done.stderr.decode())
        return done.stdout


def raced(state: Path, machines: Machinery, **flags: Any) -> Wanted:
    options: dict[str, Any] = {"duration_s": 0.2, "warmup_s": 0.0, "in_flight": [4]}
    made = race.experiment(race.Flags(**options | flags))
    return Wanted(made, race.FORM, blocks=2, seed=1, state=state, cluster=machines)


def judged(result: LabResult) -> Any:
    (point,) = result.points
    return point.comparison


def test_a_race_is_run_by_the_machines_of_a_cluster(tmp_path: Path) -> None:
    machines = Machinery()
    made = study.run(raced(tmp_path, machines, threads=None), study.Watcher.quiet())
    found = judged(made.result)
    assert [arm.name for arm in found.arms] == ["h1", "h2", "h3"]
    for arm in found.arms:
        for sample in arm.samples:
            assert sample.run is not None, sample.problem
            assert sample.run.requests.ok > 0
            assert str(sample.run.target.peer).startswith(f"{ELSEWHERE}:")
            # Of the machines of the load nothing is seen from outside, of the server's all is.
            assert (sample.run.process, sample.run.wire) == (None, None)
            assert sample.server is not None
            assert sample.server.cpu_s > 0
    assert made.result.machine["cluster"] == machines.described()
    assert made.result.machine["pinning"].startswith("none")
    assert found.url.startswith("https://127.0.0.1:")
    assert all("-t" not in words for words in machines.asked)


def test_a_server_that_the_machines_do_not_reach_is_why_nothing_runs(tmp_path: Path) -> None:
    # RFC 5737: documentation alone has these addresses.
    wanted = raced(tmp_path, Machinery(host="192.0.2.1"), load=["--connect-timeout", "100ms"])
    with pytest.raises(CannotRun, match=r"192\.0\.2\.1"):
        study.run(wanted, study.Watcher.quiet())
    assert not list((tmp_path / "runs").glob("*"))


def test_a_run_of_a_cluster_is_made_again_on_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = study.run(raced(tmp_path, Machinery(), versions=["h1", "h2"]), study.Watcher.quiet())
    assert command(["lab", "replay", made.folder.name, "--state", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "was made on a cluster (clients on here (2 CPUs); servers on 127.0.0.2)" in told
    assert "--cluster tls://HOST:8786" in told


def test_an_interrupted_run_goes_on_on_the_same_machines_alone(tmp_path: Path) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    wanted = raced(tmp_path, Machinery(), versions=["h1", "h2"])
    first = study.run(wanted, replace(study.Watcher.quiet(), step=stop))
    assert first.result.interrupted
    other = study.run(replace(wanted, cluster=Machinery(host="localhost")), study.Watcher.quiet())
    assert other.folder != first.folder


def test_a_contender_is_refused_before_anything_runs(tmp_path: Path) -> None:
    wanted = raced(tmp_path, Machinery())
    form = wanted.experiment.forms[race.FORM]
    arms = (form.workload.arm("http-client", "h1", name="h1"), *form.arms[1:])
    other = replace(form, arms=arms)
    made = replace(wanted.experiment, race=False, forms={race.FORM: other})
    with pytest.raises(CannotRun, match="--cluster: h1 is of http-client, a client that runs on"):
        study.run(replace(wanted, experiment=made), study.Watcher.quiet())
    assert not list((tmp_path / "runs").glob("*"))
