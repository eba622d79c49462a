"""Clusters of processes on this machine: a scheduler, workers, and loads on them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TRILANE = (sys.executable, "-m", "trilane")
_PATIENCE_S = 120.0
_ENDS_S = 60.0


def serving(pid: int) -> list[str]:
    """Command lines of `trilane serve` below a process, without those that end meanwhile."""
    lines = []
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            lines.append(" ".join(child.cmdline()))
    return [line for line in lines if " serve " in line]


class Worker:
    """`trilane cluster worker`: its command, and the process of Dask's worker below it."""

    def __init__(self, name: str, command: subprocess.Popen[str]) -> None:
        self.name = name
        self.command = command

    @property
    def pid(self) -> int:
        """Of the process that carries out loads; its parent starts it again when it ends."""
        # A thread of Dask's starts it.
        threads = Path(f"/proc/{self.command.pid}/task").iterdir()
        children = " ".join((thread / "children").read_text() for thread in threads)
        for child in map(int, children.split()):
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                return child
        raise ProcessLookupError(f"{self.name} has no worker's process")


class Loading:
    """`trilane load --cluster … --format json` under way."""

    def __init__(self, address: str, arguments: Sequence[str]) -> None:
        self._argv = [*TRILANE, "load", "--cluster", address, "--format", "json", *arguments]
        self.process = subprocess.Popen(
            self._argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # So that what a test sends it is sent to it alone.
            start_new_session=True,
        )

    def interrupt(self) -> None:
        """What Ctrl-C sends at a terminal: to all of the group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def wait(self) -> Ended:
        """Its end; one that hangs is killed and fails the test."""
        try:
            out, err = self.process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            out, err = self.process.communicate()
            raise AssertionError(f"hung for {_PATIENCE_S} s: {self._argv}\n{out}\n{err}") from None
        return Ended(self.process.returncode, out, err)


class Ended:
    """What a load on a cluster left behind."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def __repr__(self) -> str:
        return f"exit code {self.code}\n{self.out}\n{self.err}"

    @property
    def report(self) -> dict[str, Any]:
        """Its result."""
        found: dict[str, Any] = json.loads(self.out)
        return found


class Cluster:
    """`trilane cluster start` without workers, and workers of their own. A context manager."""

    def __init__(self, flags: Sequence[str] = ()) -> None:
        """`flags` are of all of its commands, as those for TLS; without them it has no TLS."""
        self._flags = list(flags)
        self._stack = contextlib.ExitStack()
        self.workers: dict[str, Worker] = {}

    def __enter__(self) -> Self:
        argv = [*TRILANE, "cluster", "start", "--workers", "0", "--port", "0"]
        argv += self._flags or ["--insecure"]
        self.scheduler = self._started(argv)
        self.address = _line(self.scheduler).split()[2].rstrip(",")
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def worker(self, name: str, *flags: str, cores: int = 1) -> Worker:
        """Start a worker, and wait until it has joined."""
        argv = [*TRILANE, "cluster", "worker", self.address, "--name", name, "-t", str(cores)]
        command = self._started([*argv, *self._flags, *flags])
        line = _line(command)
        assert f"worker {name} offers" in line, line
        self.workers[name] = worker = Worker(name, command)
        return worker

    def dask_worker(self, name: str, environment: Mapping[str, str], cores: int = 1) -> None:
        """Start a worker by Dask's own command, without waiting for it."""
        argv = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--name", name]
        argv += ["--nthreads", str(cores), "--no-dashboard"]
        self._started(argv, environment, quiet=True)

    def load(self, *arguments: str) -> Loading:
        """Begin a load on it."""
        loading = Loading(self.address, [*self._flags, *arguments])
        self._stack.callback(_end, loading.process)
        return loading

    def _started(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        quiet: bool = False,
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            text=True,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
        self._stack.callback(_end, process)
        return process


def _line(process: subprocess.Popen[str]) -> str:
    """The first line that a command says."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, (process.wait(_ENDS_S), process.args)
    return line


def _end(process: subprocess.Popen[str]) -> None:
    """End a command in order, then with all of its group."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_ENDS_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
