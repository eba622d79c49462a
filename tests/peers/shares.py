"""Runs on several machines without any: `trilane load --cluster-share` and `--cluster-gather` as
children of a test.

What stands between them in a cluster passes frames on; here that is a few lines.
"""

from __future__ import annotations

import json
import struct
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from repository import native

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Ends a hang only.
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Frame:
    """A message of a share: its kind, and the rest of it."""

    kind: str
    rest: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The rest, where it is JSON."""
        document: dict[str, Any] = json.loads(self.rest)
        return document


class Share:
    """A child that carries out a part of a run; its frames are kept as they come."""

    def __init__(self, share: dict[str, Any], arguments: Sequence[str]) -> None:
        self._child = subprocess.Popen(
            [native(), "load", "--cluster-share"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._child.stdin is not None
        asked = {**share, "arguments": list(arguments)}
        self._child.stdin.write(json.dumps(asked).encode() + b"\n")
        self._child.stdin.flush()
        self._frames: list[Frame] = []
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        while head := self._child.stdout.read(4):
            (length,) = struct.unpack("<I", head)
            body = self._child.stdout.read(length)
            with self._changed:
                self._frames.append(Frame(chr(body[0]), body[1:]))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def until(self, kind: str) -> Frame:
        """Wait for a frame of this kind."""

        def found() -> Frame | None:
            return next((frame for frame in self._frames if frame.kind == kind), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or self._ended, PATIENCE_S)
            frame = found()
        assert frame is not None, (kind, [frame.kind for frame in self._frames])
        return frame

    def first(self) -> str | None:
        """The kind of the first frame."""
        with self._changed:
            self._changed.wait_for(lambda: self._frames or self._ended, PATIENCE_S)
            return self._frames[0].kind if self._frames else None

    def close_stdin(self) -> None:
        """What happens where the parent is gone."""
        assert self._child.stdin is not None
        self._child.stdin.close()

    def kill(self) -> None:
        """End it by force."""
        self._child.kill()

    def wait(self) -> tuple[int, list[Frame]]:
        """Its exit code and all of its frames; stdin stays open until it has ended."""
        try:
            code = self._child.wait(PATIENCE_S)
        finally:
            self._child.kill()
            self._reader.join()
            for stream in (self._child.stdin, self._child.stdout, self._child.stderr):
                assert stream is not None
                stream.close()
        return code, self._frames


@dataclass
class Gathered:
    """What the child that adds up left behind."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        """The result, where it was asked for as JSON."""
        document: dict[str, Any] = json.loads(self.out)
        return document


@dataclass
class Cluster:
    """Machines with so many threads each, on this one."""

    threads: Sequence[int]
    files: dict[str, str] = field(default_factory=dict)

    @property
    def firsts(self) -> list[int]:
        """The first thread of each."""
        return [sum(self.threads[:number]) for number in range(len(self.threads))]

    def start(self, arguments: Sequence[str], lead_s: float = 0.5) -> list[Share]:
        """Start all shares, which begin `lead_s` from now."""
        start = time.time_ns() + int(lead_s * 1e9)
        asked = [
            {
                "first": first,
                "count": count,
                "total": sum(self.threads),
                "start_at_unix_ns": start,
                "files": self.files,
            }
            for first, count in zip(self.firsts, self.threads, strict=True)
        ]
        return [Share(share, arguments) for share in asked]

    def carry_out(self, arguments: Sequence[str]) -> list[list[Frame]]:
        """The frames of all shares. On a slow machine the start is later."""
        lead_s = 0.5
        while True:
            ended = [share.wait() for share in self.start(arguments, lead_s)]
            last = [frames[-1] for _, frames in ended]
            late = [frame for frame in last if frame.kind == "E" and b" ago " in frame.rest]
            if not late:
                return [frames for _, frames in ended]
            assert lead_s < PATIENCE_S, late
            lead_s *= 2

    def gather(self, sent: Sequence[Sequence[Frame]], arguments: Sequence[str]) -> Gathered:
        """Add up what the shares have sent."""
        members = [
            {
                "name": f"w{number}",
                "host": "here",
                "cores": count,
                "first": first,
                "count": count,
                "clock_offset_s": -0.001,
                "clock_error_s": 0.0001,
            }
            for number, (first, count) in enumerate(zip(self.firsts, self.threads, strict=True))
        ]
        frames = [(0, Frame("B", json.dumps({"workers": members}).encode()))]
        frames += [(worker, frame) for worker, each in enumerate(sent) for frame in each]
        done = subprocess.run(
            [native(), "load", "--cluster-gather", *arguments],
            input=b"".join(_relayed(worker, frame) for worker, frame in frames),
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return Gathered(done.returncode, done.stdout.decode(), done.stderr.decode())


def lost(reason: str) -> Frame:
    """What the relay says in the place of a worker."""
    return Frame("L", json.dumps({"reason": reason}).encode())


def _relayed(worker: int, frame: Frame) -> bytes:
    length = struct.pack("<IH", 3 + len(frame.rest), worker)
    return length + frame.kind.encode() + frame.rest


@contextmanager
def running(cluster: Cluster, arguments: Sequence[str]) -> Iterator[list[Share]]:
    """Shares that are under way; those that are left at the end are killed."""
    lead_s = 0.5
    while True:
        shares = cluster.start(arguments, lead_s)
        firsts = [share.first() for share in shares]
        if all(kind == "S" for kind in firsts):
            break
        for share in shares:
            share.kill()
            share.wait()
        assert lead_s < PATIENCE_S, firsts
        lead_s *= 2
    try:
        yield shares
    finally:
        for share in shares:
            share.kill()
