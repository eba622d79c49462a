"""Races by fakes of the load engine: what is run, what is told, and what is left on disk."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec import structs

from lab import fake_load
from lab.conftest import HERE, Said
from peers.process import children
from synthetic import records
from synthetic.records import altered
from trilane.lab import study
from trilane.lab.analysis import looks, paired
from trilane.lab.analysis.paired import Observed
from trilane.lab.asked import CannotRun, Wanted, from_manifest
from trilane.lab.clients import engine_run
from trilane.lab.clients.engine_run import EnginePlan, Misused
from trilane.lab.clients.executor import Executor
from trilane.lab.machine.meter import Meter
from trilane.lab.model.comparison import AbsentArm, Comparison, Look
from trilane.lab.model.lab import Skipped
from trilane.lab.model.run import Run
from trilane.lab.processes import supervisor
from trilane.lab.storage import runs, store
from trilane.lab.targets import servers

Make: TypeAlias = Callable[..., Wanted]


@pytest.fixture(autouse=True)
def _no_behaviour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_LOAD", "{}")


def behave(monkeypatch: pytest.MonkeyPatch, **versions: dict[str, Any]) -> None:
    monkeypatch.setenv("FAKE_LOAD", json.dumps(versions))


def raced(wanted: Wanted, said: Said) -> Comparison:
    """What a race finds."""
    found = study.run(wanted, said.watcher()).result.race
    assert found is not None
    return found


def test_a_race_leaves_what_an_experiment_leaves(
    wanted: Make,
    said: Said,
    lab_schema: Draft202012Validator,
    comparison_schema: Draft202012Validator,
) -> None:
    made = study.run(wanted(), said.watcher())
    assert said.begun == (8, 0)
    assert sorted(said.steps) == ["HTTP/1.1"] * 3 + ["HTTP/2"] * 3 + ["HTTP/3"] * 2
    assert made.folder.name.endswith("-race")
    manifest = runs.read_manifest(made.folder)
    assert (manifest.kind, manifest.name, manifest.shown_form) == ("race", "race", None)
    assert (manifest.status, manifest.blocks) == ("complete", 2)
    lines = (made.folder / "samples.jsonl").read_text().splitlines()
    assert len(lines) == 8
    for line in lines:
        assert (made.folder / json.loads(line)["sample"]["file"]).is_file()
    kept = json.loads((made.folder / "result.json").read_text())
    assert [error.message for error in lab_schema.iter_errors(kept)] == []
    assert runs.load(made.folder).judged == made.result
    comparison = msgspec.to_builtins(made.result.race)
    assert [error.message for error in comparison_schema.iter_errors(comparison)] == []
    assert made.result.experiment.title == "https://127.0.0.1:8443/hello"
    assert made.result.race is not None
    [sent_by] = [r for r in made.result.race.ledger.rows if r.name == "server congestion control"]
    # Of a server that is not ours nobody knows whether it is the same over TCP and over QUIC.
    assert not sent_by.equal
    assert set(sent_by.values.values()) == {"unknown (the server's own)"}


def test_a_race_is_repeated_from_its_manifest(wanted: Make, said: Said, tmp_path: Path) -> None:
    made = study.run(wanted(load=["-H", "a: b"]), said.watcher())
    again = study.run(from_manifest(runs.read_manifest(made.folder), tmp_path), said.watcher())
    assert again.folder != made.folder
    assert made.result.race is not None
    assert again.result.race is not None
    assert again.result.race.plan.order == made.result.race.plan.order
    assert again.result.race.command == "trilane race"


def test_a_run_gets_the_arm_the_shape_and_the_flags(
    wanted: Make, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("FAKE_LOG", str(log))
    study.run(wanted(load=["-H", "a: b", "-k"], versions=["h3"], blocks=1), said.watcher())
    probe, measured = (json.loads(line) for line in log.read_text().splitlines())
    assert probe[:5] == ["https://127.0.0.1:8443/hello", "--h3", "-H", "a: b", "-k"]
    assert probe[5:13] == ["-c", "1", "-m", "1", "-t", "1", "-n", "1"]
    # What drops packets instead of refusing them is not waited for as long as an answer.
    assert probe[probe.index("--timeout") :][:2] == ["--timeout", "5s"]
    assert measured[5:17] == [
        *("-c", "4", "-m", "16", "-t", "1", "-d", "0.1s", "--warmup", "0s", "--timeout", "60s"),
    ]
    # Nothing but what was typed is asked for.
    assert "-X" not in measured
    assert measured.count("-H") == 1


def test_what_a_server_lacks_is_said_and_never_ranked(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, h3={"fail": "no QUIC answer within 5 s"})
    result = study.run(wanted(), said.watcher()).result
    made = result.race
    assert made is not None
    assert [arm.name for arm in made.arms] == ["h1", "h2"]
    assert made.absent == [
        AbsentArm(
            name="h3",
            version="h3",
            reason="the server does not speak HTTP/3 on 127.0.0.1:8443: no QUIC answer within 5 s",
        )
    ]
    assert result.skipped == [Skipped(arm="HTTP/3", reason=made.absent[0].reason)]


def test_without_the_baseline_the_next_version_takes_its_place(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, h1={"fail": "ALPN refused"})
    made = raced(wanted(baseline="h1"), said)
    assert made.baseline == "h2"
    assert (said.steps.count("HTTP/2"), said.steps.count("HTTP/3")) == (3, 3)


def test_a_lone_version_is_reported_without_a_second_run(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, h1={"fail": "x"}, h3={"fail": "y"})
    made = raced(wanted(), said)
    assert said.steps == ["HTTP/2", "HTTP/2"]
    assert made.ratios == []
    assert made.verdict.endswith("; the server offers nothing else.")


def test_a_target_that_answers_over_no_version_is_an_error(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    same = {"fail": "connection refused by 127.0.0.1:8443: is the server up?"}
    behave(monkeypatch, h1=same, h2=same, h3={"status": 404})
    with pytest.raises(CannotRun, match="answers over no version") as caught:
        study.run(wanted(), said.watcher())
    assert "HTTP/1.1 and HTTP/2: connection refused" in str(caught.value)
    assert "--expect-status" in str(caught.value)
    assert "status 404" in str(caught.value)
    behave(monkeypatch, h1=same, h2=same, h3=same)
    with pytest.raises(CannotRun, match=r"^connection refused"):
        study.run(wanted(), said.watcher())
    assert list((tmp_path / "runs").iterdir()) == []


def test_flags_that_load_refuses_are_wrong_use_of_the_race(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, h1={"fail": "'x' is not a header: type -H 'Name: value'", "code": 2})
    with pytest.raises(Misused, match="type -H"):
        study.run(wanted(), said.watcher())


def impatient_with_h2(monkeypatch: pytest.MonkeyPatch, said: Said) -> None:
    """Only the runs that are to be given up have a short limit."""
    limit = property(lambda _executor: 0.5 if said.steps[-1:] == ["HTTP/2"] else 120.0)
    monkeypatch.setattr(Executor, "_limit_s", limit)


def test_a_run_that_hangs_is_stopped_and_counted_as_lost(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient_with_h2(monkeypatch, said)
    behave(monkeypatch, h2={"hang": True})
    made = raced(wanted(versions=["h1", "h2"], blocks=1), said)
    h2 = made.arms[1]
    assert [sample.run for sample in h2.samples] == [None]
    assert h2.validity.verdict == "invalid"
    assert "did not end within" in h2.validity.reasons[0].text


def test_a_run_that_does_not_end_when_it_is_asked_to_is_killed(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient_with_h2(monkeypatch, said)
    monkeypatch.setattr(supervisor, "GRACE_S", 0.2)
    behave(monkeypatch, h2={"deaf": True})
    made = raced(wanted(versions=["h1", "h2"], blocks=1), said)
    assert made.arms[1].validity.verdict == "invalid"


def test_a_run_without_readable_result_is_lost(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, h2={"garbage": True})
    made = raced(wanted(versions=["h1", "h2"]), said)
    assert "no readable result" in made.arms[1].validity.reasons[0].text


def test_an_invalid_run_is_kept_and_shown(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, h2={"probe": {}, "invalid": "3 % of the requests failed"})
    made = raced(wanted(versions=["h1", "h2"]), said)
    assert [sample.run is None for sample in made.arms[1].samples] == [False] * 3
    assert made.validity.verdict == "invalid"


def test_a_target_that_dies_ends_the_race_after_that_block(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = {"probe": {}, "fail": "connection refused"}
    behave(monkeypatch, h1=gone, h2=gone, h3=gone)
    with pytest.raises(CannotRun, match="every run of a block failed"):
        study.run(wanted(blocks=50), said.watcher())
    assert len(said.steps) == 4


def test_ctrl_c_keeps_the_complete_blocks_and_the_same_race_goes_on(
    wanted: Make, said: Said
) -> None:
    def interrupt(count: int) -> None:
        if count == 6:
            os.kill(os.getpid(), signal.SIGINT)

    said.on_step = interrupt
    cut = study.run(wanted(blocks=5, seed=None), said.watcher())
    assert cut.result.interrupted
    assert cut.result.race is not None
    assert cut.result.race.plan.blocks_done == 1
    assert runs.read_manifest(cut.folder).status == "interrupted"
    said.on_step = lambda _count: None
    whole = study.run(wanted(blocks=5, seed=None), said.watcher())
    assert f"continuing {cut.folder}" in said.lines
    assert (whole.folder, said.begun) == (cut.folder, (20, 5))
    assert whole.result.seed == cut.result.seed
    assert whole.result.race is not None
    assert whole.result.race.plan.blocks_done == 5


def test_another_race_or_a_new_one_does_not_go_on_with_an_interrupted_one(
    wanted: Make, said: Said
) -> None:
    def interrupt(_count: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    said.on_step = interrupt
    cut = study.run(wanted(), said.watcher())
    for other in (wanted(load=["-k"]), wanted(in_flight=[8]), wanted(fresh=True)):
        assert study.run(other, said.watcher()).folder != cut.folder


def test_the_runs_that_a_dead_target_failed_are_made_again(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = {"probe": {}, "fail": "connection refused"}

    def dies(count: int) -> None:
        if count == 5:
            behave(monkeypatch, h1=gone, h2=gone, h3=gone)

    said.on_step = dies
    with pytest.raises(CannotRun, match="every run of a block failed"):
        study.run(wanted(blocks=3), said.watcher())
    behave(monkeypatch)
    said.on_step = lambda _count: None
    made = raced(wanted(blocks=3), said)
    assert said.begun == (12, 4)
    assert made.plan.blocks_done == 3
    assert all(sample.run is not None for arm in made.arms for sample in arm.samples)


def test_ctrl_c_during_a_run_leaves_no_process_behind(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The signal comes when the run hangs.
    behave(monkeypatch, h2={"hang": True, "tells": os.getpid()})

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    # The servers of other tests may run.
    children_before = children()
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        made = raced(wanted(versions=["h2"]), said)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert children() <= children_before
    assert made.interrupted
    assert made.verdict == "Suspect. No answer: no block was completed."


def test_a_race_is_swept_over_the_requests_in_flight(
    wanted: Make, said: Said, lab_schema: Draft202012Validator
) -> None:
    made = study.run(wanted(in_flight=[8, 64], versions=["h1", "h2"], blocks=1), said.watcher())
    assert said.begun == (6, 0)
    assert [point.value for point in made.result.points] == [8, 64]
    assert made.result.race is None
    assert [row.arm for row in made.result.crossings] == ["h1"]
    kept = json.loads((made.folder / "result.json").read_text())
    assert [error.message for error in lab_schema.iter_errors(kept)] == []


def test_gates_are_judged_and_those_of_an_absent_arm_are_not_forgotten(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, h1={"rate": 20_000}, h3={"fail": "no QUIC answer within 5 s"})
    made = study.run(wanted(fail_if=["rate<0.9"], blocks=3), said.watcher())
    rows = {row.to: (row.met, row.ratio) for row in made.result.expect}
    assert rows == {"h2": (False, pytest.approx(2.0)), "h3": (None, None)}


def test_the_embedded_server_is_raced_and_stopped(wanted: Make, said: Said) -> None:
    made = raced(wanted(url=None), said)
    assert made.url == "https://127.0.0.1:8443/hello"
    ledger = made.ledger
    assert ledger.server["software"].startswith("trilane serve ")
    # Both ends are told: what the client's sockets got is in a row of its own.
    assert ledger.server["tcp_congestion_control"] == "vegas"
    assert made.arms[0].samples[0].server is not None
    assert any("embedded server" in line for line in said.lines)


@pytest.mark.parametrize(
    ("mode", "ready_s", "message"),
    [
        ("dead", 120.0, "port 80 is not ours to take"),
        ("broken", 120.0, "instead of being ready"),
        ("silent", 0.5, "not ready within 0.5 s"),
    ],
)
def test_a_server_that_does_not_come_up_says_why(
    mode: str, ready_s: float, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SERVE", mode)
    monkeypatch.setattr(supervisor, "GRACE_S", 0.5)
    monkeypatch.setattr(servers, "PROGRAM", (sys.executable, str(HERE / "fake_serve.py")))
    with (
        pytest.raises(servers.ServerFailed, match=message),
        servers.embedded(threads=1, cpus=None, state=None, ready_s=ready_s),
    ):
        pass


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("garbled", "many.* instead of what it has counted"),
        ("leaving", "ended with exit code 1 without saying what it has counted"),
    ],
)
def test_a_server_that_does_not_count_says_so(
    mode: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "PROGRAM", (sys.executable, str(HERE / "fake_serve.py")))
    monkeypatch.setenv("FAKE_SERVE", "counting")
    with servers.embedded(threads=1, cpus=None, state=None) as server:
        assert server.count() == servers.Counted(requests=3, connections=2)
    monkeypatch.setenv("FAKE_SERVE", mode)
    with (
        servers.embedded(threads=1, cpus=None, state=None) as server,
        pytest.raises(servers.ServerFailed, match=message),
    ):
        server.count()


def test_the_meter_counts_the_cpu_of_a_process() -> None:
    meter = Meter([os.getpid()], 1)
    run = altered(
        records.run(),
        {
            "requests.started": 900,
            "requests.warmup.started": 100,
            "plan.duration_s": 0.3,
            "plan.warmup_s": 0.0,
        },
    )
    before = time.process_time()
    meter.start()
    until = time.thread_time() + 0.3
    while time.thread_time() < until:
        pass
    spent = meter.stop(run)
    after = time.process_time()
    assert spent is not None
    # The kernel brings a running thread's counter up to date at its ticks.
    assert 0.28 < spent.cpu_s < after - before + 0.02
    assert spent.requests == 1000
    assert spent.cpu_us_per_request == pytest.approx(1e6 * spent.cpu_s / 1000)
    assert spent.busy == 1.0
    assert 0 <= spent.others_busy <= 1


@pytest.mark.parametrize("spent_s", [0.3, 0.005])
def test_the_meter_counts_threads_that_came_and_went(spent_s: float) -> None:
    def work() -> None:
        until = time.thread_time() + spent_s
        while time.thread_time() < until:
            pass

    meter = Meter([os.getpid()], 1)
    meter.start()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    spent = meter.stop(records.run())
    assert spent is not None
    assert spent.cpu_s >= 0.9 * spent_s


def test_the_meter_of_a_process_that_is_gone_knows_nothing() -> None:
    meter = Meter([2**22 + 1], 1)
    meter.start()
    assert meter.stop(records.run()) is None


def test_an_embedded_server_that_does_not_start_ends_the_race(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_SERVE", "dead")
    with pytest.raises(CannotRun, match="port 80 is not ours to take\ntry: trilane serve"):
        study.run(wanted(url=None), said.watcher())
    assert list((tmp_path / "runs").iterdir()) == []


def at_once(plan: EnginePlan, *, log: Path, limit_s: float) -> Run:
    """A run as `fake_load.py` makes it, without its process: of these tests it is the number."""
    assert limit_s > 0, log
    told = json.loads(os.environ["FAKE_LOAD"]).get(plan.arm.version, {})
    made = msgspec.convert(fake_load.single(plan.arm.version, told), Run)
    return structs.replace(made, plan=structs.replace(made.plan, strategy=plan.arm.strategy))


def looked(wanted: Make, monkeypatch: pytest.MonkeyPatch, *, most: int, **flags: Any) -> Wanted:
    """A race of two arms that looks after six blocks, and after `most`."""
    monkeypatch.setattr(engine_run, "run", at_once)
    plan = [Look(blocks=6, alpha=0.04), Look(blocks=most, alpha=0.01)]
    monkeypatch.setattr(looks, "planned", lambda _most, **_: plan)
    asked = wanted(blocks=most, versions=["h1", "h2"], **flags)
    return dataclasses.replace(asked, until_decided=True)


def wavering(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """What makes the block of this run one that contradicts the block before."""
    behave(monkeypatch, h1={"rate": 20_000 if (count - 1) // 3 % 2 else 5_000})


def test_a_race_ends_once_it_is_decided(
    wanted: Make,
    said: Said,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    lab_schema: Draft202012Validator,
) -> None:
    behave(monkeypatch, h1={"rate": 20_000})
    made = study.run(looked(wanted, monkeypatch, most=40), said.watcher())
    assert (said.begun, len(said.steps), said.changes) == ((120, 0), 18, [-102])
    assert "ends once it is decided: looks after 6 and at most 40 blocks" in said.lines
    manifest = runs.read_manifest(made.folder)
    assert (manifest.status, manifest.blocks, manifest.ended_at) == ("complete", 40, [1])
    assert [look.blocks for look in manifest.looks or ()] == [6, 40]
    kept = json.loads((made.folder / "result.json").read_text())
    assert [error.message for error in lab_schema.iter_errors(kept)] == []
    plan = made.result.points[0].comparison.plan
    assert (plan.blocks, plan.blocks_done, plan.ended_at, plan.level) == (40, 6, 1, 0.96)
    # A replay has the same plan, and its own results to end at.
    again = raced(from_manifest(manifest, tmp_path), said).plan
    assert (again.looks, again.order) == (plan.looks, plan.order)


def test_an_interrupted_race_goes_on_to_the_right_look(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(count: int) -> None:
        wavering(monkeypatch, count)
        if count == 20:
            os.kill(os.getpid(), signal.SIGINT)

    said.on_step = step
    asked = looked(wanted, monkeypatch, most=7)
    cut = study.run(asked, said.watcher())
    [point] = cut.result.points
    assert (point.comparison.plan.blocks_done, point.comparison.plan.ended_at) == (6, None)
    assert point.comparison.plan.level == 0.96
    said.on_step = lambda count: wavering(monkeypatch, count - 1)
    judged: list[Observed] = []

    def compare(observed: Observed) -> Comparison:
        judged.append(observed)
        return compared(observed)

    compared = paired.compare
    monkeypatch.setattr(paired, "compare", compare)
    whole = study.run(asked, said.watcher())
    # The look that was passed before is not looked at again: only the result is judged.
    assert len(judged) == 1
    assert (whole.folder, said.begun) == (cut.folder, (21, 19))
    [point] = whole.result.points
    assert (point.comparison.plan.blocks_done, point.comparison.plan.ended_at) == (7, None)
    assert point.comparison.plan.level == 0.99
    # A race of a fixed number of blocks does not go on with one that looks.
    fixed = study.run(dataclasses.replace(asked, until_decided=False, blocks=1), said.watcher())
    assert fixed.folder != cut.folder


def test_every_point_of_a_sweep_ends_by_itself(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(count: int) -> None:
        # All points have had a look before one goes on to the next.
        if count <= 18 or count > 36:
            wavering(monkeypatch, count)
        else:
            behave(monkeypatch, h1={"rate": 20_000})

    said.on_step = step
    made = study.run(looked(wanted, monkeypatch, most=7, in_flight=[8, 64]), said.watcher())
    plans = [point.comparison.plan for point in made.result.points]
    assert [(plan.blocks_done, plan.ended_at) for plan in plans] == [(7, None), (6, 1)]
    assert (len(said.steps), said.changes) == (39, [-3])
    assert runs.read_manifest(made.folder).ended_at == [None, 1]


@pytest.fixture
def _ten_seconds_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of each run the beginning and the end are asked for.
    monkeypatch.setattr(study, "monotonic", itertools.count(0.0, 10.0).__next__)


@pytest.mark.usefixtures("_ten_seconds_a_run")
def test_no_blocks_are_begun_that_would_end_after_the_time(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    said.on_step = lambda count: wavering(monkeypatch, count)
    asked = looked(wanted, monkeypatch, most=7, in_flight=[8, 64])
    # After 36 runs the seventh block of the first point fits, that of the second does not.
    made = study.run(dataclasses.replace(asked, within_s=395.0), said.watcher())
    assert (len(said.steps), said.changes) == (39, [-3])
    plans = [point.comparison.plan for point in made.result.points]
    assert [(plan.blocks_done, len(plan.order)) for plan in plans] == [(7, 7), (6, 6)]
    assert not made.result.interrupted
    announced, told = (line for line in said.lines if "6 min 35 s" in line)
    assert announced.startswith("about ")
    assert announced.endswith(
        "until the first look of all 2; then more blocks, as far as they end within 6 min 35 s of "
        "the start"
    )
    assert told.startswith("1 of 2 points: no more blocks fit into 6 min 35 s")
    assert said.lines.index(announced) < said.lines.index(told)


@pytest.mark.usefixtures("_ten_seconds_a_run")
def test_every_point_has_its_first_look_whatever_the_time(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    said.on_step = lambda count: wavering(monkeypatch, count)
    asked = looked(wanted, monkeypatch, most=40, in_flight=[8, 64])
    made = study.run(dataclasses.replace(asked, within_s=1.0), said.watcher())
    plans = [point.comparison.plan for point in made.result.points]
    assert [plan.blocks_done for plan in plans] == [6, 6]
    assert said.changes == [-102, -102]


def test_the_time_of_a_race_that_goes_on_counts_from_its_start(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(count: int) -> None:
        wavering(monkeypatch, count)
        if count == 20:
            os.kill(os.getpid(), signal.SIGINT)

    said.on_step = step
    asked = dataclasses.replace(looked(wanted, monkeypatch, most=7), within_s=250.0)
    cut = study.run(asked, said.watcher())
    assert len(said.steps) == 20
    file = cut.folder / "manifest.json"
    store.write_json(file, {**json.loads(file.read_bytes()), "took_s": 249.0})
    whole = study.run(asked, said.watcher())
    assert (whole.folder, len(said.steps)) == (cut.folder, 20)
    assert whole.result.points[0].comparison.plan.blocks_done == 6
    assert any(line.startswith("no more blocks fit into 4 min 10 s") for line in said.lines)


def test_a_block_that_was_disturbed_is_made_again(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch, lab_schema: Draft202012Validator
) -> None:
    # The runs of the third block, and of the fourth, which the quarter of six does not hold.
    said.on_step = lambda count: behave(
        monkeypatch, h1={"rate": 20_000, "disturbed": 7 <= count <= 12}
    )
    made = study.run(looked(wanted, monkeypatch, most=40), said.watcher())
    assert (len(said.steps), said.changes) == (21, [3, -102])
    assert "making block 3 again: other programs or machines disturbed a run" in said.lines
    [point] = made.result.points
    h1 = point.comparison.arms[0]
    assert {sample.block: sample.again for sample in h1.samples} == {
        block: block == 2 for block in range(6)
    }
    assert point.comparison.plan.blocks_done == 6
    assert "1 of 6 blocks were disturbed and made again" in str(looks.said(point.comparison))
    # The runs that do not count are kept all the same.
    names = {file.name for file in (made.folder / "runs").iterdir()}
    assert len(names) == 21
    assert {name for name in names if name.endswith("-again.json")} == {
        name.replace(".json", "-again.json")
        for name in names
        if name.startswith("1-03-") and not name.endswith("-again.json")
    }
    kept = json.loads((made.folder / "result.json").read_text())
    assert [error.message for error in lab_schema.iter_errors(kept)] == []
    assert runs.load(made.folder).judged == made.result


def test_a_race_that_was_interrupted_while_it_made_a_block_again_goes_on_there(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(count: int) -> None:
        behave(monkeypatch, h1={"rate": 20_000, "disturbed": count <= 3})
        if count == 20:
            os.kill(os.getpid(), signal.SIGINT)

    said.on_step = step
    asked = looked(wanted, monkeypatch, most=40)
    cut = study.run(asked, said.watcher())
    assert cut.result.interrupted
    assert not any(sample.again for sample in cut.result.points[0].comparison.arms[0].samples)
    said.on_step = lambda _count: behave(monkeypatch, h1={"rate": 20_000})
    whole = study.run(asked, said.watcher())
    assert (whole.folder, len(said.steps)) == (cut.folder, 22)
    # One of the runs that were made before is of the block that is made again.
    assert (said.begun, said.changes) == ((121, 19), [3, 2, -102])
    arms = whole.result.points[0].comparison.arms
    assert all(sample.again == (sample.block == 0) for arm in arms for sample in arm.samples)


def test_a_fixed_number_of_blocks_is_made_once_whatever_disturbs_them(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, h1={"disturbed": True})
    made = raced(wanted(versions=["h1", "h2"]), said)
    assert len(said.steps) == 6
    assert made.validity.verdict == "suspect"
