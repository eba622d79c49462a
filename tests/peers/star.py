"""Machines in network namespaces of their own, each behind an emulated link that leads to a hub.

Every link is a network of `trilane network`. Its client's end is a machine; the interface of its
server's end is moved into the hub, which forwards packets between the links. All of them have one
kernel, and so one clock.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest

from trilane.lab.network import emulated
from trilane.lab.processes.place import Place

from . import networks
from .process import MissingProgramError, find
from .running import absent

HUB = "10.3.0.1"
# The one interface of each end (crates/network/src/end.rs).
_INTERFACE = "road"
_LIMIT_S = 60


@dataclass(frozen=True)
class Machine:
    """A namespace, and its address."""

    address: str
    place: Place

    def command(self, *words: str) -> list[str]:
        """What to start so that a program runs there."""
        return self.place.command([find(words[0], "it comes with Linux"), *words[1:]])


@dataclass(frozen=True)
class Star:
    """The hub, and the machines by name."""

    hub: Machine
    machines: Mapping[str, Machine]

    def __getitem__(self, name: str) -> Machine:
        return self.machines[name]


def need() -> str:
    """The program `ip`; skips the test where there can be no star, with what the machine lacks."""
    networks.need()
    if os.geteuid() != 0:
        pytest.skip("links of several namespaces are joined by root alone")
    try:
        return find("ip", "apt-get install iproute2")
    except MissingProgramError as error:
        absent(error)


@contextlib.contextmanager
def star(links: Mapping[str, str]) -> Iterator[Star]:
    """Machines by name, each behind a link as `trilane network` takes it, for one context."""
    ip = need()
    with contextlib.ExitStack() as stack:
        hub = Machine(HUB, stack.enter_context(_namespace()))
        _forward(hub)
        _ip(ip, hub, ["link set lo up", f"address add {HUB}/32 dev lo"])
        machines = {}
        for number, (name, link) in enumerate(links.items(), 1):
            network = stack.enter_context(emulated.opened())
            network._ask({"begin": {"network": link, "block": 0}})
            address, own = f"10.2.0.{number}", f"{_INTERFACE}{number}"
            machines[name] = Machine(address, network.client)
            near = Machine(HUB, network.server)
            _ip(ip, near, [f"link set {_INTERFACE} netns {hub.place.network} name {own}"])
            # The hub answers from the address at which it was asked.
            _ip(ip, hub, [f"link set {own} up", f"route add {address}/32 dev {own} src {HUB}"])
            _ip(
                ip,
                machines[name],
                [
                    "link set lo up",
                    "route del 127.0.0.0/8 dev road",
                    f"address add {address}/32 dev {_INTERFACE}",
                    f"route add default dev {_INTERFACE} src {address}",
                ],
            )
        yield Star(hub, machines)


@contextlib.contextmanager
def _namespace() -> Iterator[Place]:
    """A network namespace without a link."""
    held = [find("unshare", "it is of util-linux"), "--net", "sh", "-c", "echo made; exec cat"]
    with subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"made\n"
        try:
            yield Place(network=f"/proc/{holder.pid}/ns/net")
        finally:
            holder.stdin.close()


def _forward(machine: Machine) -> None:
    setting = "echo 1 > /proc/sys/net/ipv4/ip_forward"
    subprocess.run(machine.command("sh", "-c", setting), check=True, timeout=_LIMIT_S)


def _ip(program: str, machine: Machine, lines: Sequence[str]) -> None:
    for line in lines:
        words = machine.place.command([program, *line.split()])
        done = subprocess.run(words, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        assert done.returncode == 0, f"ip {line}: {done.stderr}"
