"""Frames: what a share of a load writes on its stdout, and what the gathering process reads.

A share's frame is its length (u32, little endian, of what follows), its kind (one byte) and its
content. The gathering process reads the same with the worker's index (u16, little endian) before
the kind. Only the native program looks into windows and reports.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

LIMIT = 64 << 20
"""Bytes of a frame."""
STARTED, WINDOW, REPORTS, ERROR = b"S", b"W", b"R", b"E"
"""What shares say: that they began, a second, what all of their threads report, what went wrong."""
BEGIN, LOST = b"B", b"L"
"""What the coordinator adds: who takes part, and that a worker was lost."""

_LENGTH = struct.Struct("<I")
_RELAYED = struct.Struct("<IHc")
_MESSAGE_CHARACTERS = 4000


class BadFrame(Exception):
    """What was written is no frame; the message goes on after the writer's name."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame."""

    kind: bytes
    content: bytes

    @property
    def is_last(self) -> bool:
        """Whether a share says nothing after it."""
        return self.kind in {REPORTS, ERROR}


class Splitter:
    """Frames out of a stream of bytes."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete with `data`.

        Raises:
            BadFrame: a frame is empty or longer than LIMIT.
        """
        self._rest += data
        frames = []
        while len(self._rest) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._rest)
            if not 0 < length <= LIMIT:
                raise BadFrame(f"writes a frame of {length} bytes, not of 1 to {LIMIT}")
            end = _LENGTH.size + length
            if len(self._rest) < end:
                break
            kind, content = self._rest[4:5], self._rest[5:end]
            frames.append(Frame(bytes(kind), bytes(content)))
            del self._rest[:end]
        return frames


def relayed(worker: int, frame: Frame) -> bytes:
    """A frame as the gathering process reads it, of the worker with that index."""
    length = _RELAYED.size - _LENGTH.size + len(frame.content)
    return _RELAYED.pack(length, worker, frame.kind) + frame.content


def failed(message: str, code: int = 1) -> Frame:
    """The frame of a share that failed: why, and the exit code that it would have had alone."""
    return Frame(ERROR, _told({"message": message[:_MESSAGE_CHARACTERS], "exit_code": code}))


def lost(reason: str) -> Frame:
    """The frame of a worker that was lost."""
    return Frame(LOST, _told({"reason": reason[:_MESSAGE_CHARACTERS]}))


def begin(workers: list[dict[str, object]]) -> Frame:
    """The first frame of all: who takes part."""
    return Frame(BEGIN, _told({"workers": workers}))


def _told(values: dict[str, object]) -> bytes:
    return json.dumps(values).encode()
