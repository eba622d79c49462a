"""The only reader of /proc and /sys: what the kernel tells of processes, and of this machine.

Field numbers are those of proc(5). What a process tells is asked by its id; what the machine tells
is asked of `Machine`, whose root a test can put elsewhere. The guard of a server imports this
module without site-packages: it needs the standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
# From <linux/posix-timers_types.h>: the scheduler's clock of a whole process.
_CPUCLOCK_SCHED = 2
_CPU = "sys/devices/system/cpu"
_CLOCK_SOURCE = "sys/devices/system/clocksource/clocksource0/current_clocksource"


@dataclass(frozen=True, slots=True)
class Thread:
    """Counters of one thread since its start, in seconds."""

    cpu_s: float = 0.0
    waited_s: float = 0.0
    """Time for which it was ready to run and another program had the CPU."""


def exists(pid: int) -> bool:
    """Whether there is a process of that id, ended ones that were not waited for included."""
    return (_PROC / str(pid)).exists()


def cpu_seconds(pid: int) -> tuple[float, float]:
    """User and system CPU of a process in seconds, in steps of a clock tick.

    All threads are counted, ended ones included.

    Raises:
        OSError: the process is gone.
    """
    return _cpu_of(_PROC / str(pid) / "stat")


def exact_cpu_seconds(pid: int) -> float:
    """CPU of a process in seconds, exact to the nanosecond (clock_getcpuclockid(3)).

    All threads are counted, ended ones included, and children are not.

    Raises:
        OSError: the process is gone.
    """
    return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)


def threads(pid: int) -> dict[str, Thread]:
    """Counters of the live threads of a process, by thread id; raises OSError when it is gone."""
    found = {}
    for task in _tasks(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found[task.name] = _thread(task)
    return found


def context_switches(pid: int) -> tuple[int, int]:
    """Voluntary and involuntary switches of the live threads of a process.

    Raises:
        OSError: the process is gone.
    """
    voluntary = involuntary = 0
    for task in _tasks(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            told = _pairs(task / "status")
            voluntary += int(told.get("voluntary_ctxt_switches", 0))
            involuntary += int(told.get("nonvoluntary_ctxt_switches", 0))
    return voluntary, involuntary


def resident_bytes(pid: int) -> int | None:
    """Resident memory of a process now; None when it is gone."""
    return _bytes(_PROC / str(pid) / "status", "VmRSS")


def peak_resident_bytes(pid: int) -> int | None:
    """The most resident memory that a process had at once so far; None when it is gone."""
    return _bytes(_PROC / str(pid) / "status", "VmHWM")


def umask(pid: int) -> int | None:
    """The mode bits that files of a process do not get; None where nothing tells."""
    try:
        return int(_pairs(_PROC / str(pid) / "status")["Umask"], 8)
    except (OSError, KeyError):
        return None


def family(pid: int) -> list[int]:
    """A process and its descendants, cheaply enough to be asked while something is measured.

    The kernel may leave out a child that begins or ends meanwhile: `descendants` does not.
    """
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError, ValueError):
            for task in _tasks(parent):
                children = (task / "children").read_text(encoding="ascii").split()
                found += [int(child) for child in children if int(child) not in found]
    return found


def descendants(pid: int) -> list[int]:
    """Ids of the children of a process, of their children and so on; zombies included.

    Every process of the machine is looked at, so that none is left out.
    """
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The parent is field 4.
                parent = int(_after_name(entry / "stat")[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    unseen = [pid]
    while unseen:
        below = children.get(unseen.pop(), [])
        found += below
        unseen += below
    return found


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface, here or in another network namespace."""

    name: str
    table: Path = _PROC / "net/dev"
    """The table of the interfaces beside it (proc(5))."""

    def carried_bytes(self) -> int | None:
        """Bytes that it has received and sent so far, headers of all layers included.

        What the loopback interface sends it receives, and is counted once. None where there is no
        such interface.
        """
        try:
            table = self.table.read_text(encoding="ascii")
        except OSError:
            return None
        for line in table.splitlines():
            name, _, counters = line.partition(":")
            if name.strip() == self.name:
                # Eight counters of what was received, then of what was sent.
                received, sent = (int(counters.split()[at]) for at in (0, 8))
                return received if self.name == LOOPBACK.name else received + sent
        return None


