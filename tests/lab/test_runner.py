from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from jsonschema import Draft202012Validator

from lab.conftest import HERE, Said
from peers.process import children
from synthetic import records
from synthetic.records import altered
from trilane.lab import race, runner
from trilane.lab.arms import BadArms
from trilane.lab.keeping import runs
from trilane.lab.machine.meter import Meter
from trilane.lab.model.comparison import AbsentArm
from trilane.lab.processes import supervisor
from trilane.lab.serving import servers

Make: TypeAlias = Callable[..., race.Wanted]


@pytest.fixture(autouse=True)
def _no_behaviour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_LOAD", "{}")


def behave(monkeypatch: pytest.MonkeyPatch, **versions: dict[str, Any]) -> None:
    monkeypatch.setenv("FAKE_LOAD", json.dumps(versions))


def test_a_race_leaves_its_runs_manifest_and_comparison_on_disk(
    wanted: Make, said: Said, comparison_schema: Draft202012Validator
) -> None:
    result = race.run(wanted(), said.watcher())
    assert said.runs == 8
    assert sorted(said.steps) == ["h1"] * 3 + ["h2"] * 3 + ["h3"] * 2
    manifest = json.loads((result.folder / "manifest.json").read_text())
    assert manifest["status"] == "complete"
    for entry in manifest["runs"]:
        assert (result.folder / entry["file"]).is_file()
    kept = json.loads((result.folder / "comparison.json").read_text())
    assert runs.load(result.folder).judged == result.comparison
    assert [error.message for error in comparison_schema.iter_errors(kept)] == []
    assert not list(result.folder.rglob(".*"))


