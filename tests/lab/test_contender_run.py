from __future__ import annotations

import json
import sys
import threading
import time
import zlib
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from peers.process import children
from trilane.lab.clients import as_run, contender_run
from trilane.lab.clients.contender_messages import Used
from trilane.lab.clients.contender_run import Declined, Delivered, RunFailed
from trilane.lab.clients.executor import Executor, Setting
from trilane.lab.clients.plan import contender_plan
from trilane.lab.clients.reference import UNREAD, Reference
from trilane.lab.experiment.form import Form
from trilane.lab.experiment.workload import Workload
from trilane.lab.model import measures
from trilane.lab.model.contender import Content
from trilane.lab.model.run import Requests, Run
from trilane.lab.model.validity import RunValidity

SCRIPT = Path(__file__).parent / "fake_contender" / "contender.py"
# The kernel tells the end of a process in microseconds.
CLOCK_S = 1e-5
WORKLOAD = Workload(count=20)
ARM = WORKLOAD.arm("fake_contender", "h1")
SETTING = Setting("http://127.0.0.1:1")


def run(tmp_path: Path, limit_s: float = 120.0) -> Delivered:
    plan = contender_plan(ARM, WORKLOAD, SETTING)
    command = [sys.executable, str(SCRIPT)]
    return contender_run.run(command, plan, log=tmp_path / "log", limit_s=limit_s)


def judged(delivered: Delivered, body: bytes | None = None) -> Run:
    """The run, of which `body` is what an independent client read, where it read anything."""
    read = UNREAD if body is None else Reference((("/hello", zlib.crc32(body)),))
    setting = replace(SETTING, reference=read)
    return as_run.run_of(as_run.Asked(ARM, WORKLOAD, setting, "http://x/", "now"), delivered)


def test_cpu_is_that_of_the_workload_and_not_of_the_start(tmp_path: Path) -> None:
    began = time.monotonic()
    delivered = run(tmp_path)
    took = time.monotonic() - began
    # What the fake spends between `start` and `done` is counted, what it spent before is not.
    own, usage = json.loads((tmp_path / "log").read_text()), delivered.ending.usage
    all_of_it = usage.ru_utime + usage.ru_stime
    assert own["spent_s"] <= delivered.cpu_s <= all_of_it - own["before_s"] + CLOCK_S
    made = judged(delivered)
    # It did nothing but compute; a busy machine may have let it wait.
    assert 0 < made.cost.busy[0] <= 1
    process = made.process
    assert process is not None
    assert 0 < process.startup_s < process.wall_s <= took
    assert process.cpu_percent is not None
    assert 0 < process.cpu_percent <= 110
    assert process.peak_rss_bytes is not None
    assert process.peak_rss_bytes > 5_000_000


