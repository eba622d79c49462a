"""Experiments run for real: embedded server, engine, and a contender of the standard library."""

from __future__ import annotations

import contextlib
import errno
import http.server
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from peers.process import wait_until
from peers.running import absent
from trilane.lab import asked, study
from trilane.lab.asked import CannotRun, Wanted
from trilane.lab.clients import syscalls
from trilane.lab.experiment.bad_experiment import BadExperiment
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.experiment.form import Expect, Form, Published, Stats, Sweep
from trilane.lab.experiment.workload import Workload
from trilane.lab.machine import perf
from trilane.lab.model.profile import Profiles
from trilane.lab.storage import runs, store
from trilane.report import accounts, view

WORKLOAD = Workload(kind="urls", paths=("/hello", "/bytes/100"), count=8)
PYTHON = WORKLOAD.arm("http-client", "h1", name="python")
ENGINE = WORKLOAD.arm("engine", "h1", name="engine", title="the engine")
# Of the engine alone, which starts at once.
OTHER = WORKLOAD.arm("engine", "h2", name="other")


def experiment(blocks: int = 2, **changes: Any) -> Experiment:
    arms = changes.pop("arms", (OTHER, ENGINE))
    form = Form(
        name="fair",
        baseline=arms[0].name,
        rank="elapsed_s",
        measures=("elapsed_s", "requests_per_s", "client_cpu_us_per_request"),
        workload=WORKLOAD,
        arms=arms,
        stats=Stats(blocks=blocks),
    )
    return Experiment(
        name="trial",
        title="A trial",
        question="Does it run?",
        forms={"fair": replace(form, **changes)},
    )


class Said:
    """What an experiment told; it is interrupted when the run number `stop` begins."""

    def __init__(self, stop: int | None = None) -> None:
        self.lines: list[str] = []
        self.steps: list[str] = []
        self.begun: tuple[int, int] = (0, 0)
        self._stop = stop
        self.watcher = study.Watcher(say=self.lines.append, begin=self._begin, step=self._step)

    def _begin(self, runs: int, made: int) -> None:
        self.begun = (runs, made)

    def _step(self, title: str, _block: int, _blocks: int, left_s: float) -> None:
        assert left_s > 0
        if len(self.steps) == self._stop:
            raise KeyboardInterrupt
        self.steps.append(title)


def made_of(asked: Wanted, stop: int | None = None) -> tuple[study.Result, Said]:
    said = Said(stop)
    return study.run(asked, said.watcher), said


def wanted(made: Experiment, state: Path, **changes: Any) -> Wanted:
    asked = Wanted(experiment=made, form="fair", blocks=2, seed=5, state=state)
    return replace(asked, **changes)


def run_folder(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "samples.jsonl").read_text().splitlines()
    return [json.loads(line)["sample"] for line in lines]


def test_an_experiment_leaves_every_run_and_a_result(
    tmp_path: Path, lab_schema: Draft202012Validator
) -> None:
    done, said = made_of(wanted(experiment(arms=(PYTHON, ENGINE)), tmp_path))
    assert said.begun == (6, 0)
    kept = json.loads((done.folder / "result.json").read_text())
    assert runs.load(done.folder).judged == done.result
    problems = [f"{error.json_path}: {error.message}" for error in lab_schema.iter_errors(kept)]
    assert problems == []
    lines = run_folder(done.folder)
    assert len(lines) == 6
    comparison = done.result.points[0].comparison
    assert [arm.name for arm in comparison.arms] == ["python", "engine"]
    assert comparison.arms[0].library_version
    assert all((done.folder / line["file"]).is_file() for line in lines)
    assert json.loads((done.folder / "manifest.json").read_text())["status"] == "complete"
    for arm in comparison.arms:
        for run in view.runs(arm):
            assert run.requests.ok == 8
            # "suspect" is what a machine that does other things makes of it.
            assert run.validity.verdict != "invalid", run.validity


