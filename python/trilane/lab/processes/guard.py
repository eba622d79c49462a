"""Keeps one server, and leaves nothing of it behind, whatever becomes of the lab.

`launch` runs `main` with the arguments SIGNAL GRACE_S CPUS COMMAND... in a process of its own,
because only that outlives a lab that is killed, and without site-packages, so that it starts at
once. It stands beside the traffic, not in it.

Its stdin closes when the lab ends, by whatever means. Then the server's process group gets SIGNAL,
and after GRACE_S seconds everything that descends from it gets SIGKILL. The guard is
the subreaper of its descendants (prctl(2)), so that workers of a dead master and daemons that left
the group are found too. Should the guard itself be killed, the kernel sends SIGNAL to the server
(PR_SET_PDEATHSIG); what the server does not take down with it then stays.

stdout: one JSON object per line: `{"pid": n}` or `{"cannot": "why"}`, at the end `{"exit": code}`
(negative: the number of the signal).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import time
from collections.abc import Sequence

from trilane.lab.processes import proc

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_KILL_PATIENCE_S = 5.0
_POLL_S = 0.02


def main(arguments: Sequence[str]) -> int:
    """Start the server, wait for its end or ours, clear up."""
    stop_signal = signal.Signals[arguments[0]]
    grace_s = float(arguments[1])
    if arguments[2]:
        os.sched_setaffinity(0, [int(cpu) for cpu in arguments[2].split(",")])
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # The wake-up descriptor tells; a handler only keeps the default action away.
        signal.signal(number, lambda *_: None)
    try:
        child = _start(arguments[3:], stop_signal)
    except OSError as error:
        _say({"cannot": f"{error.filename or arguments[3]}: {error.strerror}"})
        return 1
    _say({"pid": child})
    ended = _wait(child, woken)
    code = ended if ended is not None else _stop(child, stop_signal, grace_s)
    _kill_the_rest()
    _say({"exit": code})
    return 0


def _start(command: Sequence[str], death_signal: int) -> int:
    guard = os.getpid()
    failed, fail = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            # Python ignores SIGPIPE, and programs inherit what is ignored.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            _prctl(_PR_SET_PDEATHSIG, death_signal)
            if os.getppid() != guard:
                os._exit(127)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.dup2(2, 1)
            os.execvp(command[0], list(command))  # noqa: S606 - no shell is what we want
        except OSError as error:
            os.write(fail, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(fail)
    with os.fdopen(failed, "rb") as pipe:
        number = pipe.read()
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)), command[0])
    return pid


def _wait(child: int, woken: int) -> int | None:
    """The exit code of the server when it ends by itself, None when it is to be stopped."""
    while True:
        readable, _, _ = select.select([0, woken], [], [])
        if woken in readable:
            numbers = os.read(woken, 4096)
            # SIGINT reaches those at the terminal; the lab decides what it means.
            if signal.SIGTERM in numbers or signal.SIGHUP in numbers:
                return None
            code = _reap(child)
            if code is not None:
                return code
        if 0 in readable and not os.read(0, 4096):
            return None


def _stop(child: int, stop_signal: int, grace_s: float) -> int:
    _signal_group(child, stop_signal)
    deadline = time.monotonic() + grace_s
    code = None
    while time.monotonic() < deadline:
        ended = _reap(child)
        code = ended if code is None else code
        if code is not None and not proc.descendants(os.getpid()):
            return code
        time.sleep(_POLL_S)
    _signal_group(child, signal.SIGKILL)
    return code if code is not None else -signal.SIGKILL


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _kill_the_rest() -> None:
    deadline = time.monotonic() + _KILL_PATIENCE_S
    while time.monotonic() < deadline:
        _reap(-1)
        left = proc.descendants(os.getpid())
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def _reap(child: int) -> int | None:
    """Take in every descendant that has ended; the exit code of `child` if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            found = os.waitstatus_to_exitcode(status)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "prctl")


def _say(event: dict[str, object]) -> None:
    # The lab may be gone; then nobody needs to know.
    with contextlib.suppress(BrokenPipeError):
        os.write(1, json.dumps(event).encode() + b"\n")