def test_cpu_is_per_request_that_was_ok(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CONTENDER", "half fails")
    delivered = run(tmp_path)
    made = judged(delivered)
    assert (made.requests.ok, made.requests.failed) == (10, 10)
    assert made.cost.cpu_us_per_request == pytest.approx(1e6 * delivered.cpu_s / 10)
    assert made.content is not None
    assert measures.CPU_PER_GIB.read(made, measures.Beside()) == pytest.approx(
        delivered.cpu_s / made.content.bytes * (1 << 30)
    )
    monkeypatch.setenv("FAKE_CONTENDER", "fails")
    assert judged(run(tmp_path)).cost.cpu_us_per_request is None


def test_of_a_load_generator_only_what_it_took_itself_counts(tmp_path: Path) -> None:
    delivered = run(tmp_path)
    used = Used(user_s=0.002, system_s=0.003, voluntary=7, involuntary=5, peak_rss_bytes=2_000_000)
    made = judged(
        replace(delivered, result=msgspec.structs.replace(delivered.result, program=used))
    )
    cost = made.cost
    assert cost.cpu_us_per_request == pytest.approx(1e6 * 0.005 / 20)
    assert (cost.user_s, cost.system_s, cost.peak_rss_bytes) == (0.002, 0.003, 2_000_000)
    assert (cost.context_switches.voluntary, cost.context_switches.involuntary) == (7, 5)
    assert cost.busy == [pytest.approx(0.005 / (delivered.end.at - delivered.begin.at))]


def test_a_contender_is_told_whether_a_latency_is_asked_for(tmp_path: Path) -> None:
    arm = WORKLOAD.arm("h2load", "h2", "load")

    def told(*names: str) -> bool:
        form = Form("fair", arm.name, names[0], names, WORKLOAD, (arm,))
        executor = Executor(form, arm, SETTING, lambda: (), tmp_path)
        return bool(executor.contender_plan(WORKLOAD)["latency"])

    assert told("client_cpu_us_per_request", "p99")
    assert not told("client_cpu_us_per_request", "requests_per_s")


def test_a_contender_that_declines_is_told_from_one_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CONTENDER", "cannot")
    with pytest.raises(Declined, match="not on a Tuesday"):
        run(tmp_path)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("dies", "it broke: no such thing"),
        ("talks", "hello, world"),
        ("forgets", "its 'result' is wrong: Object missing required field `ok`"),
        ("invents", "its 'result' is wrong: Invalid enum value 'tired'"),
    ],
)
def test_what_a_broken_contender_said_is_told(
    fault: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CONTENDER", fault)
    with pytest.raises(RunFailed, match=message):
        run(tmp_path)


@pytest.mark.parametrize(
    ("fault", "limit", "what"),
    [("mute", "READY_S", "did not say 'ready'"), ("stays", "_REPORT_S", "did not end within")],
)
def test_no_contender_is_waited_for_without_limit(
    fault: str, limit: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CONTENDER", fault)
    # Only what is to run out is short.
    monkeypatch.setattr(contender_run, limit, 0.5)
    before = children()
    with pytest.raises(RunFailed, match=what):
        run(tmp_path)
    assert children() <= before


def test_a_contender_that_does_not_read_its_plan_holds_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contender_run, "READY_S", 0.2)
    plan = contender_plan(ARM, WORKLOAD, SETTING)
    # More than a pipe holds.
    plan["more"] = "x" * (1 << 21)
    with pytest.raises(RunFailed, match=r"it did not read its stdin within 0\.2 s"):
        contender_run.run(["sleep", "86400"], plan, log=tmp_path / "log", limit_s=120.0)


def test_a_contender_that_is_not_there_is_a_run_that_failed(tmp_path: Path) -> None:
    plan = contender_plan(ARM, WORKLOAD, SETTING)
    with pytest.raises(RunFailed, match="/nowhere/x: No such file"):
        contender_run.run(["/nowhere/x"], plan, log=tmp_path / "log", limit_s=120.0)


def test_nobody_watches_the_memory_of_a_run_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CONTENDER", "stays")
    monkeypatch.setattr(contender_run, "_REPORT_S", 0.5)
    plan = contender_plan(ARM, WORKLOAD, SETTING) | {"processes": 2}
    command = [sys.executable, str(SCRIPT)]
    with pytest.raises(RunFailed, match="did not end within"):
        contender_run.run(command, plan, log=tmp_path / "log", limit_s=120.0)
    assert "memory" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("wrong version", "h1 was asked for, but obtained was h2 20 times"),
        ("wrong bodies", "not those that the server has"),
        ("loses", "21 requests were started, but 20 accounted for"),
        ("fails", "no request was answered as expected"),
    ],
)
def test_a_claim_that_does_not_hold_makes_the_run_invalid(
    fault: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CONTENDER", fault)
    made = judged(run(tmp_path), b"hello world")
    assert made.validity.verdict == "invalid"
    assert any(reason in told.text for told in made.validity.reasons)


def test_a_run_that_is_shorter_than_its_responses_says_so(tmp_path: Path) -> None:
    timed = Workload(duration_s=0.2)
    asked = as_run.Asked(ARM, timed, SETTING, "http://x/", "now")
    none_ended = Requests.of_client(started=4, ok=0, abandoned=4, failures={})
    made = msgspec.structs.replace(judged(run(tmp_path)), requests=none_ended)
    (told, *_) = as_run.problems(asked, made)
    assert told.code == "nothing_ok"
    assert told.text == "no response ended within 0.2 s: use a longer run"


@pytest.mark.parametrize(("read", "verdict"), [(220, "valid"), (219, "invalid")])
def test_bodies_that_were_thrown_away_are_judged_by_their_length(
    read: int, verdict: str, tmp_path: Path
) -> None:
    workload = replace(WORKLOAD, discard=True)
    plan = contender_plan(ARM, workload, SETTING)
    command = [sys.executable, str(SCRIPT)]
    delivered = contender_run.run(command, plan, log=tmp_path / "log", limit_s=120.0)
    # The lengths of twenty bodies of eleven bytes, of which one may be shorter.
    lengths = Reference((("/hello", 0),) * 20, (*[11] * 19, read - 209))
    setting = replace(SETTING, reference=lengths)
    asked = as_run.Asked(ARM, workload, setting, "http://x/", "now")
    made = as_run.run_of(asked, delivered)
    assert made.content == Content(bytes=220, digest=None, expected=None)
    assert made.validity.verdict == verdict
    per_gib = measures.CPU_PER_GIB.read(made, measures.Beside())
    assert per_gib == pytest.approx(delivered.cpu_s / 220 * (1 << 30))


def test_a_run_that_keeps_its_word_is_valid(tmp_path: Path) -> None:
    made = judged(run(tmp_path), b"hello world")
    assert made.validity == RunValidity(verdict="valid", reasons=[], bound=None)
    assert made.requests.started == made.requests.ok == 20