def test_each_end_of_each_arm_has_a_profile_or_a_reason(
    tmp_path: Path, lab_schema: Draft202012Validator
) -> None:
    asked = wanted(experiment(arms=(PYTHON, ENGINE)), tmp_path, blocks=1, profile=True)
    done, said = made_of(asked)
    assert len(run_folder(done.folder)) == 3
    profiles = done.result.profiles
    assert isinstance(profiles, Profiles)
    if perf.refusal() is None:
        assert [line for line in said.lines if line.startswith("profiling ")]
        # Of eight requests perf may have no sample.
        assert len(profiles.made) + len(profiles.missing) == 4
    else:
        assert profiles.missing == [perf.refusal()]
    kept = json.loads((done.folder / "result.json").read_text())
    assert list(lab_schema.iter_errors(kept)) == []
    assert runs.load(done.folder).judged == done.result


def test_the_order_is_that_of_the_seed_and_a_replay_repeats_it(tmp_path: Path) -> None:
    first, _ = made_of(wanted(experiment(), tmp_path))
    manifest = runs.read_manifest(first.folder)
    again, _ = made_of(asked.from_manifest(manifest, tmp_path))
    assert again.folder != first.folder

    def order(folder: Path) -> list[Sequence[Any]]:
        return [[line["block"], line["arm"], line["slot"]] for line in run_folder(folder)]

    assert order(again.folder) == order(first.folder)
    other = asked.order(asked.chosen(wanted(experiment(), tmp_path)), seed=6)
    assert [[e.block, e.arm, e.slot] for e in other] != order(first.folder)


def test_ctrl_c_keeps_what_was_measured_and_the_next_run_goes_on(tmp_path: Path) -> None:
    cut, _ = made_of(wanted(experiment(), tmp_path), stop=4)
    assert cut.result.interrupted
    assert len(run_folder(cut.folder)) == 4
    assert "interrupted after 1 of 2 blocks" in " ".join(
        reason.text for reason in cut.result.validity.reasons
    )
    then = runs.read_manifest(cut.folder)
    # Without a seed as well: it goes on with the one it began with.
    whole, said = made_of(wanted(experiment(), tmp_path, seed=None))
    assert whole.folder == cut.folder
    assert said.begun == (6, 4)
    assert len(run_folder(whole.folder)) == 6
    assert not whole.result.interrupted
    # Both commands count, and not what lies between them.
    now = runs.read_manifest(whole.folder)
    assert then.took_s is not None
    assert now.took_s is not None
    assert 0 < then.took_s < now.took_s
    fresh, _ = made_of(wanted(experiment(), tmp_path), stop=0)
    assert fresh.folder != cut.folder


def test_a_full_disk_names_the_runs_that_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = store.write_bytes, itertools.count()

    def until_full(path: Path, content: bytes) -> None:
        if path.parent.name == "runs" and next(written) == 2:
            raise store.CannotWrite(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, content)

    monkeypatch.setattr(store, "write_bytes", until_full)
    with pytest.raises(CannotRun) as raised:
        made_of(wanted(experiment(), tmp_path))
    [kept] = (tmp_path / "runs").iterdir()
    assert len(run_folder(kept)) == 2
    assert "No space left on device; 2 finished runs are kept in" in str(raised.value)
    assert str(kept) in str(raised.value)


def test_another_plan_does_not_go_on_with_an_interrupted_one(tmp_path: Path) -> None:
    cut, _ = made_of(wanted(experiment(), tmp_path), stop=1)
    other = replace(WORKLOAD, count=9)
    changed, _ = made_of(wanted(experiment(workload=other), tmp_path), stop=0)
    assert changed.folder != cut.folder
    fresh, _ = made_of(wanted(experiment(), tmp_path, fresh=True), stop=0)
    assert fresh.folder != cut.folder


_KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from lab import test_study
from trilane.lab import asked, study
study.run(test_study.wanted(test_study.experiment(40), Path(sys.argv[2]), blocks=40),
          test_study.Said().watcher)
