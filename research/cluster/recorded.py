"""What a worker says in a real load, kept to stand for that of many.

The load is a share of a plan for all of them: one thread of the engine against the embedded server.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from trilane.cluster import frames
from trilane.cluster.frames import Frame
from trilane.lab.processes import supervisor
from trilane.lab.processes.supervisor import ProcessFailed
from trilane.lab.targets import servers

PROGRAM = servers.PROGRAM[:-1]
CONNECTIONS, RATE_PER_S, LENGTH_S = 4, 200, 5
"""Of each worker."""
_BEGIN_S = 2.0
_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Recorded:
    """One worker's part of a load of `workers`."""

    workers: int
    arguments: Sequence[str]
    """Of `trilane load`, for the load of all."""
    said: Sequence[Frame]

    def frames(self, worker: int) -> Iterator[Frame]:
        """What it stands for the worker of this index to say.

        Raises:
            ValueError: the reports are encoded in another way than is known here.
        """
        for frame in self.said:
            if frame.kind == frames.REPORTS:
                # They begin with the number of their first thread, which was 0.
                if not frame.content.startswith(b"\0"):
                    raise ValueError("the reports do not begin with the number of a thread")
                yield Frame(frame.kind, _varint(worker) + frame.content[1:])
            else:
                yield frame

    @property
    def requests(self) -> int:
        """How many a worker was to send."""
        return RATE_PER_S * LENGTH_S


@cache
def record(workers: int) -> Recorded:
    """Carry out the first share of a load for so many workers.

    Raises:
        ProcessFailed: the load ended without its reports.
        ServerFailed: there is no server for it.
    """
    with servers.embedded(threads=1, cpus=None, state=None) as server:
        arguments = [
            *(f"{server.http}/hello", "--h1", "-c", str(CONNECTIONS * workers)),
            *("-R", str(RATE_PER_S * workers), "-d", f"{LENGTH_S}s", "--warmup", "0s"),
        ]
        share = {
            "first": 0,
            "count": 1,
            "total": workers,
            "start_at_unix_ns": time.time_ns() + int(_BEGIN_S * 1e9),
            "arguments": arguments,
        }
        command = [*PROGRAM, "load", "--cluster-share"]
        said: list[Frame] = []
        splitter = frames.Splitter()
        with supervisor.started(command, pipes=True, ends_with_stdin=True) as child:
            child.write_line(json.dumps(share).encode(), _LIMIT_S)
            deadline = time.monotonic() + _LIMIT_S
            while not (said and said[-1].is_last):
                data = child.read("its reports", deadline - time.monotonic())
                if data is None:
                    raise child.late(_LIMIT_S)
                said += splitter.feed(data)
    if said[-1].kind != frames.REPORTS:
        raise ProcessFailed(f"failed: {said[-1].content.decode(errors='replace')}")
    return Recorded(workers, arguments, said)


def _varint(number: int) -> bytes:
    """As postcard writes numbers: seven bits a byte, the lowest first."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])
