"""A client process as seen from outside: time, CPU, memory, context switches, bytes on the wire.

CPU
    The kernel's clock of the process (`clock_getcpuclockid(3)`): nanoseconds, all threads, ended
    ones included. Children are added once they have been waited for (`wait4(2)`).
Context switches
    `getrusage(2)` of the process and its children at their end, less what `/proc` told when the
    workload began.
Memory
    The high-water mark of the process's own pages (`VmHWM`), or the largest sum over the process
    and its descendants seen ten times a second. `ru_maxrss` would tell the memory of the process
    that forked it.
Wire
    Bytes that the loopback interface received, headers of all layers included, from the first
    request to the last response. It counts everything on the interface: nothing else may use it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from trilane.lab.model.contender import ContextSwitches, Process

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
_POLL_S = 0.1
# From <linux/posix-timers_types.h>: the scheduler's clock of a whole process.
_CPUCLOCK_SCHED = 2
LOOPBACK = "lo"


@dataclass(frozen=True, slots=True)
class Instant:
    """Counters of a process at one instant."""

    at: float
    cpu_s: float
    """CPU of the process itself, all threads."""
    user_s: float
    system_s: float
    voluntary: int
    involuntary: int
    wire: int | None

    @classmethod
    def zero(cls, at: float) -> Instant:
        """The counters of a process that has not begun."""
        return cls(at, 0.0, 0.0, 0.0, 0, 0, None)


@dataclass(slots=True)
class Watch:
    """Watches one process that this one started and has not waited for yet."""

    pid: int
    begun: float = field(default_factory=time.monotonic)
    _peak: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _poller: threading.Thread | None = None

    def instant(self) -> Instant:
        """Read all counters now."""
        user, system = _stat_seconds(self.pid)
        voluntary, involuntary = _switches(self.pid)
        return Instant(
            at=time.monotonic(),
            cpu_s=time.clock_gettime(_process_clock(self.pid)),
            user_s=user,
            system_s=system,
            voluntary=voluntary,
            involuntary=involuntary,
            wire=interface_bytes(),
        )

    def follow_memory(self) -> None:
        """Begin to sum the memory of the process and its descendants."""

        def poll() -> None:
            while not self._stop.wait(_POLL_S):
                self._peak = max(self._peak, sum(map(_resident, _family(self.pid))))

        self._poller = threading.Thread(target=poll, daemon=True, name="memory")
        self._poller.start()

    def peak(self) -> int | None:
        """Peak resident memory so far, in bytes; ask while the process lives."""
        own = _high_water(self.pid)
        return max(self._peak, own or 0) or None

    def has_ended(self) -> bool:
        """Whether the process has ended; it stays to be reaped by `end`."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, flags) is not None

    def end(self) -> Ending:
        """Wait for the process to have ended (the caller makes sure that it does), and reap it."""
        self._stop.set()
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        at = time.monotonic()
        own = time.clock_gettime(_process_clock(self.pid))
        _, status, usage = os.wait4(self.pid, 0)
        return Ending(
            code=os.waitstatus_to_exitcode(status),
            wall_s=at - self.begun,
            own_s=own,
            usage=usage,
        )


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known of a process that has ended."""

    code: int
    wall_s: float
    own_s: float
    """CPU of the process without its children."""
    usage: resource.struct_rusage

    @property
    def children_s(self) -> float:
        """CPU of the children that it waited for."""
        return max(0.0, self.usage.ru_utime + self.usage.ru_stime - self.own_s)

    def process(self, ready: Instant, peak_rss: int | None, started: float) -> Process:
        """What a run tells of its process."""
        user, system = self.usage.ru_utime, self.usage.ru_stime
        return Process(
            wall_s=self.wall_s,
            startup_s=max(0.0, ready.at - started),
            user_s=user,
            system_s=system,
            cpu_percent=100 * (user + system) / self.wall_s if self.wall_s else None,
            context_switches=ContextSwitches(
                voluntary=max(0, self.usage.ru_nvcsw - ready.voluntary),
                involuntary=max(0, self.usage.ru_nivcsw - ready.involuntary),
            ),
            peak_rss_bytes=peak_rss,
        )


def interface_bytes(interface: str = LOOPBACK) -> int | None:
    """Bytes received on an interface so far; None where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (_PROC / "net/dev").read_text(encoding="ascii").splitlines():
            name, _, counters = line.partition(":")
            if name.strip() == interface:
                return int(counters.split()[0])
    return None


def _process_clock(pid: int) -> int:
    return (~pid << 3) | _CPUCLOCK_SCHED


def _stat_seconds(pid: int) -> tuple[float, float]:
    # proc(5): utime and stime are fields 14 and 15; after the name in brackets comes field 3.
    text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    fields = text.rpartition(")")[2].split()
    return int(fields[11]) / _TICKS, int(fields[12]) / _TICKS


def _switches(pid: int) -> tuple[int, int]:
    voluntary = involuntary = 0
    for task in (_PROC / str(pid) / "task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for line in (task / "status").read_text(errors="replace").splitlines():
                if line.startswith("voluntary_ctxt_switches:"):
                    voluntary += int(line.split()[1])
                elif line.startswith("nonvoluntary_ctxt_switches:"):
                    involuntary += int(line.split()[1])
    return voluntary, involuntary


def _status_bytes(pid: int, name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in (_PROC / str(pid) / "status").read_text(errors="replace").splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return None


def _high_water(pid: int) -> int | None:
    return _status_bytes(pid, "VmHWM:")


def _resident(pid: int) -> int:
    return _status_bytes(pid, "VmRSS:") or 0


def _family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError, ValueError):
            for task in (_PROC / str(parent) / "task").iterdir():
                children = (task / "children").read_text(encoding="ascii").split()
                found += [int(child) for child in children if int(child) not in found]
    return found