def test_a_run_gets_the_arm_the_shape_and_the_flags(
    wanted: Make, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("FAKE_LOG", str(log))
    race.run(wanted(flags=["-H", "a: b", "-k"], versions=["h3"], blocks=1), said.watcher())
    probe, measured = (json.loads(line) for line in log.read_text().splitlines())
    assert probe[:5] == ["https://127.0.0.1:8443/hello", "--h3", "-H", "a: b", "-k"]
    assert probe[probe.index("-n") :][:2] == ["-n", "1"]
    assert measured[5:15] == [
        *("-c", "4", "-m", "16", "-t", "1", "-d", "0.1s", "--warmup", "0s"),
    ]


def test_what_a_server_lacks_is_said_and_never_ranked(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, h3={"fail": "no QUIC answer within 5 s"})
    made = race.run(wanted(), said.watcher()).comparison
    assert [arm.name for arm in made.arms] == ["h1", "h2"]
    assert made.absent == [
        AbsentArm(
            name="h3",
            version="h3",
            reason="the server does not speak HTTP/3 on 127.0.0.1:8443: no QUIC answer within 5 s",
        )
    ]


def test_without_the_baseline_the_next_version_takes_its_place(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, h1={"fail": "ALPN refused"})
    made = race.run(wanted(baseline="h1"), said.watcher()).comparison
    assert made.baseline == "h2"
    assert (said.steps.count("h2"), said.steps.count("h3")) == (3, 3)


def test_a_lone_version_is_reported_without_a_second_run(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, h1={"fail": "x"}, h3={"fail": "y"})
    made = race.run(wanted(), said.watcher()).comparison
    assert said.steps == ["h2", "h2"]
    assert made.ratios == []
    assert "the server offers nothing to compare it with" in made.verdict


def test_a_target_that_answers_over_no_version_is_an_error(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    same = {"fail": "connection refused by 127.0.0.1:8443: is the server up?"}
    behave(monkeypatch, h1=same, h2=same, h3={"status": 404})
    with pytest.raises(race.CannotRace, match="answers over no version") as caught:
        race.run(wanted(), said.watcher())
    assert "HTTP/1.1 and HTTP/2: connection refused" in str(caught.value)
    assert "--expect-status" in str(caught.value)
    assert "status 404" in str(caught.value)
    behave(monkeypatch, h1=same, h2=same, h3=same)
    with pytest.raises(race.CannotRace, match=r"^connection refused"):
        race.run(wanted(), said.watcher())
    assert list((tmp_path / "runs").iterdir()) == []


def test_flags_that_load_refuses_are_wrong_use_of_the_race(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, h1={"fail": "'x' is not a header: type -H 'Name: value'", "code": 2})
    with pytest.raises(runner.Misused, match="type -H"):
        race.run(wanted(), said.watcher())


def impatient_with_h2(monkeypatch: pytest.MonkeyPatch, said: Said) -> None:
    """Only the runs that are to be given up have a short limit."""
    limit = property(lambda _load: 0.5 if said.steps[-1] == "h2" else 120.0)
    monkeypatch.setattr(runner.Load, "limit_s", limit)


def test_a_run_that_hangs_is_stopped_and_counted_as_lost(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient_with_h2(monkeypatch, said)
    behave(monkeypatch, h2={"hang": True})
    made = race.run(wanted(versions=["h1", "h2"], blocks=1), said.watcher()).comparison
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
    made = race.run(wanted(versions=["h1", "h2"], blocks=1), said.watcher()).comparison
    assert made.arms[1].validity.verdict == "invalid"


def test_a_run_without_readable_result_is_lost(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, h2={"garbage": True})
    made = race.run(wanted(versions=["h1", "h2"]), said.watcher()).comparison
    assert "no readable result" in made.arms[1].validity.reasons[0].text


def test_an_invalid_run_is_kept_and_shown(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, h2={"probe": {}, "invalid": "3 % of the requests failed"})
    made = race.run(wanted(versions=["h1", "h2"]), said.watcher()).comparison
    assert [sample.run is None for sample in made.arms[1].samples] == [False] * 3
    assert made.validity.verdict == "invalid"


def test_a_target_that_dies_ends_the_race_after_that_block(
    wanted: Make, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = {"probe": {}, "fail": "connection refused"}
    behave(monkeypatch, h1=gone, h2=gone, h3=gone)
    with pytest.raises(race.CannotRace, match="every run of a block failed"):
        race.run(wanted(blocks=50), said.watcher())
    assert len(said.steps) == 4


def test_ctrl_c_ends_the_run_and_keeps_the_complete_blocks(wanted: Make, said: Said) -> None:
    def interrupt(count: int) -> None:
        if count == 6:
            os.kill(os.getpid(), signal.SIGINT)

    said.on_step = interrupt
    result = race.run(wanted(blocks=50), said.watcher())
    assert result.comparison.interrupted
    assert result.comparison.plan.blocks_done == 1
    manifest = json.loads((result.folder / "manifest.json").read_text())
    assert manifest["status"] == "interrupted"


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
        result = race.run(wanted(versions=["h2"]), said.watcher())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert children() <= children_before
    assert result.comparison.interrupted
    assert result.comparison.verdict == "No verdict: no block was completed."


def test_the_embedded_server_is_raced_and_stopped(wanted: Make, said: Said) -> None:
    made = race.run(wanted(url=None), said.watcher()).comparison
    assert made.url == "https://127.0.0.1:8443/hello"
    ledger = made.ledger
    assert ledger.server["software"] == "trilane serve"
    # Both ends are told: what the client's sockets got is in a row of its own.
    controller = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    assert ledger.server["tcp_congestion_control"] == controller
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
    program = (sys.executable, str(HERE / "fake_serve.py"))
    with (
        pytest.raises(servers.ServerFailed, match=message),
        servers.embedded(threads=1, cpus=None, state=None, program=program, ready_s=ready_s),
    ):
        pass


def test_the_meter_counts_the_cpu_of_a_process() -> None:
    meter = Meter(os.getpid(), 1)
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


def test_the_meter_of_a_process_that_is_gone_knows_nothing() -> None:
    meter = Meter(2**22 + 1, 1)
    meter.start()
    assert meter.stop(records.run()) is None


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("example.org", "try https://example.org"),
        ("ftp://example.org", "not ftp://"),
        ("https://", "names no host"),
        ("https://host:99999/", "is not a URL"),
        ("https://[::1/", "is not a URL"),
    ],
)
def test_bad_urls_say_what_to_type(url: str, message: str, wanted: Make, said: Said) -> None:
    with pytest.raises(BadArms, match=message):
        race.run(wanted(url=url), said.watcher())


def test_a_baseline_outside_the_race_is_refused(wanted: Make, said: Said) -> None:
    with pytest.raises(BadArms, match="choose from h1, h2, h3"):
        race.run(wanted(baseline="h4"), said.watcher())
