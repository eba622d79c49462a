"""A child process that serves: its ports, its readiness, its log and its end."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

HOST = "127.0.0.1"
# Of what no descriptor tells: a port that listens, a file that is there.
_POLL_S = 0.02


class MissingProgramError(RuntimeError):
    """A program that is not on this machine; the message says how to install it."""

    def __init__(self, program: str, how: str) -> None:
        super().__init__(f"{program} is not installed: {how}")


class NotReadyError(RuntimeError):
    """A server ended or stayed silent before it was ready; the message ends with its log."""


def find(program: str, how: str) -> str:
    """Path of a program, also in the folders that only root has on its PATH."""
    places = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/go/bin"])
    path = shutil.which(program, path=places)
    if path is None:
        raise MissingProgramError(program, how)
    return path


def _candidates() -> Iterator[int]:
    """Ports that nobody else in these tests is given, each once until all are used up.

    They lie below what the kernel gives to whoever asks for any port (ip_local_port_range begins at
    32768), so that no connection takes one between its choice and its use; and each process of
    pytest-xdist has its own.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    share = range(_FIRST_PORT, _LAST_PORT)[worker % _SHARES :: _SHARES]
    # Another run of the tests at the same time begins elsewhere.
    begin = os.getpid() % len(share)
    return itertools.cycle([*share[begin:], *share[:begin]])


_FIRST_PORT, _LAST_PORT, _SHARES = 12_000, 32_000, 16
_ports = _candidates()


def free_port() -> int:
    """A port that is free, for TCP and UDP alike (QUIC servers take both), and stays free."""
    for port in itertools.islice(_ports, 64):
        with (
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
            suppress(OSError),
        ):
            tcp.bind((HOST, port))
            udp.bind((HOST, port))
            return port
    raise RuntimeError("no port is free for TCP and UDP alike")


def children() -> set[str]:
    """Process ids of what the main thread of this process has started and not waited for."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def listens(port: int) -> bool:
    """Whether a TCP connection to the port is accepted."""
    try:
        with socket.create_connection((HOST, port), timeout=1.0):
            return True
    except OSError:
        return False


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def wait_until(holds: Callable[[], bool], what: str, patience_s: float = 120.0) -> None:
    """Return once it holds; the patience ends a hang only, and then `what` is told."""
    deadline = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"still not so after {patience_s} s: {what}")
        time.sleep(_POLL_S)


class Process:
    """One server process. Leaving the context stops it, whatever happened inside."""

    def __init__(
        self,
        argv: Sequence[str],
        folder: Path,
        *,
        ready: Callable[[], bool],
        name: str,
        env: Mapping[str, str] | None = None,
        patience_s: float = 120.0,
    ) -> None:
        """Start `argv` in `folder` and return once `ready()` holds, within `patience_s` seconds."""
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self._child = subprocess.Popen(
                list(argv),
                cwd=folder,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A group of its own: Ctrl-C at the terminal is for the client first.
                start_new_session=True,
            )
        try:
            self._wait(ready, patience_s)
        except BaseException:
            self.kill()
            raise

    def _wait(self, ready: Callable[[], bool], patience_s: float) -> None:
        try:
            wait_until(lambda: ready() or self._child.poll() is not None, "ready", patience_s)
        except TimeoutError as error:
            raise NotReadyError(f"{self.name}: {error}\n{self.tail()}") from error
        if self._child.poll() is not None:
            raise NotReadyError(f"{self.name} ended with {self._child.returncode}\n{self.tail()}")

    @property
    def pid(self) -> int:
        """Process id of the server (of its master, where it has workers)."""
        return self._child.pid

    def tail(self, lines: int = 20) -> str:
        """The last lines of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def signal(self, number: int) -> None:
        """Send a signal to the server alone."""
        self._child.send_signal(number)

    def stop(self, patience_s: float = 5.0) -> None:
        """Ask it to end, then end it."""
        if self._child.poll() is None:
            self._child.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(patience_s)
        self.kill()

    def kill(self) -> None:
        """End it and its workers at once, as a crash would."""
        # The group is ours alone (start_new_session), so workers of a dead master go too.
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
