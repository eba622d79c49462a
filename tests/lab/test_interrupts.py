"""Ctrl-C in every moment of a command: no traceback, whoever has the signal then."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from peers import networks
from peers.process import wait_until
from repository import ROOT
from trilane.interpreter import PYTHON
from trilane.lab.processes import proc

TRILANE = (sys.executable, "-m", "trilane")
INTERRUPTS = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nsignal.pause()\n"


def started(*words: str, folder: Path, modules: Path | None = None) -> subprocess.Popen[str]:
    """The command in a group of its own, as a shell starts it."""
    path = [str(modules), *sys.path] if modules else sys.path
    return subprocess.Popen(
        [*TRILANE, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        process_group=0,
    )


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("typer", ["doctor"]),
        ("rich", ["race"]),
        ("distributed", ["load", "--cluster", "tcp://127.0.0.1:1", "http://127.0.0.1:1/"]),
    ],
)
def test_it_comes_while_modules_are_imported(module: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text(INTERRUPTS)
    command = started(*words, folder=tmp_path, modules=tmp_path)
    assert command.communicate(timeout=120) == ("", "")
    assert command.returncode == -signal.SIGINT


def test_it_comes_while_a_command_imports_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text(INTERRUPTS)
    command = started("lab", "run", "bookstore", folder=tmp_path, modules=tmp_path)
    out, err = command.communicate(timeout=120)
    assert (command.returncode, out) == (130, "")
    assert "Traceback" not in err


def test_the_package_imports_nothing_before_ctrl_c_is_the_kernels() -> None:
    """Each module would add to the moment in which Python answers with a traceback."""
    code = (
        "import sys; before = set(sys.modules); from trilane import interrupts\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    told = subprocess.check_output([*PYTHON, "-c", code], text=True, timeout=120)
    assert told.split() == ["__future__", "trilane", "trilane.interrupts"]


def test_it_comes_again_where_it_got_lost(tmp_path: Path) -> None:
    """What is raised in a finalizer goes nowhere."""
    (tmp_path / "numpy.py").write_text(
        "import os, signal, time\n"
        "class Last:\n"
        "    def __del__(self) -> None:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(0)\n"
        "Last()\n"
        "time.sleep(60)\n"
    )
    command = started("lab", "run", "bookstore", folder=tmp_path, modules=tmp_path)
    out, err = command.communicate(timeout=120)
    assert (command.returncode, out) == (130, "")
    assert "Traceback" not in err


SERVING = ("--port", "0", "--tls-port", "0")
LIBRARY = ROOT / "proto/trilane/library/v1/library.proto"


@pytest.mark.parametrize(
    "words",
    [
        ["serve"],
        ["gateway", "--upstream", "grpc://127.0.0.1:1", "--proto", str(LIBRARY)],
    ],
    ids=lambda words: words[0],
)
def test_a_server_that_has_answered_it_ends_without_a_word_more(
    words: list[str], tmp_path: Path
) -> None:
    served = started(*words, *SERVING, "--state", str(tmp_path), folder=tmp_path)
    assert served.stdout is not None
    assert "ready" in served.stdout.readline()
    os.killpg(served.pid, signal.SIGINT)
    _, err = served.communicate(timeout=120)
    assert served.returncode == 0
    assert "Traceback" not in err


def test_a_network_that_is_measured_ends_without_a_word(tmp_path: Path) -> None:
    networks.need()
    ours = Path("/proc/self/ns/net").readlink()
    # It takes 15 s: at this rate a round trip of 2 s.
    check = started("network", "check", "rtt=2s,rate=100kbit,loss=1%", folder=tmp_path)

    def measures() -> bool:
        tasks = Path(f"/proc/{check.pid}/task").glob("*/ns/net")
        with contextlib.suppress(FileNotFoundError):  # One has ended meanwhile.
            return any(task.readlink() != ours for task in tasks)
        return False

    wait_until(measures, "a thread is in the network")
    os.killpg(check.pid, signal.SIGINT)
    assert check.communicate(timeout=120) == ("", "")
    assert check.returncode == -signal.SIGINT


def test_a_cluster_that_starts_is_ended_once_it_has_started(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    cluster = started("cluster", "start", "--port", "0", "--workers", "1", folder=tmp_path)
    # The tracker of multiprocessing's, and the worker, which imports Dask for a second.
    wait_until(lambda: len(proc.descendants(cluster.pid)) > 1, "a worker starts")
    os.killpg(cluster.pid, signal.SIGINT)
    _, err = cluster.communicate(timeout=120)
    assert cluster.returncode == 0
    # What it says of who reaches it is no traceback.
    assert [line for line in err.splitlines() if ": warning: " not in line] == []
