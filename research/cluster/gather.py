"""What it costs to add up what the workers of a load report.

The process is the real one (`trilane load --cluster-gather`), and what it reads is what one real
worker said, once for each: as fast as it takes it, where in a load it has the length of that.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from research.cluster import recorded
from research.cluster.recorded import Recorded
from trilane.cluster import frames
from trilane.cluster.frames import Frame
from trilane.lab.processes import proc, supervisor
from trilane.lab.processes.supervisor import Child

_LIMIT_S = 600.0
_LOOK_S = 0.01
_WITH_RESULT = frozenset({0, 4})

HEAD = (
    *("workers", "frames", "read", "requests", "CPU of the seconds", "CPU of the reports"),
    *("CPU in all", "CPU a worker", "peak memory"),
)


class Wrong(RuntimeError):
    """The process did not add up what it was told; the message says how."""


def report(counts: Sequence[int]) -> Iterator[str]:
    """The lines of the table, as Markdown; `counts` are numbers of workers.

    Raises:
        Wrong: what came out is not the sum of what went in.
    """
    yield f"| {' | '.join(HEAD)} |"
    yield f"|{' ---: |' * len(HEAD)}"
    for workers in counts:
        yield _row(recorded.record(workers))


def _row(load: Recorded) -> str:
    words = [*recorded.PROGRAM, "load", "--cluster-gather", *load.arguments]
    with tempfile.TemporaryDirectory(prefix="trilane-") as folder:
        result = Path(folder) / "run.json"
        words += ["--format", "json", "-o", str(result)]
        with supervisor.started(words, fed=True, ends_with_stdin=True) as child:
            seconds, reports = _written(load)
            child.write(seconds, _LIMIT_S)
            spent = _settled(child)
            child.write(reports, _LIMIT_S)
            child.close_stdin()
            peak = 0
            deadline = time.monotonic() + _LIMIT_S
            while not child.wait(_LOOK_S):
                peak = proc.peak_resident_bytes(child.pid) or peak
                if time.monotonic() > deadline:
                    raise child.late(_LIMIT_S)
            ended = child.reap()
            if ended.code not in _WITH_RESULT:
                raise Wrong(child.with_words(f"ended with {ended.code}"))
        _check(load, json.loads(result.read_bytes()))
    cpu = ended.usage.ru_utime + ended.usage.ru_stime
    frames_in_all = len(load.said) * load.workers + 1
    cells = [
        *(f"{load.workers:,}", f"{frames_in_all:,}", _mib(len(seconds) + len(reports))),
        f"{load.requests * load.workers:,}",
        *(f"{1e3 * value:,.0f} ms" for value in (spent, cpu - spent, cpu)),
        f"{1e6 * cpu / load.workers:,.0f} µs",
        _mib(peak),
    ]
    return f"| {' | '.join(cells)} |"


def _written(load: Recorded) -> tuple[bytes, bytes]:
    """What the process is told while the load runs, second by second, and at its end."""
    members: list[dict[str, object]] = [
        {
            "name": f"worker-{index}",
            "host": f"host-{index}",
            "cores": 1,
            "first": index,
            "count": 1,
            "clock_offset_s": 0.0,
            "clock_error_s": 0.0,
        }
        for index in range(load.workers)
    ]
    told = [frames.relayed(0, frames.begin(members))]
    ends: list[bytes] = []
    said: list[list[Frame]] = [list(load.frames(index)) for index in range(load.workers)]
    for turn in zip(*said, strict=True):
        for index, frame in enumerate(turn):
            (ends if frame.is_last else told).append(frames.relayed(index, frame))
    return b"".join(told), b"".join(ends)


def _settled(child: Child) -> float:
    """Processor time, in seconds, once the process has nothing to read any more."""
    spent = -1.0
    deadline = time.monotonic() + _LIMIT_S
    while (now := sum(proc.cpu_seconds(child.pid))) != spent and time.monotonic() < deadline:
        spent = now
        # The clock of a process steps by 10 ms (proc(5)).
        time.sleep(0.25)
    return spent


def _check(load: Recorded, run: dict[str, object]) -> None:
    """Raise `Wrong` where the result is not that of all workers together."""
    workers = run.get("workers")
    requests = run.get("requests")
    if not isinstance(workers, list) or not isinstance(requests, dict):
        raise Wrong("the result tells no workers")
    lost = [worker["lost"] for worker in workers if worker.get("lost")]
    if lost or len(workers) != load.workers:
        raise Wrong(f"{len(lost)} of {len(workers)} workers are lost: {lost[:1]}")
    each = {worker["ok"] for worker in workers}
    if len(each) != 1 or requests["ok"] != load.workers * each.pop():
        raise Wrong(f"{requests['ok']} requests are not those of {load.workers} equal workers")


def _mib(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB"
