"""A cluster of machines with links of their own between them, in namespaces of one kernel.

All machines have one clock, so the truth about offsets is known: they are 0. `make test` has the
cluster of `test_cluster.py`, on one machine.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from others import others
from peers.clusters import serving
from peers.process import Process, wait_until
from peers.star import HUB, Machine, Star, need, star
from repository import native

pytestmark = others

ADDRESS = f"tcp://{HUB}:8786"
PORT, TLS_PORT = 8080, 8443
# Seconds to the scheduler, and back.
UNEVEN = (0.012, 0.002)
# Round trips of 2 to 40 ms, one of them with ways that are not alike.
LINKS = {
    "near": "rtt=2ms",
    "uneven": f"up.delay={UNEVEN[0]}s,down.delay={UNEVEN[1]}s",
    "shaky": "rtt=20ms,jitter=4ms",
    "far": "rtt=40ms,jitter=1ms",
}
SERVER = {"server": "rtt=1ms"}
TRILANE = (sys.executable, "-m", "trilane")


@pytest.fixture(scope="module", autouse=True)
def _there_can_be_links() -> None:
    need()


@dataclass(frozen=True)
class Lab:
    """A cluster that runs, and a server."""

    machines: Star
    server: Process
    workers: dict[str, Process]

    @property
    def url(self) -> str:
        """Where the workers reach the server."""
        return f"http://{self.machines['server'].address}:{PORT}"

    def command(self, *words: str) -> list[str]:
        """What to start for `trilane` at the hub, where the scheduler is."""
        return self.machines.hub.place.command([*TRILANE, *words])

    def trilane(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `trilane` there, which has four minutes."""
        return subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=240, check=False
        )

    def load(self, *words: str) -> dict[str, Any]:
        """The result of a load of all machines."""
        done = self.trilane("load", "--cluster", ADDRESS, *words, "--format", "json")
        # What a busy machine makes of a run is not known.
        assert done.returncode in {0, 4}, done.stderr
        run: dict[str, Any] = json.loads(done.stdout)
        return run


def started(machine: Machine, words: Sequence[str], folder: Path, name: str, says: str) -> Process:
    """A program on a machine that has said this."""
    log = folder / f"{name}.log"
    return Process(
        machine.place.command(words),
        folder,
        ready=lambda: says in log.read_text(errors="replace"),
        name=name,
    )


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("links")
    with contextlib.ExitStack() as stack:
        machines = stack.enter_context(star({**LINKS, **SERVER}))
        serve = [native(), "serve", "--bind", machines["server"].address, "--port", str(PORT)]
        serve += ["--format", "json", "--tls-port", str(TLS_PORT), "--state", str(folder / "state")]
        server = started(machines["server"], serve, folder, "server", '"ready":true')
        stack.enter_context(server)
        schedule = [*TRILANE, "cluster", "start", "--workers", "0", "--host", HUB, "--insecure"]
        stack.enter_context(started(machines.hub, schedule, folder, "scheduler", HUB))

        def worker(name: str) -> Process:
            host, label = machines[name].address, "big" if name == "server" else "load"
            words = [*TRILANE, "cluster", "worker", ADDRESS, "--name", name, "--host", host]
            words += ["-t", "1", "--label", label]
            return stack.enter_context(started(machines[name], words, folder, name, "offers"))

        names = [*LINKS, "server"]
        with ThreadPoolExecutor() as pool:
            workers = dict(zip(names, pool.map(worker, names), strict=True))
        yield Lab(machines, server, workers)


def test_machines_behind_different_links_make_one_load_and_its_accounts_add_up(lab: Lab) -> None:
    count = 400
    run = lab.load(
        *("--worker-label", "load", "-c", "8", "-n", str(count), "--warmup", "0s"),
        f"{lab.url}/hello",
    )
    requests, workers = run["requests"], run["workers"]
    assert [requests[name] for name in ("started", "ok", "failed", "abandoned")] == [
        *(count, count, 0, 0)
    ]
    assert {worker["name"] for worker in workers} == set(LINKS)
    assert sum(worker["ok"] for worker in workers) == count
    assert all(worker["ok"] > 0 and worker["lost"] is None for worker in workers)
    assert sum(worker["threads"] for worker in workers) == run["plan"]["threads"] == len(LINKS)
    assert run["status"] == {"200": count}


def test_the_error_of_each_offset_is_a_bound(lab: Lab) -> None:
    run = lab.load("--worker-label", "load", "-c", "4", "-n", "40", "--warmup", "0s", lab.url)
    told = {worker["name"]: worker for worker in run["workers"]}
    for name, worker in told.items():
        assert abs(worker["clock_offset_s"]) <= worker["clock_error_s"], name
        assert worker["start_late_s"] >= 0, name
    # A bound cannot be less than half of the round trip, and is not made of the worst probe.
    for name, round_trip_s in {"near": 2e-3, "uneven": 14e-3, "far": 38e-3}.items():
        assert told[name]["clock_error_s"] >= round_trip_s / 2, name
    # Half of what the ways differ by is not seen, but for what the best probe took longer.
    uneven = told["uneven"]
    longer_s = uneven["clock_error_s"] - sum(UNEVEN) / 2
    assert abs(abs(uneven["clock_offset_s"]) - (UNEVEN[0] - UNEVEN[1]) / 2) <= longer_s + 1e-6


