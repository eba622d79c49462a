"""What the kernel tells of processes and machines, and what is made of a program's words."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from trilane.lab.processes import proc
from trilane.lab.processes.proc import Interface, Machine
from trilane.lab.processes.words import how_ended, told

NOBODY = 2**22 + 1
_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets
  eth0: 12 1 0 0 0 0 0 0 34 1
    lo:56 1 0 0 0 0 0 0 56 1
"""


def test_this_process_is_told() -> None:
    pid = os.getpid()
    assert proc.exists(pid)
    assert str(threading.get_native_id()) in proc.threads(pid)
    assert proc.exact_cpu_seconds(pid) > 0
    assert min(proc.cpu_seconds(pid)) >= 0
    assert min(proc.context_switches(pid)) >= 0
    now, most = proc.resident_bytes(pid), proc.peak_resident_bytes(pid)
    assert now is not None
    assert most is not None
    assert 1_000_000 < now <= most
    assert proc.family(pid)[0] == pid
    assert pid in proc.descendants(os.getppid())
    assert pid not in proc.descendants(pid)


def test_of_a_process_that_is_gone_nothing_is_told() -> None:
    assert not proc.exists(NOBODY)
    assert proc.resident_bytes(NOBODY) is None
    assert proc.family(NOBODY) == [NOBODY]
    assert proc.descendants(NOBODY) == []
    for ask in (proc.threads, proc.cpu_seconds, proc.context_switches, proc.exact_cpu_seconds):
        with pytest.raises(OSError, match=r"No such|Invalid"):
            ask(NOBODY)


def test_a_machine_is_read_from_its_files(tmp_path: Path) -> None:
    for name, content in {
        "proc/net/dev": _DEV,
        "proc/stat": "cpu  100 20 30 700 0 0 0 50\ncpu0 1 2 3\n",
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: A Processor\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    machine = Machine(tmp_path)
    assert machine.cpu_seconds() == 150 / os.sysconf("SC_CLK_TCK")
    assert machine.steal() == pytest.approx(50 / 900)
    assert machine.cpu_model() == "A Processor"
    assert machine.core(3) == "3"


def test_what_an_interface_carried_is_counted_once(tmp_path: Path) -> None:
    table = tmp_path / "dev"
    assert Interface("lo", table).carried_bytes() is None
    table.write_text(_DEV)
    assert Interface("lo", table).carried_bytes() == 56
    assert Interface("eth0", table).carried_bytes() == 12 + 34
    assert Interface("eth1", table).carried_bytes() is None


def test_a_machine_that_tells_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert machine.cpu_seconds() is None
    assert machine.steal() is None
    assert machine.local_ports() is None
    assert machine.turbo() is None
    assert machine.congestion_controls(privileged=True) == []


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        (b"", ""),
        (b"trilane load: error: no such host\nusage\n", "no such host"),
        (b"Traceback\n  File\nValueError: x\n\n", "ValueError: x"),
    ],
)
def test_the_line_that_says_why_is_found(errors: bytes, words: str) -> None:
    assert told(errors) == words


def test_how_a_process_ended_is_said() -> None:
    assert (how_ended(3), how_ended(-9)) == ("exit code 3", "signal 9")
