"""Checks of the hardware and the kernel: what makes numbers steady, and what limits them."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from functools import partial

from trilane.lab.machine import facts as machine
from trilane.lab.machine.host import Check, Host

_NETWORK = "Network"
_of_machine = partial(Check.judged, "Machine")
_of_limits = partial(Check.judged, "Limits")
_of_network = partial(Check.judged, _NETWORK)
_MIB = 1 << 20
# What the embedded server asks for on each UDP socket; the load engine asks for half of it.
_UDP_BUFFER = 8 * _MIB
_DESCRIPTORS = 65_536
_PORTS = 28_000
_LOW_MEMORY = 1 << 30
# METHOD §5: CPU steal above 2 % makes a run suspect.
_STEAL = 0.02
_LOADED = 0.25
_GOOD_CLOCKS = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "xen")
# Exit code of a network that is not what was asked for.
_INVALID = 4
# linux/udp.h
_UDP_SEGMENT, _UDP_GRO = 103, 104
_HIDDEN = "not shown (usual in a virtual machine)"


def checks(host: Host) -> Iterator[Check]:
    """All of them, in the order shown."""
    yield from _cpus(host)
    yield from _steadiness(host)
    yield from _load(host)
    yield from _limits(host)
    yield from _tcp(host)
    yield from _udp(host)
    yield _emulated(host)


def _cpus(host: Host) -> Iterator[Check]:
    usable, here = machine.usable_cpus(), os.cpu_count() or 1
    cores = {host.machine.core(cpu) for cpu in usable}
    yield _of_machine(
        "CPUs",
        len(cores) >= 4,
        f"{len(usable)} of {here} CPUs usable, {len(cores)} cores",
        "client and server need their own, and the rest of the system some",
        "use a machine, or give this container, 4 cores or more",
    )
    quota = host.machine.cpu_quota()
    if quota is not None:
        yield _of_machine(
            "CPU quota",
            quota >= len(usable),
            f"{quota:g} CPUs",
            "a throttled container stops for up to 100 ms at a time",
            "run without --cpus; use --cpuset-cpus",
        )
    value = "possible" if len(cores) >= 2 else f"{len(cores)} core"
    try:
        os.sched_setaffinity(0, usable)
    except OSError:
        value = "the system refuses it"
    yield _of_machine(
        "pinning",
        value == "possible",
        value,
        "keeps client and server off each other's CPU",
        "2 cores or more, and sched_setaffinity allowed",
    )


def _steadiness(host: Host) -> Iterator[Check]:
    governor = host.machine.governor()
    yield _of_machine(
        "CPU governor",
        governor in (None, "performance"),
        governor or _HIDDEN,
        "any other than `performance` changes the clock during a run",
        "sudo cpupower frequency-set -g performance",
    )
    turbo, switch = host.machine.turbo() or (None, None)
    yield _of_machine(
        "turbo",
        not turbo,
        _HIDDEN if turbo is None else "on" if turbo else "off",
        "the first seconds run faster than the rest",
        switch,
    )
    wakeful = os.access(host.root / "dev/cpu_dma_latency", os.W_OK)
    yield _of_machine(
        "CPU wake-up",
        wakeful,
        "idle states can be held off" if wakeful else "/dev/cpu_dma_latency is not writable",
        "waking a halted CPU is charged to the faster client",
        "run as root, or: sudo setfacl -m u:$USER:w /dev/cpu_dma_latency",
    )
    clock, setting = host.machine.clock_source()
    yield _of_machine(
        "clock source",
        clock is None or clock.startswith(_GOOD_CLOCKS),
        clock or _HIDDEN,
        "any slower one makes each reading of the clock a system call",
        f"sudo sh -c 'echo tsc > {setting}'",
    )


def _load(host: Host) -> Iterator[Check]:
    steal = host.machine.steal()
    if steal is not None:
        yield _of_machine(
            "steal",
            steal <= _STEAL,
            f"{100 * steal:.1f} % since it was started",
            "CPU that the hypervisor gave to others; above 2 % a run is suspect",
            "use a machine of your own, or dedicated CPUs",
        )
    load = host.machine.load_average()
    if load is not None:
        yield _of_machine(
            "load",
            load <= _LOADED * (os.cpu_count() or 1),
            f"{load:.2f} runnable threads over the last minute",
            "other programs take CPU from client and server",
            "end other programs; see: top",
        )
    available = host.machine.available_memory()
    if available is not None:
        yield _of_machine(
            "memory",
            available >= _LOW_MEMORY,
            f"{available / 2**30:.1f} GiB available",
            "swapping would be measured too",
            "end other programs",
        )


def _limits(host: Host) -> Iterator[Check]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield _of_limits(
        "open files",
        hard == resource.RLIM_INFINITY or hard >= _DESCRIPTORS,
        f"{_count(soft)} now, {_count(hard)} at most",
        "one for each connection, in client and server",
        f"as root: ulimit -n {_DESCRIPTORS}; for good: /etc/security/limits.conf",
    )
    given = host.machine.local_ports()
    if given is not None:
        first, last = given
        ports = last - first + 1
        yield _of_limits(
            "client ports",
            ports >= _PORTS,
            f"{ports:,} ({first}–{last})",
            "one for each connection to one address, and a minute after it closed",
            "sudo sysctl net.ipv4.ip_local_port_range='1024 65535'",
        )


def _count(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else f"{limit:,}"


def _tcp(host: Host) -> Iterator[Check]:
    control = host.machine.congestion_control()
    allowed = host.machine.congestion_controls(privileged=False)
    choice = host.machine.congestion_controls(privileged=True) if os.geteuid() == 0 else allowed
    if control is not None:
        yield _of_network(
            "TCP congestion control",
            control == "cubic" or "cubic" in choice,
            f"{control}; this user may choose {', '.join(choice) or 'none'}",
            "QUIC stacks use CUBIC: TCP must too, or a race compares two controllers",
            "sudo modprobe tcp_cubic; sudo sysctl net.ipv4.tcp_allowed_congestion_control="
            f"'{' '.join(dict.fromkeys([*allowed, 'cubic']))}'",
        )
    mtu = host.machine.mtu("lo")
    if mtu is not None:
        yield Check(
            _NETWORK,
            "loopback MTU",
            "ok",
            f"{mtu:,} B",
            "TCP fills it and QUIC does not: a network with an MTU of 1,500 B favours TCP less",
        )


def _udp(host: Host) -> Iterator[Check]:
    for name, what in (("rmem", "receive"), ("wmem", "send")):
        size = host.machine.udp_buffer(name)
        if size is not None:
            yield _of_network(
                f"UDP {what} buffer",
                size >= _UDP_BUFFER,
                f"{size / _MIB:.3g} MiB at most",
                f"HTTP/3 loses datagrams when it is full; {_UDP_BUFFER // _MIB} MiB are asked for",
                f"sudo sysctl net.core.{name}_max={_UDP_BUFFER}",
            )
    for name, option, value in (("GSO", _UDP_SEGMENT, 1200), ("GRO", _UDP_GRO, 1)):
        there = host.udp_option(option, value)
        yield _of_network(
            f"UDP {name}",
            there,
            "there" if there else "not in this kernel",
            "HTTP/3 moves many datagrams in one system call",
            "Linux 5.0 or later",
        )


def _emulated(host: Host) -> Check:
    name, why = "emulated network", "trilane network: delay, loss and rates between two programs"
    made = host.emulated_network()
    code, told = made or (1, "it did not answer")
    if code == 0:
        return Check(_NETWORK, name, "ok", "made, and as it was asked for", why)
    if code == _INVALID:
        wrong = [line for line in told.splitlines() if line.startswith("invalid ")]
        value = wrong[0].removeprefix("invalid ").strip() if wrong else told
        return Check(_NETWORK, name, "warning", value, why, "stop what else runs on this machine")
    # What was tried and what the system said, and behind the semicolon the way out.
    value, _, fix = told.removeprefix("trilane network: ").partition("; ")
    return Check(_NETWORK, name, "missing", value, why, fix or None)
