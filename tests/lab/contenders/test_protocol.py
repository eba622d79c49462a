"""The conversation itself, with the contender that needs the least: http.client."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.contenders.conftest import CONTENDERS
from lab.contenders.conversation import converse, plan
from peers.process import wait_until
from repository import ROOT
from trilane.lab.clients.contenders import Contender
from trilane.lab.targets.servers import Server

Command = Callable[[Contender], list[str]]


@pytest.fixture
def started(command: Command) -> list[str]:
    return command(CONTENDERS["http-client"])


def hello(server: Server, strategy: str = "serial", **changes: Any) -> dict[str, Any]:
    return plan(server.https, "h1", strategy, cacert=server.cacert, **changes)


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("strategy", ["processes", "serial"])
def test_processes_start_in_every_way(
    method: str, strategy: str, started: list[str], server: Server
) -> None:
    repeats = {"repeat": 3, "repeat_processes": 2} if strategy == "serial" else {}
    wanted = hello(server, strategy, start_method=method, processes=2, **repeats)
    result = converse(started, wanted)["result"]
    assert result["failed"] == {}, result["examples"]
    assert result["ok"] == 10 * (3 if repeats else 1)
    assert len(result["repetitions_s"]) == (3 if repeats else 1)


@pytest.mark.parametrize("processes", [0, 2])
def test_each_repetition_is_timed(processes: int, started: list[str], server: Server) -> None:
    wanted = hello(server, repeat=4, repeat_processes=processes)
    result = converse(started, wanted)["result"]
    assert result["ok"] == result["started"] == 40
    assert len(result["repetitions_s"]) == 4
    assert all(0 < each <= result["elapsed_s"] for each in result["repetitions_s"])


def test_the_warm_up_is_not_counted(started: list[str], server: Server) -> None:
    result = converse(started, hello(server, "threads", warmup=7))["result"]
    assert result["started"] == result["ok"] == 10


@pytest.mark.parametrize(
    ("session", "strategy", "words"),
    [
        (True, "serial", "one"),
        (True, "threads", "one per thread"),
        (True, "processes", "one per process"),
        (False, "threads", "a new one for each request"),
    ],
)
def test_it_says_what_a_session_is(
    session: bool, strategy: str, words: str, started: list[str], server: Server
) -> None:
    said = converse(started, hello(server, strategy, session=session))
    assert said["ready"]["sessions"] == words


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"strategy": "asyncio"}, "no strategy 'asyncio'"),
        ({"schema": "trilane.contender/0"}, "the plan is not trilane.contender/1"),
        ({"repeat": 2, "warmup": 5}, "repetitions are not warmed up"),
    ],
)
def test_what_it_cannot_do_it_says_at_once(
    changes: dict[str, Any], reason: str, started: list[str], server: Server
) -> None:
    said = converse(started, hello(server, **changes))
    assert said.names == ["cannot"]
    assert reason in said["cannot"]["reason"]
    assert said.code == 0


def test_without_a_start_it_does_nothing(started: list[str], server: Server) -> None:
    run = subprocess.run(
        started,
        input=json.dumps(hello(server)) + "\n",
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert [json.loads(line)["event"] for line in run.stdout.splitlines()] == ["ready"]


def test_a_killed_contender_leaves_no_processes(started: list[str], server: Server) -> None:
    wanted = hello(server, "processes", processes=2, workload={"count": None, "duration_s": 600})
    process = subprocess.Popen(
        started, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin as stdin, process.stdout as stdout:
        stdin.write(json.dumps(wanted).encode() + b"\n")
        stdin.flush()
        assert b"ready" in stdout.readline()
        stdin.write(b"start\n")
        stdin.flush()
        wait_until(lambda: len(group(process.pid)) >= 3, "it has two processes")
        process.kill()
        process.wait()
        wait_until(lambda: not group(process.pid), "they have ended")


def test_a_process_ends_whose_contender_was_killed_before_it_began(started: list[str]) -> None:
    # Process 1 did not start it.
    begins = "from trilane_contender import processes; processes._begin(None, None, 1)"
    ended = subprocess.run(
        [started[0], "-c", f"{begins}; print('it stays')"],
        env={"PYTHONPATH": str(ROOT / "contenders" / "harness")},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, b"", b"")


def group(leader: int) -> list[int]:
    """The living processes of a process group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgid = stat.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(pgid) == leader and state != "Z":
            found.append(int(stat.parent.name))
    return found
