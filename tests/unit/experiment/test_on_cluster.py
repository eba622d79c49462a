"""Experiments on a cluster: what their file says, what the engine is told, what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from trilane.cli.app import run as command
from trilane.lab import study
from trilane.lab.asked import CannotRun, Wanted, fingerprint
from trilane.lab.clients import cluster, engine_run
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.clients.engine_run import EnginePlan
from trilane.lab.clients.executor import Setting
from trilane.lab.experiment import experiment_file
from trilane.lab.experiment.bad_experiment import BadExperiment
from trilane.lab.experiment.experiment import Experiment, Machines

TEXT = """\
schema = "trilane.experiment/1"
name = "spread"
title = "On several machines"
question = "Which is sooner?"

[cluster]
clients = ["load", "fast"]
server = "big"
workers = 4

[forms.fair]
baseline = "one"
rank = "requests_per_s"
measures = ["requests_per_s", "wire_bytes_per_request"]
[forms.fair.workload]
duration = "1s"
[[forms.fair.arms]]
name = "one"
client = "engine"
version = "h1"
strategy = "load"
connections = 8
[[forms.fair.arms]]
name = "two"
client = "engine"
version = "h2"
strategy = "load"
connections = 2
threads = 2
"""


def read(text: str) -> Experiment:
    return experiment_file.parse(text.encode(), Path("experiments/spread.toml"))


@dataclass
class Machinery:
    """A cluster that answers with what it is given, and remembers what it was asked."""

    answer: bytes = b""
    host: str = "lab.example"
    servers_elsewhere: bool = False
    asked: list[Sequence[str]] = field(default_factory=list)

    def described(self) -> str:
        return "clients on a (2 CPUs), b (2 CPUs); servers on this machine"

    def opened(self, name: str, **_: Any) -> Any:
        raise AssertionError(name)

    def measure(self, arguments: Sequence[str]) -> bytes:
        self.asked.append(arguments)
        return self.answer


def test_a_file_says_by_labels_which_machines_do_what() -> None:
    asked = read(TEXT)
    assert asked.cluster == Machines(clients=("load", "fast"), server="big", workers=4)
    assert Experiment.from_dict(asked.to_dict()) == replace(asked, path=None)
    assert read(TEXT.replace('clients = ["load", "fast"]\nserver = "big"\n', "")).cluster == (
        Machines(workers=4)
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("workers = 4", "workers = 0", "cluster.workers: "),
        ('clients = ["load", "fast"]\n', "", "cluster.clients: is missing: beside server say"),
        ('"load", "fast"', '"load", "load"', "cluster.clients"),
        ('"load", "fast"', '"load", "big"', "'big' is the label of the machine that has the serv"),
        ('server = "big"', 'server = "The big one"', "cluster.server"),
        ('server = "big"', 'servers = "big"', "cluster.servers"),
    ],
)
def test_machines_that_cannot_be_are_refused_with_their_key(old: str, new: str, told: str) -> None:
    assert old in TEXT
    with pytest.raises(BadExperiment) as caught:
        read(TEXT.replace(old, new, 1))
    assert told in str(caught.value)


def test_the_engine_is_told_where_the_server_is_and_has_all_processors() -> None:
    form = read(TEXT).forms["fair"]
    setting = Setting("https://127.0.0.1:8443", cluster=Machinery(), connect_to="lab.example:8443")
    plan = EnginePlan(form.arms[0], form.workload, ["/hello"], setting)
    words = plan.arguments(None)
    assert words[0] == "https://127.0.0.1:8443/hello"
    assert words[words.index("--connect-to") :][:2] == ["--connect-to", "lab.example:8443"]
    assert not {"-t", "--format", "-o", "--cpu", "--server-pid"} & set(words)
    # What the arm says is of all machines together.
    words = replace(plan, arm=form.arms[1]).arguments(None)
    assert words[words.index("-t") :][:2] == ["-t", "2"]
    alone = EnginePlan(form.arms[0], form.workload, ["/hello"], Setting("https://x"))
    assert alone.arguments(None).count("-t") == 1
    assert "--connect-to" not in alone.arguments(None)


def test_a_server_by_its_ipv6_address_is_told_in_brackets() -> None:
    assert cluster.connect_to("2001:db8::1", "https://127.0.0.1:443") == "[2001:db8::1]:443"
    assert cluster.connect_to("10.0.0.9", "http://127.0.0.1:80") == "10.0.0.9:80"


def test_what_machines_answer_that_is_no_result_is_a_failed_run(tmp_path: Path) -> None:
    form = read(TEXT).forms["fair"]
    machines = Machinery(answer=b"{}")
    plan = EnginePlan(
        form.arms[0], form.workload, ["/hello"], Setting("https://x", cluster=machines)
    )
    with pytest.raises(RunFailed, match="no readable result"):
        engine_run.run(plan, log=tmp_path / "log", limit_s=1)
    assert len(machines.asked) == 1


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('client = "engine"', 'client = "http-client"', "a client that runs on one machine"),
        ("connections = 8", 'connections = 8\nserver = "known"', "write {bind} there"),
        ('rank = "requests_per_s"', 'rank = "requests_per_s"\nturn = "20ms"', "of one machine"),
        ("connections = 8", 'connections = 8\nnetwork = "rtt=5ms"', "an emulated network lies on"),
        ('rank = "requests_per_s"', 'rank = "wire_bytes_per_request"', "decides nothing"),
    ],
)
def test_what_one_machine_does_alone_is_refused(old: str, new: str, told: str) -> None:
    assert old in TEXT
    text = TEXT.replace(old, new, 1)
    if 'client = "http-client"' in text:
        text = text.replace('strategy = "load"\nconnections = 8', "", 1)
    try:
        refused = cluster.refusal(read(text).forms["fair"])
    except BadExperiment as error:
        refused = str(error)
    assert refused is not None
    assert told in refused


def test_a_form_of_the_engines_arms_is_not_refused() -> None:
    form = read(TEXT).forms["fair"]
    assert cluster.refusal(form) is None
    assert cluster.refusal(form, servers_elsewhere=True) is None


def test_a_plan_on_other_machines_is_another_plan() -> None:
    asked = read(TEXT)
    form = asked.forms["fair"]
    assert fingerprint(asked, form) != fingerprint(asked, form, Machinery())


def test_without_a_cluster_an_experiment_for_one_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match="say which cluster: --cluster tls://HOST:8786"):
        study.run(Wanted(read(TEXT), "fair", state=tmp_path), study.Watcher.quiet())


def test_flags_of_a_cluster_need_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--workers", "3"], ["--advertise", "here"], ["--worker-label", "a"]):
        assert command(["race", *words]) == 2
        assert f"{words[0]} goes with --cluster ADDRESS" in capsys.readouterr().err
