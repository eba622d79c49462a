"""Ctrl-C in every moment of a command: no traceback, whoever has the signal then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from peers.process import wait_until
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


def test_a_server_that_has_answered_it_ends_without_a_word_more(tmp_path: Path) -> None:
    served = started(
        *("serve", "--port", "0", "--tls-port", "0", "--state", str(tmp_path), "--format", "json"),
        folder=tmp_path,
    )
    assert served.stdout is not None
    assert "ready" in served.stdout.readline()
    os.killpg(served.pid, signal.SIGINT)
    _, err = served.communicate(timeout=120)
    assert served.returncode == 0
    assert "Traceback" not in err


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
