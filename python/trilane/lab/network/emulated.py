"""An emulated network: two namespaces, what is between them, and what became of the packets.

`trilane network open` holds it, and obeys lines of JSON. Every run begins the network anew, with
the seed of its block, so that the arms of a block meet the same network and blocks differ. Before
its first run in a block the network measures itself.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from trilane.interpreter import TRILANE
from trilane.lab.model.documents import Json
from trilane.lab.model.network import Check, Did, OnNetwork
from trilane.lab.model.validity import Reason
from trilane.lab.processes import proc, supervisor
from trilane.lab.processes.place import Place
from trilane.lab.processes.supervisor import Child, ProcessFailed

PROGRAM = (*TRILANE, "network", "open")
CUBIC = "cubic"
"""How TCP sends where nothing else is asked for, as QUIC does."""
_OPEN_S = 30.0
# Measuring takes one to two seconds and the delays.
_ANSWER_S = 300.0
# Another program that takes a processor for a moment makes a measurement fail, not the network.
_TRIES = 3
_LATE_S = 1e-3
"""METHOD §5: an emulator later than this at the 99th percentile makes a run suspect."""


class NetworkFailed(RuntimeError):
    """The network could not be had; the message says why."""


@dataclass(slots=True)
class Emulated:
    """A network at work between two places."""

    client: Place
    server: Place
    interface: proc.Interface
    """The client's."""
    pid: int
    _holder: Child
    _checked: dict[tuple[str, int], Check] = field(default_factory=dict)
    """By network and block."""
    _key: tuple[str, int] = ("", 0)
    _now: Json = field(default_factory=dict)

    def begin(self, network: str, block: int) -> None:
        """Be this network from now on, as it is in this block; raises NetworkFailed."""
        key = self._key = (network, block)
        order = {"network": network, "block": block}
        for _ in range(_TRIES if key not in self._checked else 0):
            measured = self._ask({"begin": {**order, "check": True}})["check"]
            self._checked[key] = msgspec.convert(measured, Check)
            if self._checked[key].verdict == "valid":
                break
        self._now = self._ask({"begin": order})

    def end(self) -> OnNetwork:
        """What became of the packets since `begin`; raises NetworkFailed."""
        did = msgspec.convert(self._ask("end"), Did)
        return OnNetwork(
            network=self._now["network"],
            rtt_s=self._now["rtt_s"],
            congestion_control=self.client.congestion_control or CUBIC,
            check=self._checked[self._key],
            up=did.up,
            down=did.down,
            cpu_s=did.cpu_s,
            waited_s=did.waited_s,
            lateness_s=did.lateness_s,
        )

    def _ask(self, order: object) -> Json:
        try:
            self._holder.write_line(json.dumps(order).encode(), _ANSWER_S)
            answer = self._holder.read_line("what became of the network", _ANSWER_S)
        except ProcessFailed as error:
            raise NetworkFailed(f"the emulated network {error}") from error
        told: Json = json.loads(answer)
        if "error" in told:
            raise NetworkFailed(f"the emulated network failed: {told['error']}")
        return told


def problems(did: OnNetwork) -> list[Reason]:
    """What speaks against a run by the network that it was made on."""
    told = []
    if broken := did.check.broken:
        text = f"the emulated network is not what was asked for: {'; '.join(broken)}"
        told.append(Reason(code="network", verdict="invalid", text=text))
    late = max(did.lateness_s.p99, did.check.lateness_s.p99)
    if late > _LATE_S:
        text = f"the emulated network sent packets late by {late * 1e3:.1f} ms at p99"
        told.append(
            Reason(
                code="network",
                verdict="suspect",
                text=text,
                advice="stop other programs, or ask for a lower rate",
                numbers={"late_s": late},
            )
        )
    return told


@contextlib.contextmanager
def opened(congestion_control: str | None = None) -> Iterator[Emulated]:
    """A network for as long as the context, or the lab, lives; TCP sends so at both ends.

    Raises:
        NetworkFailed: this machine cannot have one.
    """
    control = congestion_control or CUBIC
    command = [*PROGRAM, "--congestion-control", control]
    with contextlib.ExitStack() as stack:
        try:
            holder = stack.enter_context(
                supervisor.started(command, pipes=True, ends_with_stdin=True)
            )
            made: dict[str, Any] = json.loads(holder.read_line("where its ends are", _OPEN_S))
            client, server = (
                Place(made["user"] or "", made[end], control) for end in ("client", "server")
            )
            stack.enter_context(server.working())
        except ProcessFailed as error:
            raise NetworkFailed(f"a network cannot be emulated: trilane network {error}") from error
        # Of the thread that is in the namespace (proc(5)).
        thread = Path(made["client"]).parents[1]
        interface = proc.Interface(made["interface"], thread / "net/dev")
        yield Emulated(client, server, interface, holder.pid, holder)