"""


def test_kill_9_loses_at_most_the_run_in_flight(tmp_path: Path) -> None:
    here = str(Path(__file__).parents[1])
    process = subprocess.Popen([sys.executable, "-c", _KILLED, here, str(tmp_path)])
    journals: list[Path] = []
    try:

        def kept() -> int:
            journals[:] = tmp_path.glob("runs/*/samples.jsonl")
            return journals[0].read_bytes().count(b"\n") if journals else 0

        wait_until(lambda: kept() >= 3 or process.poll() is not None, "three runs are kept")
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL
    before = journals[0].read_bytes().count(b"\n")
    assert before >= 3
    went_on, said = made_of(wanted(experiment(40), tmp_path, blocks=40), stop=1)
    assert went_on.folder == journals[0].parent
    assert said.begun == (120, before)
    # Nobody knows how long the killed command worked.
    assert runs.read_manifest(went_on.folder).took_s is None
    lines = run_folder(went_on.folder)
    assert len(lines) == before + 1
    keys = [(line["block"], line["arm"], line["slot"]) for line in lines]
    assert len(set(keys)) == len(keys)


def test_an_arm_that_cannot_run_is_skipped_with_its_reason(tmp_path: Path) -> None:
    installed_nowhere(tmp_path)
    arms = (
        ENGINE,
        WORKLOAD.arm("nowhere", "h1", name="absent"),
        OTHER,
        WORKLOAD.arm("http-client", "h2", name="too-new"),
    )
    done, _ = made_of(wanted(experiment(arms=arms), tmp_path, blocks=1))
    skipped = {row.arm: row.reason for row in done.result.skipped}
    assert skipped.keys() == {"absent", "too-new"}
    assert "no-such-program is not installed" in skipped["absent"]
    assert "does not speak h2" in skipped["too-new"]


def installed_nowhere(folder: Path) -> None:
    """A client `nowhere` of the folder whose program no machine has."""
    own = folder / "contenders" / "nowhere"
    own.mkdir(parents=True)
    (own / "contender.toml").write_text(
        'command = ["no-such-program"]\nrequires = ["no-such-program"]\n'
        'versions = ["h1"]\nstrategies = ["serial"]\n'
    )


def test_without_its_baseline_nothing_runs_and_nothing_is_left(tmp_path: Path) -> None:
    installed_nowhere(tmp_path)
    made = experiment(arms=(WORKLOAD.arm("nowhere", "h1", name="absent"), ENGINE))
    with pytest.raises(CannotRun, match="baseline absent cannot run"):
        made_of(wanted(made, tmp_path))
    assert list((tmp_path / "runs").iterdir()) == []


@contextlib.contextmanager
def answering(content: bytes) -> Iterator[str]:
    """A server that answers everything with this; its origin."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_bodies_that_differ_are_told_before_the_runs(tmp_path: Path) -> None:
    with answering(b"version 1") as one, answering(b"version 2") as other:
        arms = tuple(
            replace(WORKLOAD.arm("engine", "h1", name=name, title=name), server=server)
            for name, server in (("base", one), ("head", other))
        )
        done, said = made_of(wanted(experiment(arms=arms), tmp_path))
    assert done.result.validity.verdict == "invalid"
    [told] = [line for line in said.lines if line.startswith("in the trial run: ")]
    assert "base read 9 bytes with CRC-32 " in told
    assert "head read 9 bytes with CRC-32 " in told
    assert "trilane ab --bodies differ" in told


def test_a_baseline_alone_is_no_comparison(tmp_path: Path) -> None:
    installed_nowhere(tmp_path)
    arms = (ENGINE, WORKLOAD.arm("nowhere", "h1", name="absent"))
    with pytest.raises(CannotRun, match=r"only engine can run here.*absent cannot run"):
        made_of(wanted(experiment(arms=arms), tmp_path))


@pytest.mark.parametrize("part", ["client", "server"])
def test_a_name_that_nobody_has_ends_it_before_anything_runs(tmp_path: Path, part: str) -> None:
    wrong: dict[str, Any] = {part: "no-such-name"}
    arms = (OTHER, replace(ENGINE, **wrong))
    with pytest.raises(BadExperiment, match=rf"arms\[1\].{part}: 'no-such-name' is not a {part}"):
        made_of(wanted(experiment(arms=arms), tmp_path))
    assert not (tmp_path / "runs").exists()


