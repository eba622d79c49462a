"""One run of `trilane load`, and what must hold for every report."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import termios
import threading
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jsonschema

from repository import DOCS, native

if TYPE_CHECKING:
    from collections.abc import Callable

# What a small load may hold at most, whatever the server sends (bytes).
MEMORY_LIMIT = 128 * 1024 * 1024

# What makes a good run invalid on a busy machine, which leaves datagrams in the buffers of our
# sockets, sends requests of the open model late and takes a worker's processor away.
_MACHINE = {"datagrams_dropped", "late", "stood_still"}

Report = dict[str, Any]


_COUNTS = re.compile(rb"(\d+) ok, (\d+) failed")


class Counts(NamedTuple):
    """What the live display shows, of the warm-up too."""

    ok: int
    failed: int


@dataclass(frozen=True)
class Run:
    """What a command left behind; `report` is none where it printed no JSON."""

    code: int
    out: str
    err: str
    report: Report | None

    @property
    def good(self) -> Report:
        """The report of a run that must have gone well, whatever else the machine was doing."""
        report = self.checked
        reasons = report["validity"]["reasons"]
        invalid = {reason["code"] for reason in reasons if reason["verdict"] == "invalid"}
        assert self.code == (4 if invalid else 0), self
        assert invalid <= _MACHINE, self
        return report

    @property
    def checked(self) -> Report:
        """The report of a run that may have gone badly, its books checked."""
        assert self.report is not None, self
        check(self.report)
        return self.report

    @property
    def message(self) -> str:
        """The only line on stderr of a command that could not run."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        assert len(lines) == 1, self
        assert "panicked" not in self.err, self
        return lines[0]


@cache
def validator() -> jsonschema.Draft202012Validator:
    """Of `docs/run.schema.json`."""
    schema = json.loads((DOCS / "run.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def check(report: Report) -> None:
    """The schema, and the sums that must be right in every report, good or bad."""
    problems = [f"{error.json_path}: {error.message}" for error in validator().iter_errors(report)]
    assert not problems, problems
    requests = report["requests"]
    assert requests["started"] == requests["ok"] + requests["failed"] + requests["abandoned"], (
        requests
    )
    assert requests["failed"] == sum(kind["count"] for kind in requests["failures"].values()), (
        requests
    )
    assert sum(window["ok"] for window in report["windows"]) == requests["ok"], report["windows"]
    assert sum(window["failed"] for window in report["windows"]) == requests["failed"], report[
        "windows"
    ]
    early, moved = requests["early_responses"], report["bytes"]
    assert early["count"] <= requests["ok"] + requests["failed"], requests
    assert early["body_sent"] <= early["body_bytes"], requests
    if moved["datagrams_sent"] is None:
        assert moved["body_sent"] <= moved["sent"], moved
    service = report["latency"]["service"]["count"]
    assert service == requests["ok"] + requests["censored"], requests
    apart = (report["latency"]["failed"] or {"count": 0})["count"]
    assert apart <= requests["failed"] - requests["censored"], requests
    connections = report["connections"]
    lost, failed = (sum(connections[name].values()) for name in ("lost", "failed"))
    spent = connections["spent"]
    assert connections["established"] == lost + spent + connections["open_at_end"], connections
    assert connections["established_measured"] <= connections["established"], connections
    assert connections["attempted"] >= connections["established"] + failed, connections
    for phases in filter(None, (report["phases"], report["phases"]["measured"])):
        if early := phases["early_data"]:
            assert early["offered"] == early["accepted"] + early["rejected"], early
            assert early["accepted"] == phases["handshakes"]["early_data"], phases
            assert early["requests_rejected"] + early["too_early"] <= early["requests"], early
    # Every report that is not valid says why.
    assert (report["validity"]["verdict"] == "valid") == (report["validity"]["reasons"] == [])
    # Of machines that were lost none is known.
    assert (report["cost"]["peak_rss_bytes"] or 0) < MEMORY_LIMIT, report["cost"]


class Running:
    """A `trilane load` that is under way."""

    def __init__(
        self, *arguments: str, json_report: bool = True, stderr: int = subprocess.PIPE
    ) -> None:
        self._json = json_report
        argv = [native(), "load", *arguments]
        if json_report:
            argv += ["--format", "json"]
        self._argv = argv
        self._child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, "NO_COLOR": "1", "TERM": "xterm"},
        )

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        """What Ctrl-C sends, or another signal."""
        self._child.send_signal(number)

    def stop(self) -> None:
        """Stop it as Ctrl-Z does; it stands still when this returns."""
        self._child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._child.pid, os.WSTOPPED | os.WNOWAIT)

    def wait(self, patience_s: float = 120.0) -> Run:
        """Its end; a run that hangs is killed and fails the test."""
        try:
            out, err = self._child.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
            out, err = self._child.communicate()
            raise AssertionError(f"hung for {patience_s} s: {self._argv}\n{out}\n{err}") from None
        report = json.loads(out) if self._json and out.strip() else None
        return Run(self._child.returncode, out, err or "", report)


class Watched(Running):
    """A `trilane load` whose live display tells how far it is, as on a terminal."""

    def __init__(self, *arguments: str) -> None:
        self._screen, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (24, 200))
        super().__init__(*arguments, stderr=terminal)
        os.close(terminal)
        self._changed = threading.Condition()
        self._counts: Counts | None = None
        self._shown = 0
        self._ended = False
        self._last = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        line = b""
        # Reading fails (EIO) when nobody holds the other end any more.
        with contextlib.suppress(OSError):
            while piece := os.read(self._screen, 65536):
                # Each drawing begins at the left; the last one may not have come whole.
                *drawn, line = (line + piece).split(b"\r")
                for found in filter(None, map(_COUNTS.search, drawn)):
                    with self._changed:
                        self._counts = Counts(int(found[1]), int(found[2]))
                        self._shown += 1
                        self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._last = line
            self._changed.notify_all()

    def until(self, holds: Callable[[Counts], bool]) -> Counts:
        """Wait for counts, shown from now on, of which it holds; the patience ends a hang only."""
        with self._changed:
            before = self._shown

            def found() -> Counts | None:
                counts = self._counts
                return (
                    counts
                    if counts is not None and self._shown > before and holds(counts)
                    else None
                )

            self._changed.wait_for(lambda: found() or self._ended, 120)
            counts = found()
            assert counts is not None, (self._counts, self._last, self._argv)
            return counts

    def until_ok(self, past: int = 0) -> Counts:
        """Wait until more requests than `past` have gone well."""
        return self.until(lambda counts: counts.ok > past)

    def wait(self, patience_s: float = 120.0) -> Run:
        """Its end, without what the display showed."""
        try:
            return super().wait(patience_s)
        finally:
            self._reader.join()
            os.close(self._screen)


def codes(report: Report) -> set[str]:
    """What speaks against a run, by the codes of its reasons."""
    return {reason["code"] for reason in report["validity"]["reasons"]}


def load(*arguments: str) -> Run:
    """`trilane load … --format json`, to its end."""
    return Running(*arguments).wait()


def load_text(*arguments: str) -> Run:
    """`trilane load …` with the report for people."""
    return Running(*arguments, json_report=False).wait()


def flag(listener: str) -> str:
    """The flag that forces the version of a listener (`h1s` is h1 over TLS)."""
    return "--h1" if listener == "h1s" else f"--{listener}"
