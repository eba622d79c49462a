"""System calls per request, counted by strace in runs that measure nothing else.

Two runs are counted, of which the second sends twice as many requests: in their difference the
start of the process, the handshakes and the end cancel out.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.model.contender import Syscalls

_MOST = 100


def available() -> bool:
    """Whether strace is here."""
    return shutil.which("strace") is not None


def per_request(count: Callable[[int], int], requests: int | None) -> Syscalls | None:
    """What a run tells of system calls; None without strace.

    `count` runs the client with that many requests under strace and tells its system calls.
    """
    if not available():
        return None
    few = min(requests or _MOST, _MOST)
    first, second = count(few), count(2 * few)
    return Syscalls(per_request=max(0.0, (second - first) / few), requests=few)


def count(run: Callable[[Sequence[str]], Any]) -> int:
    """System calls of the program that `run` starts behind the prefix it is given."""
    with tempfile.TemporaryDirectory(prefix="trilane-") as scratch:
        summary = Path(scratch) / "calls"
        run(["strace", "-f", "-qq", "-c", "-S", "calls", "-o", str(summary), "--"])
        try:
            return total(summary.read_text(encoding="utf-8", errors="replace"))
        except OSError as error:
            raise RunFailed(f"strace left no count: {error}") from error


def total(summary: str) -> int:
    """The number of calls in the last line of `strace -c`."""
    for line in reversed(summary.splitlines()):
        words = line.split()
        # % time, seconds, usecs/call, calls, [errors,] total
        if words and words[-1] == "total" and len(words) >= 4:
            return int(words[3])
    raise RunFailed("strace left no count: it may not trace here (ptrace is forbidden)")
