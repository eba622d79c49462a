"""Processes that do not end, do not read, do not listen: none holds up the lab or outlives it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from peers.process import children, is_alive, wait_until
from trilane.lab.processes import supervisor
from trilane.lab.processes.supervisor import Ended, Late, NotStarted
from trilane.lab.targets import servers

# No limit that is to hold is near this.
LIMIT_S = 120.0
DEAF = "trap '' TERM; "


def shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def gone(pid: int) -> None:
    """Return once the process is gone: the kernel ends it when it sees fit."""
    wait_until(lambda: not is_alive(pid), f"process {pid} is gone")


@pytest.mark.parametrize("prefix", ["", "setsid "])
def test_what_is_deaf_is_killed_with_all_that_it_started(prefix: str) -> None:
    script = f"{DEAF}{prefix}sleep 86400 & echo $!; wait"
    with supervisor.started(shell(script), pipes=True, grace_s=0.1) as child:
        below = int(child.read_line("a number", LIMIT_S))
        assert is_alive(below)
    assert not is_alive(child.pid)
    gone(below)


def test_ctrl_c_during_the_grace_leaves_nothing_behind() -> None:
    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    # A shell may lose a signal that comes just before its `wait`; between commands it loses none.
    script = "trap 'kill -USR1 $PPID' TERM; echo; while :; do sleep 0.1; done"
    children_before = children()
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with (
            pytest.raises(KeyboardInterrupt),
            supervisor.started(shell(script), pipes=True, grace_s=3600.0) as child,
        ):
            child.read_line("that it listens", LIMIT_S)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert children() <= children_before


def test_what_a_process_leaves_behind_holds_up_nobody() -> None:
    # It has the stdout of the process that ended, and keeps it open.
    done = supervisor.finished(shell("sleep 86400 & echo $!"), limit_s=LIMIT_S)
    assert done.code == 0
    gone(int(done.output))


def test_a_server_is_ended_with_what_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "GRACE_S", 0.1)
    ready = '{"schema": "trilane.serve/1", "ready": true, "pid": %d, "http": "", "https": "", '
    script = f"""{DEAF}sleep 86400 & printf '{ready}"cacert": ""}}\\n' $!; wait"""
    monkeypatch.setattr(servers, "PROGRAM", shell(script))
    with servers.embedded(threads=1, cpus=None, state=None) as server:
        assert is_alive(server.pid)
    gone(server.pid)


def test_one_that_ends_when_its_stdin_closes_gets_no_signal(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = "trap 'echo killed >&2' TERM; echo; read line; echo ended >&2"
    command = shell(script)
    with supervisor.started(
        command, pipes=True, log=log, grace_s=LIMIT_S, ends_with_stdin=True
    ) as child:
        child.read_line("that it listens", LIMIT_S)
    assert log.read_text() == "ended\n"


def test_a_process_that_does_not_read_is_not_waited_for() -> None:
    with (
        supervisor.started(["sleep", "86400"], pipes=True) as child,
        pytest.raises(Late, match=r"did not read its stdin within 0\.1 s"),
    ):
        # More than a pipe holds.
        child.write_line(b"x" * (1 << 21), 0.1)


def test_a_process_that_says_nothing_is_not_waited_for() -> None:
    script = "echo 'error: the door is locked' >&2; echo first; exec sleep 86400"
    with supervisor.started(shell(script), pipes=True) as child:
        assert child.read_line("something", LIMIT_S) == b"first"
        with pytest.raises(Late, match=r"^did not say more within 0\.1 s: the door is locked$"):
            child.read_line("more", 0.1)
        assert str(child.late(1.0)) == "did not end within 1 s: the door is locked"


def test_one_that_ends_early_is_told_with_its_code_and_its_own_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("error: words of an earlier one\n")
    # Its stdout closes long before it has said why.
    script = "exec >&-; head -c 4000000 /dev/zero >&2; echo >&2; echo 'error: no room' >&2; exit 3"
    with (
        supervisor.started(shell(script), pipes=True, log=log) as child,
        pytest.raises(Ended, match=r"^ended with exit code 3 without saying a word: no room$"),
    ):
        child.read_line("a word", LIMIT_S)
    with (
        supervisor.started(shell("kill -9 $$"), pipes=True, log=log) as child,
        pytest.raises(Ended, match=r"^ended with signal 9 without saying a word$"),
    ):
        child.read_line("a word", LIMIT_S)


def test_a_process_runs_on_its_cpus_from_the_start() -> None:
    ours = os.sched_getaffinity(0)
    last = max(ours)
    ask = "import os; print(*os.sched_getaffinity(0))"
    command = [sys.executable, "-I", "-S", "-c", ask]
    with supervisor.started(command, cpus=[last]) as child:
        assert child.wait(LIMIT_S)
        assert child.output().split() == [str(last).encode()]
    assert os.sched_getaffinity(0) == ours


def test_what_cannot_be_started_is_said_and_nothing_is_left() -> None:
    before = children()
    for command, cpus, why in [
        (["/nowhere/x"], None, "/nowhere/x: No such file"),
        (["sleep", "86400"], [100_000], "Invalid argument"),
    ]:
        with (
            pytest.raises(NotStarted, match=f"does not start: .*{why}"),
            supervisor.started(command, cpus=cpus),
        ):
            pass
    assert children() == before


def test_bytes_are_read_as_they_come_until_there_are_no_more() -> None:
    script = "printf '\\000\\377'; read -r line; printf %s \"$line\"; exit 3"
    with supervisor.started(shell(script), pipes=True) as child:
        assert child.read("two bytes", LIMIT_S) == b"\0\xff"
        assert child.read("more", 0.0) is None
        child.write(b"and", LIMIT_S)
        child.write(b" more\n", LIMIT_S)
        assert child.read("more", LIMIT_S) == b"and more"
        with pytest.raises(Ended, match="ended with exit code 3 without saying what it was for"):
            child.read("what it was for", LIMIT_S)


def test_what_is_fed_keeps_what_it_says() -> None:
    with supervisor.started(["/bin/cat"], fed=True) as child:
        child.write(b"a" * 1_000_000, LIMIT_S)
        child.close_stdin()
        assert child.wait(LIMIT_S)
        assert child.output() == b"a" * 1_000_000


def test_what_is_shown_has_our_output_and_our_group(capfd: pytest.CaptureFixture[str]) -> None:
    script = "cat; echo oops >&2; cut -d' ' -f5 /proc/$$/stat"
    with supervisor.started(shell(script), fed=True, shown=True) as child:
        child.write(b"said\n", LIMIT_S)
        child.close_stdin()
        assert child.wait(LIMIT_S)
    said = capfd.readouterr()
    assert said.out == f"said\n{os.getpgrp()}\n"
    assert said.err == "oops\n"


def test_what_is_shown_is_ended_without_its_group() -> None:
    """Its group is ours: a signal to all of it would end the tests."""
    with supervisor.started(shell(f"{DEAF}sleep 86400"), shown=True, grace_s=0.1) as child:
        assert is_alive(child.pid)
    assert not is_alive(child.pid)


def test_a_process_is_killed_at_once() -> None:
    with supervisor.started(shell(f"{DEAF}echo; sleep 86400"), pipes=True, grace_s=3600.0) as child:
        child.read_line("that it listens to nothing", LIMIT_S)
        child.kill()
        assert child.wait(LIMIT_S)
        assert child.reap().code == -signal.SIGKILL