LOOPBACK = Interface("lo")
"""The interface of 127.0.0.1."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the kernel tells of the machine; None for what it does not tell."""

    root: Path = Path("/")

    def cpu_seconds(self) -> float | None:
        """CPU in user and system mode of everything since the start of the machine, in seconds.

        Time for interrupts belongs to no program and is left out.
        """
        ticks = self._cpu_ticks()
        return None if ticks is None else sum(ticks[:3]) / _TICKS

    def steal(self) -> float | None:
        """Share of all CPU time that the hypervisor gave to others, from 0 to 1."""
        ticks = self._cpu_ticks()
        if ticks is None or len(ticks) < 8 or not sum(ticks[:8]):
            return None
        return ticks[7] / sum(ticks[:8])

    def load_average(self) -> float | None:
        """Runnable threads over the last minute."""
        words = self._words("proc/loadavg")
        return float(words[0]) if words else None

    def available_memory(self) -> int | None:
        """Memory that programs can have without swapping, in bytes."""
        return _bytes(self.root / "proc/meminfo", "MemAvailable")

    def cpu_model(self) -> str | None:
        """What the processor calls itself."""
        for line in (self._read("proc/cpuinfo") or "").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model", "cpu model"):
                return value.strip()
        return None

    def cpu_quota(self) -> float | None:
        """CPUs that the control group may use; None when it may use all."""
        words = self._words("sys/fs/cgroup/cpu.max")
        if len(words) != 2 or words[0] == "max":
            return None
        return int(words[0]) / int(words[1])

    def core(self, cpu: int) -> str:
        """A name for the physical core of a CPU, the same for its siblings."""
        return self._read(f"{_CPU}/cpu{cpu}/topology/thread_siblings_list") or str(cpu)

    def governor(self) -> str | None:
        """What sets the clock of the first CPU, such as `performance`."""
        return self._read(f"{_CPU}/cpu0/cpufreq/scaling_governor")

    def turbo(self) -> tuple[bool, str] | None:
        """Whether turbo is on, and the command that ends it."""
        if (none := self._number(f"{_CPU}/intel_pstate/no_turbo")) is not None:
            return none == 0, f"echo 1 | sudo tee /{_CPU}/intel_pstate/no_turbo"
        if (boost := self._number(f"{_CPU}/cpufreq/boost")) is not None:
            return boost == 1, f"echo 0 | sudo tee /{_CPU}/cpufreq/boost"
        return None

    def clock_source(self) -> tuple[str | None, str]:
        """Name of the kernel's clock, and the file that sets it."""
        return self._read(_CLOCK_SOURCE), f"/{_CLOCK_SOURCE}"

    def local_ports(self) -> tuple[int, int] | None:
        """First and last of the ports that connections are given."""
        words = self._words("proc/sys/net/ipv4/ip_local_port_range")
        return (int(words[0]), int(words[1])) if len(words) == 2 else None

    def congestion_control(self) -> str | None:
        """What the kernel gives to TCP sockets that ask for nothing."""
        return self._read("proc/sys/net/ipv4/tcp_congestion_control")

    def congestion_controls(self, *, privileged: bool) -> list[str]:
        """The controllers that a process may choose: all for root, the allowed ones for others."""
        listed = "available" if privileged else "allowed"
        return self._words(f"proc/sys/net/ipv4/tcp_{listed}_congestion_control")

    def udp_buffer(self, direction: str) -> int | None:
        """Bytes that a socket may have as its buffer; `direction` is `rmem` or `wmem`."""
        return self._number(f"proc/sys/net/core/{direction}_max")

    def mtu(self, interface: str) -> int | None:
        """The largest packet of an interface, in bytes."""
        return self._number(f"sys/class/net/{interface}/mtu")

    def _cpu_ticks(self) -> list[int] | None:
        # cpu user nice system idle iowait irq softirq steal ...
        name, *ticks = (self._read("proc/stat") or "").partition("\n")[0].split() or [""]
        return [int(word) for word in ticks] if name == "cpu" and len(ticks) >= 3 else None

    def _words(self, path: str) -> list[str]:
        return (self._read(path) or "").split()

    def _number(self, path: str) -> int | None:
        try:
            return int(self._read(path) or "")
        except ValueError:
            return None

    def _read(self, path: str) -> str | None:
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None


def _tasks(pid: int) -> Iterator[Path]:
    return (_PROC / str(pid) / "task").iterdir()


def _thread(task: Path) -> Thread:
    try:
        ran, waited, *_ = (task / "schedstat").read_text(encoding="ascii").split()
    except FileNotFoundError:
        # A kernel without CONFIG_SCHED_INFO.
        return Thread(sum(_cpu_of(task / "stat")))
    return Thread(int(ran) / 1e9, int(waited) / 1e9)


def _cpu_of(stat: Path) -> tuple[float, float]:
    # utime and stime are fields 14 and 15.
    fields = _after_name(stat)
    return int(fields[11]) / _TICKS, int(fields[12]) / _TICKS


def _after_name(stat: Path) -> list[str]:
    """The fields from the third on: the second, a name in brackets, may hold spaces."""
    return stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _pairs(path: Path) -> Mapping[str, str]:
    """The lines `Name: value` of a file; raises OSError."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _bytes(path: Path, name: str) -> int | None:
    """A size that the kernel tells in KiB; None where it is not told."""
    try:
        return int(_pairs(path)[name].split()[0]) * 1024
    except (OSError, KeyError):
        return None
