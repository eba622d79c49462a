"""Facts about this machine, for the ledger, and which CPUs a race may pin to."""

from __future__ import annotations

import os
import platform

from trilane.lab.model.documents import Json
from trilane.lab.processes.proc import Machine

_HERE = Machine()


def facts() -> Json:
    """CPU, kernel and interpreter; None where the system does not say."""
    return {
        "cpu": _HERE.cpu_model() or platform.processor() or None,
        "cpus_usable": len(usable_cpus()),
        "governor": _HERE.governor(),
        "kernel": f"{platform.system()} {platform.release()}",
        "tcp_congestion_control": congestion_control(),
        "python": platform.python_version(),
    }


def congestion_control() -> str | None:
    """What the kernel gives a socket of TCP of which nothing else is said."""
    return _HERE.congestion_control()


def usable_cpus() -> list[int]:
    """CPUs that this process may run on."""
    return sorted(os.sched_getaffinity(0))


def _one_cpu_per_core(cpus: list[int]) -> list[int]:
    """`cpus` ordered so that no two of the first ones share a physical core."""
    seen: set[str] = set()
    first: list[int] = []
    siblings: list[int] = []
    for cpu in cpus:
        core = _HERE.core(cpu)
        (siblings if core in seen else first).append(cpu)
        seen.add(core)
    return first + siblings


def split_cpus(threads: int) -> tuple[list[int], list[int]] | None:
    """CPUs for the server and for the client, `threads` each; None when there are too few."""
    cpus = _one_cpu_per_core(usable_cpus())
    if len(cpus) < 2 * threads:
        return None
    return sorted(cpus[:threads]), sorted(cpus[threads : 2 * threads])


def may_use_congestion_control(name: str) -> bool:
    """Whether the kernel lets this process choose that TCP congestion control."""
    return name in _HERE.congestion_controls(privileged=os.geteuid() == 0)
