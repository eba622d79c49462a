"""One run of `trilane load`, and what must hold for every report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import jsonschema

from repository import DOCS, native

# What a small load may hold at most, whatever the server sends (bytes).
MEMORY_LIMIT = 128 * 1024 * 1024

Report = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """What a command left behind; `report` is none where it printed no JSON."""

    code: int
    out: str
    err: str
    report: Report | None
    seconds: float

    @property
    def good(self) -> Report:
        """The report of a run that must have gone well."""
        assert self.code == 0, self
        return self.checked

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
    service = report["latency"]["service"]["count"]
    assert service == requests["ok"] + requests["censored"], requests
    # Every report that is not valid says why.
    assert (report["validity"]["verdict"] == "valid") == (report["validity"]["reasons"] == [])
    assert report["cost"]["peak_rss_bytes"] < MEMORY_LIMIT, report["cost"]


class Running:
    """A `trilane load` that is under way."""

    def __init__(self, *arguments: str, json_report: bool = True) -> None:
        self._json = json_report
        argv = [native(), "load", *arguments]
        if json_report:
            argv += ["--format", "json"]
        self._argv = argv
        self._began = time.monotonic()
        self._child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NO_COLOR": "1"},
        )

    def interrupt(self) -> None:
        """What Ctrl-C sends."""
        self._child.send_signal(signal.SIGINT)

    def wait(self, patience_s: float = 60.0) -> Run:
        """Its end; a run that hangs is killed and fails the test."""
        try:
            out, err = self._child.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
            out, err = self._child.communicate()
            raise AssertionError(f"hung for {patience_s} s: {self._argv}\n{out}\n{err}") from None
        seconds = time.monotonic() - self._began
        report = json.loads(out) if self._json and out.strip() else None
        return Run(self._child.returncode, out, err, report, seconds)


def load(*arguments: str, patience_s: float = 60.0) -> Run:
    """`trilane load … --format json`, to its end."""
    return Running(*arguments).wait(patience_s)


def load_text(*arguments: str) -> Run:
    """`trilane load …` with the report for people."""
    return Running(*arguments, json_report=False).wait()


def flag(listener: str) -> str:
    """The flag that forces the version of a listener (`h1s` is h1 over TLS)."""
    return "--h1" if listener == "h1s" else f"--{listener}"