def test_a_sweep_is_judged_point_by_point_with_the_claims_of_each(tmp_path: Path) -> None:
    made = experiment(
        workload=replace(WORKLOAD, count=None),
        sweep=Sweep("count", (4, 12), "requests", (("engine", "other"),)),
        published=(Published("elapsed_s", "engine", "other", (1.0, 2.0), at=12, where="a table"),),
        expect=(
            Expect("elapsed_s", "engine", "other", 1e-9, 1e9),
            Expect("elapsed_s", "engine", "other", 1e8, 1e9, at=4),
        ),
    )
    done, _ = made_of(wanted(made, tmp_path))
    assert [point.value for point in done.result.points] == [4, 12]
    assert [row.at for row in done.result.published] == [12]
    assert done.result.published[0].published.ratio == 0.5
    ours = done.result.published[0].ours
    assert ours is not None
    assert ours.low <= ours.ratio <= ours.high
    met = {(row.at, row.low): row.met for row in done.result.expect}
    assert met == {(4, 1e-9): True, (12, 1e-9): True, (4, 1e8): False}
    assert len(done.result.crossings) == 1


def test_the_engine_pays_for_its_handshakes_like_a_client(tmp_path: Path) -> None:
    done, _ = made_of(wanted(experiment(arms=(ENGINE,)), tmp_path, blocks=1))
    engine = done.result.points[0].comparison.arms[0]
    for run in view.runs(engine):
        assert run.elapsed_s is not None
        assert run.phases is not None
        phases = [run.phases.dns, run.phases.connect, run.phases.tls]
        assert run.elapsed_s > run.rate.window_s
        assert run.elapsed_s - run.rate.window_s == pytest.approx(
            sum(phase.max for phase in phases if phase is not None and phase.max is not None)
        )


def test_arms_at_a_rate_are_compared_by_the_latency_from_the_intended_start(
    tmp_path: Path,
) -> None:
    paced = Workload(duration_s=0.2, warmup_s=0.0, rate=200.0)
    arms = (
        paced.arm("engine", "h1", "load", name="one", connections=8),
        paced.arm("engine", "h2", "load", name="two", connections=1, streams=8),
    )
    made = experiment(workload=paced, arms=arms, rank="p50", measures=("p50", "requests_per_s"))
    done, _ = made_of(wanted(made, tmp_path, blocks=1))
    comparison = done.result.points[0].comparison
    rows = {row.name: row.values for row in comparison.ledger.rows}
    assert rows["rate asked for (1/s)"] == {"one": 200.0, "two": 200.0}
    for arm in comparison.arms:
        for run in view.runs(arm):
            assert run.plan.model == "open"
            assert run.latency.response is not None
    (only,) = view.runs(comparison.arms[1])
    assert only.latency.response is not None
    assert comparison.arms[1].summary["p50"].median == only.latency.response.p50
    assert accounts.setting(comparison)[0] == "open model at 200 requests/s"


def test_system_calls_of_a_crawl_are_counted_within_its_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("strace") is None:
        absent("strace is not installed: apt-get install strace")
    # The interpreter makes a few calls more in one run than in the next.
    real, told, counted = syscalls.total, itertools.count(1000, 10), []

    def total(summary: str) -> int:
        counted.append(real(summary))
        return next(told)

    monkeypatch.setattr(syscalls, "total", total)
    crawl = Workload(kind="crawl", paths=(), start="/site/", count=11)
    arms = (crawl.arm("http-client", "h1", name="python"),)
    made = experiment(workload=crawl, arms=arms, measures=("elapsed_s", "syscalls_per_request"))
    done, _ = made_of(wanted(made, tmp_path, blocks=1))
    (arm,) = done.result.points[0].comparison.arms
    assert [run.syscalls and run.syscalls.requests for run in view.runs(arm)] == [5]
    assert arm.summary["syscalls_per_request"].median == 2
    # The real ones, which nobody can foretell.
    assert min(counted) > 0


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder of the current one may add experiments or contenders."""
    monkeypatch.chdir(tmp_path)
    os.environ.pop("TRILANE_HOME", None)
