"""The results of an experiment's benchmarks in Go's own format, for `go tool benchstat`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trilane.lab.model.run import Run
from trilane.lab.processes import launch, supervisor
from trilane.lab.processes.supervisor import ProcessFailed
from trilane.lab.storage import store

FILE = "benchmarks.txt"
_BENCHSTAT_S = 120.0
_LONGEST = 16_384


def write(folder: Path, runs: Sequence[Run]) -> Path | None:
    """Write what `go test` printed in all runs; the file, or None where no run is a benchmark.

    Lines on the machine stand once, and again where they change.
    """
    lines: list[str] = []
    settings: dict[str, str] = {}
    for run in runs:
        for line in run.benchmark.lines if run.benchmark else ():
            key, colon, _ = line.partition(": ")
            if line.startswith("Benchmark") or not colon:
                lines.append(line)
            elif settings.get(key) != line:
                settings[key] = line
                lines.append(line)
    if not lines:
        return None
    path = folder / FILE
    store.write_text(path, "\n".join(lines) + "\n")
    return path


def benchstat(path: Path, modules: Sequence[Path]) -> str | None:
    """What benchstat makes of the file, as plain text; None where no module has the tool."""
    go = launch.find_program("go")
    if go is None:
        return None
    for module in modules:
        try:
            done = supervisor.finished(
                # With a label: the path is a place on one machine only.
                [go, "tool", "benchstat", f"{FILE}={path.absolute()}"],
                cwd=module,
                limit_s=_BENCHSTAT_S,
            )
        except ProcessFailed:
            continue
        if done.code == 0 and done.output.strip():
            return done.output.decode(errors="replace")[:_LONGEST]
    return None