def test_each_machine_tells_the_latency_of_its_own_way(lab: Lab) -> None:
    run = lab.load(
        *("--worker-label", "load", "-c", "4", "-R", "80", "-d", "3s", "--warmup", "0s"),
        f"{lab.url}/hello",
    )
    requests, workers = run["requests"], run["workers"]
    assert requests["started"] == requests["ok"] + requests["failed"] + requests["abandoned"]
    assert sum(worker["ok"] for worker in workers) == requests["ok"]
    told = {worker["name"]: worker for worker in workers}
    for name, round_trip_s in {"near": 3e-3, "uneven": 15e-3, "far": 40e-3}.items():
        assert told[name]["p50"] >= round_trip_s, name
    assert told["near"]["p50"] < told["far"]["p50"]
    latency = run["latency"]["response"]
    assert latency["p50"] <= max(worker["p50"] for worker in workers)
    assert latency["max"] >= max(worker["p50"] for worker in workers)


def race(lab: Lab, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return lab.trilane(
        *("race", "--cluster", ADDRESS, "--worker-label", "load", "--h1", "--h2"),
        *("--blocks", "1", "-d", "300ms", "--warmup", "0s", "--in-flight", "8", "-c", "4"),
        *("--state", str(folder), "--report", str(folder / "report.html"), "--format", "json"),
        *words,
    )


def test_a_race_has_its_clients_on_the_machines_and_its_server_at_the_hub(
    lab: Lab, tmp_path: Path
) -> None:
    done = race(lab, tmp_path)
    assert done.returncode in {0, 4}, done.stderr
    made = json.loads(done.stdout)
    machines = sorted(lab.machines[name].address for name in LINKS)
    assert all(address in made["ledger"]["machine"]["cluster"] for address in machines)
    for run in runs_of(tmp_path):
        assert run["target"]["peer"].startswith(f"{HUB}:")
        assert {worker["name"] for worker in run["workers"]} == set(LINKS)
        assert run["requests"]["ok"] > 0
        # The nearest machine does not get its answers sooner than its link allows.
        assert min(worker["p50"] for worker in run["workers"]) >= 2e-3


EXPERIMENT = """\
schema = "trilane.experiment/1"
name = "spread"
title = "Servers on one machine, clients on others"
question = "Which is faster?"

[cluster]
clients = ["load"]
server = "big"

[forms.fair]
baseline = "h1"
rank = "requests_per_s"
measures = ["requests_per_s", "server_cpu_us_per_request"]
[forms.fair.workload]
count = 80
paths = ["/hello", "/bytes/100"]
[[forms.fair.arms]]
name = "h1"
client = "engine"
version = "h1"
strategy = "load"
connections = 4
[[forms.fair.arms]]
name = "h2"
client = "engine"
version = "h2"
strategy = "load"
connections = 4
"""


def test_an_experiment_has_its_server_on_the_machine_with_its_label(
    lab: Lab, tmp_path: Path
) -> None:
    (tmp_path / "spread.toml").write_text(EXPERIMENT)
    done = lab.trilane(
        *("lab", "run", str(tmp_path / "spread.toml"), "--cluster", ADDRESS, "--blocks", "1"),
        *("--state", str(tmp_path / "state"), "--format", "json"),
    )
    assert done.returncode in {0, 4}, done.stderr
    made = json.loads(done.stdout)
    there = lab.machines["server"].address
    assert made["machine"]["cluster"].endswith(f"servers on {there}")
    for run in runs_of(tmp_path / "state"):
        assert run["target"]["peer"].startswith(f"{there}:")
        assert {worker["name"] for worker in run["workers"]} == set(LINKS)
        assert run["requests"]["ok"] == 80
    samples = made["points"][0]["comparison"]["arms"][0]["samples"]
    assert all(sample["server"]["cpu_s"] > 0 for sample in samples)
    # The servers ended with the experiment.
    wait_until(lambda: not serving(lab.workers["server"].pid), "the server has ended")


def test_a_label_that_no_machine_has_is_told(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "spread.toml").write_text(EXPERIMENT.replace('"big"', '"bigger"'))
    done = lab.trilane(
        *("lab", "run", str(tmp_path / "spread.toml"), "--cluster", ADDRESS),
        *("--state", str(tmp_path / "state")),
    )
    assert done.returncode == 1
    assert "bigger" in done.stderr
    assert "Traceback" not in done.stderr


def runs_of(state: Path) -> list[dict[str, Any]]:
    """The runs that an experiment kept."""
    found = [json.loads(file.read_bytes()) for file in state.glob("runs/*/runs/*.json")]
    assert found
    return found
