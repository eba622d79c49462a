"""What a run cost outside the load process: our server's CPU, and that of all other programs.

Server CPU per request
    The kernel's clocks of the server's processes (`clock_getcpuclockid(3)`: nanoseconds, ended
    threads included) are read before and after each run, so they cover the run's handshakes and
    warm-up as well. They are divided by all requests of the run, warm-up included: numerator and
    denominator span the same time.
Others
    CPU time of the whole machine less the server's, the load's and ours: on a busy machine neither
    end is at its limit and still both are slow.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trilane.lab.model.run import Run
from trilane.lab.model.sample import ServerCost
from trilane.lab.processes import proc
from trilane.lab.processes.place import HERE, Place
from trilane.lab.processes.proc import Thread

# Shares of less are noise: the counters of a process step by 10 ms.
_SHORTEST_S = 0.1


@dataclass(frozen=True, slots=True)
class _Reading:
    """Counters at one instant, in seconds."""

    at: float
    threads: Mapping[str, Thread]
    """The threads of the server."""
    server: float
    """CPU of the server's processes, ended threads included."""
    mine: float
    """CPU of this process and of the children it has waited for: the loads."""
    machine: float
    """CPU of everything in user and system mode; time for interrupts belongs to no program."""
    cpus: int
    """CPUs of the machine."""
    peak_rss: int | None
    """The most memory that the server's processes have had, each at its own time."""


class Meter:
    """CPU of a server and of the machine between two instants."""

    def __init__(
        self, pids: Sequence[int], cpus: int, ours: Sequence[int] = (), place: Place = HERE
    ) -> None:
        """Watch the processes `pids` on `cpus` CPUs; those in `ours` are never called others.

        `place` is where they run.
        """
        self._pids = list(pids)
        self._cpus = cpus
        self._ours = list(ours)
        self._place = place
        self._before: _Reading | None = None
        self._after: _Reading | None = None

    def start(self) -> None:
        """A run begins."""
        self._before, self._after = self._read(), None

    def end(self) -> None:
        """The run has ended, and its client may go on for a while."""
        self._after = self._read()

    def stop(self, run: Run | None, client_s: float = 0.0) -> ServerCost | None:
        """What was spent from `start` to `end`, or to now where `end` was not called.

        `client_s` is the CPU of a client that has not been waited for yet. None when the server is
        gone or the run left no count.
        """
        before, after = self._before, self._after or self._read()
        if before is None or after is None or run is None:
            return None
        wall = after.at - before.at
        threads = [
            (thread, before.threads.get(task, Thread())) for task, thread in after.threads.items()
        ]
        # Not the sum over the threads, of which some may have come and gone meanwhile, as where a
        # server has one for each connection.
        cpu_s = after.server - before.server
        mine = after.mine - before.mine + client_s
        others_s = after.machine - before.machine - cpu_s - mine
        requests = run.requests.started + run.requests.warmup.started
        return ServerCost(
            cpu_s=cpu_s,
            requests=requests,
            cpu_us_per_request=1e6 * cpu_s / requests if requests else None,
            busy=self._busy(
                run,
                wall,
                # As for the client's workers: a thread kept from its CPU is busy, not idle.
                busiest=max(
                    (
                        now.cpu_s + now.waited_s - then.cpu_s - then.waited_s
                        for now, then in threads
                    ),
                    default=0.0,
                ),
                total=cpu_s,
            ),
            others_busy=min(1.0, max(0.0, others_s / (wall * after.cpus))),
            peak_rss_bytes=after.peak_rss,
        )

    def _busy(self, run: Run, wall: float, *, busiest: float, total: float) -> float | None:
        """How near the server was to its limit: its busiest thread, or all of them on its CPUs."""
        loaded = run.plan.duration_s or run.rate.window_s
        # The client's start and end are not load; a run never lasts longer than the wall clock saw.
        seconds = min(loaded + run.plan.warmup_s, wall)
        if seconds < _SHORTEST_S:
            return None
        return min(1.0, max(busiest, total / self._cpus) / seconds)

    def _read(self) -> _Reading | None:
        return self._place.call(_read, self._pids, self._ours)


def _read(pids: Sequence[int], ours: Sequence[int]) -> _Reading | None:
    """The counters now; None where a process is gone, or the kernel does not tell."""
    machine = proc.Machine().cpu_seconds()
    if machine is None:
        return None
    try:
        return _Reading(
            at=time.monotonic(),
            threads={task: thread for pid in pids for task, thread in proc.threads(pid).items()},
            server=sum(map(proc.exact_cpu_seconds, pids)),
            mine=_usage(resource.RUSAGE_SELF)
            + _usage(resource.RUSAGE_CHILDREN)
            + sum(sum(proc.cpu_seconds(pid)) for pid in ours),
            machine=machine,
            cpus=os.cpu_count() or 1,
            peak_rss=_peak(pids),
        )
    except OSError:
        return None


def _peak(pids: Sequence[int]) -> int | None:
    """The most memory of each process, added up."""
    peaks = [proc.peak_resident_bytes(pid) for pid in pids]
    known = [peak for peak in peaks if peak is not None]
    return sum(known) if known and len(known) == len(peaks) else None


def _usage(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime
