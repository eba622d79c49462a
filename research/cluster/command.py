"""The command that prints what `README.md` beside this file has."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import chain

import trilane
from research.cluster import gather, scheduler, start
from trilane.lab.machine import facts
from trilane.lab.processes.supervisor import ProcessFailed
from trilane.lab.targets.servers import ServerFailed

_PARTS = ("start", "gather", "scheduler")
_WORKERS = (10, 100, 1000)
# A plan has no more threads (crates/engine/src/checks.rs), and each worker has one.
_MOST = 1024


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    parser = argparse.ArgumentParser(prog="cluster")
    parser.add_argument("part", nargs="*", metavar="PART", help=f"of {', '.join(_PARTS)}; all")
    parser.add_argument("--workers", type=int, nargs="+", default=list(_WORKERS), metavar="N")
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="of each row of start")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    asked = parser.parse_args(arguments)
    for part in asked.part:
        if part not in _PARTS:
            parser.error(f"{part}: there is no such part: choose from {', '.join(_PARTS)}")
    for workers in asked.workers:
        if not 0 < workers <= _MOST:
            parser.error(f"--workers {workers}: takes 1 to {_MOST}")
    if asked.runs < 1:
        parser.error(f"--runs {asked.runs}: at least one run is simulated")
    tables = {
        "start": lambda: start.report(start.shapes(asked.workers), asked.runs, asked.seed),
        "gather": lambda: gather.report(asked.workers),
        "scheduler": lambda: scheduler.report(asked.workers),
    }
    lines: Iterator[str] = chain(
        [_where(), ""],
        chain.from_iterable(
            chain([f"## {part}", ""], tables[part](), [""]) for part in asked.part or _PARTS
        ),
    )
    try:
        for line in lines:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    except (ProcessFailed, ServerFailed, gather.Wrong, scheduler.Wrong) as error:
        sys.stderr.write(f"cluster: {error}\n")
        return 1
    return 0


def _where() -> str:
    """What the numbers that are measured are of."""
    here = facts.facts()
    return (
        f"trilane {trilane.__version__} ({trilane.revision}), {trilane.build_profile} build, "
        f"{here['cpu']}, {here['cpus_usable']} CPUs"
    )
