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
    Bytes that the client's network interface carried, headers of all layers included, from the
    first request to the last response. It counts everything on the interface: nothing else may
    use it.
"""

from __future__ import annotations

import resource
import threading
import time
from dataclasses import dataclass, field

from trilane.lab.model.contender import ContextSwitches, Process
from trilane.lab.processes import proc
from trilane.lab.processes.proc import LOOPBACK, Interface
from trilane.lab.processes.supervisor import Child

_POLL_S = 0.1
# A short run is over before a slow look at its memory.
_EARLY_S = 1.0
_EARLY_POLL_S = 0.002
_LATER_POLL_S = 0.02


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


@dataclass(slots=True)
class Watch:
    """Watches a process from outside, until it is closed."""

    child: Child
    interface: Interface = LOOPBACK
    begun: float = field(default_factory=time.monotonic)
    _peak: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _poller: threading.Thread | None = None

    def close(self) -> None:
        """Watch no longer."""
        self._stop.set()
        if self._poller:
            self._poller.join()

    def instant(self) -> Instant:
        """Read all counters now; raises OSError when the process is gone."""
        pid = self.child.pid
        user, system = proc.cpu_seconds(pid)
        voluntary, involuntary = proc.context_switches(pid)
        return Instant(
            at=time.monotonic(),
            cpu_s=proc.exact_cpu_seconds(pid),
            user_s=user,
            system_s=system,
            voluntary=voluntary,
            involuntary=involuntary,
            wire=self.interface.carried_bytes(),
        )

    def follow_memory(self) -> None:
        """Begin to sum the memory of the process and its descendants."""

        def poll() -> None:
            while not self._stop.wait(_POLL_S):
                sizes = (proc.resident_bytes(pid) or 0 for pid in proc.family(self.child.pid))
                self._peak = max(self._peak, sum(sizes))

        self._poller = threading.Thread(target=poll, daemon=True, name="memory")
        self._poller.start()

    def peak(self) -> int | None:
        """Peak resident memory so far, in bytes; ask while the process lives."""
        own = proc.peak_resident_bytes(self.child.pid)
        return max(self._peak, own or 0) or None

    def until_end(self, limit_s: float) -> tuple[Ending, int | None]:
        """How the process ended, and its peak memory in bytes.

        `limit_s` are seconds since it began.

        Raises:
            Late: it has not ended by then.
        """
        peak: int | None = None
        while True:
            age_s = time.monotonic() - self.begun
            if self.child.wait(_EARLY_POLL_S if age_s < _EARLY_S else _LATER_POLL_S):
                return self.end(), peak
            peak = self.peak() or peak
            if age_s > limit_s:
                raise self.child.late(limit_s)

    def end(self) -> Ending:
        """How the process ended, which it has (`Child.wait`)."""
        at = time.monotonic()
        own_s = proc.exact_cpu_seconds(self.child.pid)
        exit_ = self.child.reap()
        return Ending(
            code=exit_.code,
            begun=self.begun,
            wall_s=at - self.begun,
            own_s=own_s,
            usage=exit_.usage,
        )


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known of a process that has ended."""

    code: int
    begun: float
    """When it was started, by the clock of `Instant.at`."""
    wall_s: float
    own_s: float
    """CPU of the process without its children."""
    usage: resource.struct_rusage

    @property
    def children_s(self) -> float:
        """CPU of the children that it waited for."""
        return max(0.0, self.usage.ru_utime + self.usage.ru_stime - self.own_s)

    def process(self, peak_rss: int | None, ready: Instant | None = None) -> Process:
        """What a run tells of its process; `ready` is when the workload began, if it is known."""
        user, system = self.usage.ru_utime, self.usage.ru_stime
        return Process(
            wall_s=self.wall_s,
            startup_s=0.0 if ready is None else max(0.0, ready.at - self.begun),
            user_s=user,
            system_s=system,
            cpu_percent=100 * (user + system) / self.wall_s if self.wall_s else None,
            context_switches=ContextSwitches(
                voluntary=max(0, self.usage.ru_nvcsw - (ready.voluntary if ready else 0)),
                involuntary=max(0, self.usage.ru_nivcsw - (ready.involuntary if ready else 0)),
            ),
            peak_rss_bytes=peak_rss,
        )
