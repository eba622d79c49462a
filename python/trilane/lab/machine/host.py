"""What `doctor` asks of a machine, so that a test can answer in its place."""

from __future__ import annotations

import re
import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from trilane.interpreter import TRILANE
from trilane.lab.processes import supervisor
from trilane.lab.processes.launch import find_program
from trilane.lab.processes.proc import Machine
from trilane.lab.processes.supervisor import ProcessFailed

Status: TypeAlias = Literal["ok", "warning", "missing"]

_PATIENCE_S = 10.0
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `trilane doctor`."""

    group: str
    name: str
    status: Status
    value: str
    """What is there, with its unit."""
    why: str
    """What it matters for, in a few words."""
    fix: str | None = None
    """What to type to get it; None where there is nothing to do."""
    needed: bool = False
    """Whether the main job, `trilane race`, cannot run without it."""

    @classmethod
    def judged(
        cls, group: str, name: str, good: bool, value: str, why: str, fix: str | None = None
    ) -> Check:
        """A check that is `good`, or else a warning, and then has a `fix`."""
        return cls(group, name, "ok" if good else "warning", value, why, None if good else fix)


@dataclass(frozen=True, slots=True)
class Host:
    """A machine: its files, its programs, its sockets."""

    root: Path = Path("/")
    beside: Path = Path(sys.executable).parent
    """Programs of this Python's own environment."""

    @property
    def machine(self) -> Machine:
        """What its kernel tells."""
        return Machine(self.root)

    def program(self, name: str) -> str | None:
        """Path of a program, of this environment first, and where servers are started from."""
        return shutil.which(name, path=str(self.beside)) or find_program(name)

    def version(self, program: str, *arguments: str) -> str | None:
        """The first version number that a program says; None when it does not answer."""
        try:
            done = supervisor.finished([program, *arguments], limit_s=_PATIENCE_S)
        except ProcessFailed:
            return None
        found = _VERSION.search(done.said)
        return found[0] if found else None

    def emulated_network(self) -> tuple[int, str] | None:
        """Make one: the exit code of `trilane network check`, and what it said of it.

        None when it did not answer.
        """
        command = [*TRILANE, "network", "check", "rtt=1ms,seed=1"]
        try:
            done = supervisor.finished(command, limit_s=_PATIENCE_S)
        except ProcessFailed:
            return None
        return done.code, done.said.strip()

    def udp_option(self, option: int, value: int) -> bool:
        """Whether the kernel takes this option at level SOL_UDP."""
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.setsockopt(socket.SOL_UDP, option, value)
        except OSError:
            return False
        return True
