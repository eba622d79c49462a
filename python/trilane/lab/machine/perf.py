"""Profiles by Linux's perf: whether it may sample here, and what its samples say.

`perf script` prints a head for each sample, then its functions, the innermost first, then an empty
line:

    worker-0  7310/7324
                f82ec read (/usr/lib/x86_64-linux-gnu/libc.so.6)
              20d7860 std::fs::read_to_string (/usr/bin/trilane)
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trilane.lab.model.profile import Code, Frame
from trilane.lab.processes import supervisor
from trilane.lab.processes.launch import find_program
from trilane.lab.processes.supervisor import ProcessFailed

PER_S = 199
"""Samples per second of a processor's time: no divisor of the timers of programs."""
# The copied stacks of each sample are 8 KiB.
_LONGEST_S = 10
_READY_S = 10.0
_READ_S = 120.0
_MOST_DEPTH = 80
_LONGEST_NAME = 200
_LEAST_SHARE = 1 / 200
_HEAD = re.compile(r"\S.*?\s(?P<pid>\d+)/\d+\s*:?\s*")
_FRAME = re.compile(r"\s+[0-9a-f]+ (?P<name>.*) \((?P<file>[^()]*|\[.*\])\)")
_UNKNOWN = "[unknown]"


class NoProfile(RuntimeError):
    """There are no samples; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Stack:
    """One sample."""

    pid: int
    functions: tuple[tuple[str, Code], ...]
    """The outermost first."""


def refusal(root: Path = Path("/"), *, is_root: bool | None = None) -> str | None:
    """Why perf may not sample here, and the way out; None where it may."""
    if find_program("perf") is None:
        return (
            "perf is not installed: sudo apt-get install linux-perf (Ubuntu: linux-tools-generic)"
        )
    try:
        setting = (root / "proc/sys/kernel/perf_event_paranoid").read_text(encoding="ascii")
        level = int(setting)
    except (OSError, ValueError):
        return "this kernel has no perf events"
    user_is_root = os.geteuid() == 0 if is_root is None else is_root
    # From 3 on, which is a patch of Debian's and Ubuntu's, users sample nothing.
    if level > 2 and not user_is_root:
        return (
            f"kernel.perf_event_paranoid is {level}, which forbids perf to all but root: "
            "sudo sysctl kernel.perf_event_paranoid=1"
        )
    return None


@contextmanager
def sampling(pids: Sequence[int], file: Path) -> Iterator[None]:
    """Sample processes, and those that they start from now on, into a file, for 10 s at most.

    Raises:
        NoProfile: perf did not begin.
    """
    perf = find_program("perf") or "perf"
    record = [
        *(perf, "record", "--quiet", "-F", str(PER_S), "--call-graph", "dwarf"),
        *("-o", str(file), "-p", ",".join(map(str, pids)), "--control", "fd:0,1"),
        *("-D", "-1", "--", "sleep", str(_LONGEST_S)),
    ]
    try:
        with supervisor.started(record, pipes=True, grace_s=_READ_S) as child:
            child.write_line(b"enable", _READY_S)
            child.read_line("that it samples", _READY_S)
            yield
            # By a signal it may end before its file is whole.
            if not child.wait(0.0):
                child.write_line(b"stop", _READY_S)
                if not child.wait(_READ_S):
                    raise child.late(_READ_S)
    except ProcessFailed as error:
        raise NoProfile(f"perf record {error}") from error


def stacks(file: Path) -> list[Stack]:
    """The samples in a file.

    Raises:
        NoProfile: there are none.
    """
    perf = find_program("perf") or "perf"
    # Names of inlined functions take addr2line minutes.
    script = [perf, "script", "--no-inline", "-F", "comm,pid,tid,ip,sym,dso", "-i", str(file)]
    try:
        done = supervisor.finished(script, limit_s=_READ_S)
    except ProcessFailed as error:
        raise NoProfile(f"perf script {error}") from error
    if done.code != 0:
        raise NoProfile(f"perf script: {done.why()}")
    return parsed(done.output.decode(errors="replace"))


def parsed(text: str) -> list[Stack]:
    """The samples that `perf script` printed; the last may be cut short, and lines may be odd."""
    found: list[Stack] = []
    pid: int | None = None
    functions: list[tuple[str, Code]] = []
    for line in (*text.splitlines(), ""):
        if not line.strip():
            if pid is not None and functions:
                found.append(Stack(pid, tuple(functions[::-1][:_MOST_DEPTH])))
            pid, functions = None, []
        elif (head := _HEAD.fullmatch(line)) is not None:
            pid = int(head["pid"])
        elif (frame := _FRAME.fullmatch(line)) is not None:
            name, file = frame["name"], frame["file"]
            called = _function(name, file)
            # What unwinding ends in where it is lost; and functions without names, one in another.
            lost = name == file == _UNKNOWN
            if not lost and not (name == _UNKNOWN and functions[-1:] == [called]):
                functions.append(called)
    return found


def _function(name: str, file: str) -> tuple[str, Code]:
    if name == _UNKNOWN:
        name = f"[{Path(file).name.strip('[]')}]"
    kernel = file.startswith("[kernel") or file.endswith((".ko", ".ko.xz", ".ko.zst"))
    library = ".so" in Path(file).name or file.startswith("[vdso")
    return name[:_LONGEST_NAME], "kernel" if kernel else "library" if library else "program"


@dataclass(slots=True)
class _Node:
    """A function under its callers."""

    code: Code
    samples: int = 0
    called: dict[str, _Node] = field(default_factory=dict)


def frames(sampled: Sequence[Stack]) -> list[Frame]:
    """Samples added up: a function once below the same callers, the names in order."""
    root = _Node("program", len(sampled))
    for stack in sampled:
        node = root
        for name, code in stack.functions:
            node = node.called.setdefault(name, _Node(code))
            node.samples += 1
    return list(_laid_out(root, 0, 0, _LEAST_SHARE * len(sampled)))


def _laid_out(node: _Node, depth: int, start: int, least: float) -> Iterator[Frame]:
    for name, below in sorted(node.called.items()):
        if below.samples >= least:
            yield Frame(name=name, code=below.code, depth=depth, start=start, samples=below.samples)
            yield from _laid_out(below, depth + 1, start, least)
        start += below.samples


@contextmanager
def scratch() -> Iterator[Path]:
    """A file for samples, which goes with the context."""
    with tempfile.TemporaryDirectory(prefix="trilane-") as folder:
        yield Path(folder) / "perf.data"
