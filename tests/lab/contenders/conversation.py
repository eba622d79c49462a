"""The runner's side of `trilane.contender/1`, as short as a test can have it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

from trilane.lab.clients import contender_run

SCHEMA = "trilane.contender/1"
# A hang ends before the test runner ends it: with what the contender said.
LIMIT_S = 240.0


@dataclass(frozen=True)
class Said:
    """What a contender said, and how it ended."""

    events: tuple[dict[str, Any], ...]
    code: int
    errors: str

    @property
    def names(self) -> list[str]:
        return [event["event"] for event in self.events]

    def __getitem__(self, name: str) -> dict[str, Any]:
        found = [event for event in self.events if event["event"] == name]
        assert found, f"no {name!r} among {self.names}, exit code {self.code}: {self.errors}"
        return found[0]


def plan(origin: str, version: str, strategy: str, **changes: Any) -> dict[str, Any]:
    """A plan of a few requests; `workload` is merged, everything else replaces."""
    workload = {
        "kind": "urls",
        "paths": ["/hello"],
        "index": None,
        "item": None,
        "start": None,
        "count": 10,
        "duration_s": None,
    }
    return {
        "schema": SCHEMA,
        "origin": origin,
        "version": version,
        "strategy": strategy,
        "session": True,
        "in_flight": 4,
        "connections": None,
        "processes": None,
        "chunk": None,
        "timeout_s": 60.0,
        "cacert": None,
        "method": "GET",
        "headers": [["accept", "*/*"]],
        "body": None,
        "gzip": False,
        "warmup": 0,
        "repeat": 1,
        "repeat_processes": 0,
        **changes,
        "workload": workload | changes.get("workload", {}),
    }


def converse(command: Sequence[str], wanted: dict[str, Any], limit_s: float = LIMIT_S) -> Said:
    """Run a contender with the plan; it has `limit_s` for all of it."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
        env=contender_run.environment(),
    )
    watchdog = threading.Timer(limit_s, _kill, [process])
    watchdog.start()
    errors: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    reader = threading.Thread(target=_drain, args=(process.stderr, errors))
    reader.start()
    try:
        events = _talk(process, wanted)
        code = process.wait(limit_s)
    finally:
        watchdog.cancel()
        _kill(process)
        process.wait(limit_s)
        reader.join(limit_s)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    return Said(tuple(events), code, errors.get().decode(errors="replace")[-3000:])


def body(text: bytes) -> str:
    """A request body as the plan wants it."""
    return base64.b64encode(text).decode()


def digest(bodies: Sequence[bytes]) -> int:
    """What the contender must report for these bodies."""
    return sum(zlib.crc32(each) for each in bodies) % 2**64


def _talk(process: subprocess.Popen[bytes], wanted: dict[str, Any]) -> list[dict[str, Any]]:
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None
    events = []
    _send(stdin, json.dumps(wanted))
    for line in stdout:
        events.append(json.loads(line))
        if events[-1]["event"] == "ready":
            _send(stdin, "start")
    return events


def _send(stdin: IO[bytes], line: str) -> None:
    stdin.write(line.encode() + b"\n")
    stdin.flush()


def _drain(pipe: IO[bytes] | None, into: queue.SimpleQueue[bytes]) -> None:
    into.put(pipe.read() if pipe is not None else b"")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The whole group: a contender has processes of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
