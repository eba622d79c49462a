"""Runs the rows in alternation and prints the table.

Method: client and server each on a core of their own; ours, peer, ours, peer …; the cost of a run
is the user and system CPU that the kernel charged to the client process, from its start to its end,
divided by the requests that it reports as answered. The ratio is taken within a pair, so that drift
of the machine hits both; the row shows the median of the ratios and their range.

A client that is faster than the server sleeps, and waking costs more than a request: "waits" shows
how often, ours · peer's. Where the kernel allows it, processors are kept from halting, which makes
waking cheaper: see `wakeful`. Where our waits are far above the peer's all the same, the server was
short of CPU (another program on its core), and the ratio tells of the sleeping.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from peers.process import MissingProgramError, NotReadyError

from . import idle
from .rows import ROWS, Row
from .servers import Servers
from .tools import Floor, Ghz, H2load, Oha, RunError, Sample, Tool, Trilane, Work, Wrk
from .wakeful import wakeful

_TOOLS: dict[str, type[Tool]] = {
    "trilane": Trilane,
    "wrk": Wrk,
    "h2load": H2load,
    "oha": Oha,
    "floor": Floor,
    "ghz": Ghz,
}


@dataclass
class Result:
    """What a row came to; `note` says why it has no numbers, `failed` that something went wrong."""

    row: Row
    ours: list[Sample] = field(default_factory=list)
    peers: list[Sample] = field(default_factory=list)
    note: str | None = None
    failed: bool = False

    @property
    def good(self) -> bool:
        """Nothing went wrong, and the goal was met where both programs are here."""
        return not self.failed and (
            self.note is not None or self.row.met(statistics.median(self.ratios))
        )

    @property
    def ratios(self) -> list[float]:
        """CPU per request, ours ÷ the peer's, pair by pair."""
        return [ours.cpu_us / peer.cpu_us for ours, peer in zip(self.ours, self.peers, strict=True)]

    def line(self) -> list[str]:
        """The row's cells."""
        cells = [self.row.name, self.row.work, self.row.peer]
        if self.note is not None:
            return [*cells, "", "", "", "", self.row.target, self.note]
        ratios = self.ratios
        middle = statistics.median(ratios)
        waits = [
            f"{statistics.median(sample.waits for sample in side):.3f}"
            for side in (self.ours, self.peers)
        ]
        return [
            *cells,
            f"{statistics.median(sample.cpu_us for sample in self.ours):.2f}",
            f"{statistics.median(sample.cpu_us for sample in self.peers):.2f}",
            " · ".join(waits),
            f"{middle:.3f} [{min(ratios):.3f}–{max(ratios):.3f}]",
            self.row.target,
            "met" if self.row.met(middle) else "NOT MET",
        ]

    def record(self) -> dict[str, object]:
        """The row for machines."""
        return {
            **asdict(self.row),
            "note": self.note,
            "ours": [
                asdict(sample) | {"cpu_us_per_request": sample.cpu_us} for sample in self.ours
            ],
            "peers": [
                asdict(sample) | {"cpu_us_per_request": sample.cpu_us} for sample in self.peers
            ],
            "ratios": self.ratios if self.note is None else [],
        }


HEADINGS = [
    *("row", "work", "peer", "ours µs", "peer µs", "waits ÷ request", "ratio [min–max]"),
    *("goal", ""),
]


def main(arguments: list[str] | None = None) -> int:
    """0 when all went well and every row met its goal, 1 if not, 2 on misuse."""
    options = _parser().parse_args(arguments)
    known = [row.name for row in ROWS] + [idle.NAME]
    chosen = options.only or known
    if unknown := [name for name in chosen if name not in known]:
        print(f"bench: no row {unknown[0]}: choose from {' '.join(known)}", file=sys.stderr)
        return 2
    if options.install_peers:
        Oha.install()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print(
            "bench: one core only: client and server would share it, no ratio is worth printing",
            file=sys.stderr,
        )
        return 1
    client, server = cores[0], cores[1]

    tools, missing = _tools()
    machine = _machine(tools, client, server)
    results = []
    with wakeful() as idle_state, Servers(server) as servers:
        machine["idle processors"] = idle_state
        for key, value in machine.items():
            print(f"{key}: {value}")
        print(flush=True)
        for row in (row for row in ROWS if row.name in chosen):
            result = _row(row, tools, missing, servers, client, options.pairs, options.seconds)
            results.append(result)
            print(_format(result.line()), flush=True)
        memory = None
        if idle.NAME in chosen:
            memory = idle.run(tools.get("trilane"), missing, servers, client)
            print(f"\n{memory.sentence}", flush=True)

    if options.json is not None:
        report = {
            "machine": machine,
            "pairs": options.pairs,
            "seconds": options.seconds,
            "rows": [result.record() for result in results],
            "idle": None if memory is None else asdict(memory),
        }
        options.json.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    print("\n" + "\n".join(_table([result.line() for result in results])))
    good = all(result.good for result in results) and (memory is None or memory.met is not False)
    return 0 if good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench", description="Client CPU per request beside other load generators."
    )
    parser.add_argument("--pairs", type=int, default=7, help="pairs of runs per row (default 7)")
    parser.add_argument(
        "--seconds", type=int, default=2, help="length of a run in whole seconds (default 2)"
    )
    parser.add_argument("--quick", action="store_const", dest="pairs", const=3, help="3 pairs")
    parser.add_argument("--only", action="append", metavar="ROW", help="only this row (repeatable)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every sample to FILE")
    parser.add_argument(
        "--install-peers", action="store_true", help="build oha from the Rust registry first"
    )
    return parser


def _tools() -> tuple[dict[str, Tool], dict[str, str]]:
    tools: dict[str, Tool] = {}
    missing: dict[str, str] = {}
    for name, kind in _TOOLS.items():
        try:
            tools[name] = kind()
        except MissingProgramError as error:
            missing[name] = str(error)
    return tools, missing


def _machine(tools: dict[str, Tool], client: int, server: int) -> dict[str, str]:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {
        "cpu": f"{model}, {os.cpu_count()} cores; client on core {client}, server on core {server}",
        "kernel": platform.release(),
        "load average": f"{os.getloadavg()[0]:.2f}",
        **{name: tool.version() for name, tool in tools.items()},
        **Servers.versions(),
    }


def _row(
    row: Row,
    tools: dict[str, Tool],
    missing: dict[str, str],
    servers: Servers,
    client: int,
    pairs: int,
    seconds: int,
) -> Result:
    result = Result(row)
    for name in (row.peer, "trilane"):
        if name in missing:
            result.note = missing[name]
            return result
    try:
        url = servers.url(row.server, row.listener, row.body)
        work = Work(url, row.version, row.connections, row.streams, seconds, row.call)
        for pair in range(pairs):
            _progress(f"{row.name}: pair {pair + 1} of {pairs}")
            ours, peer = tools["trilane"].run(work, [client]), tools[row.peer].run(work, [client])
            result.ours.append(ours)
            result.peers.append(peer)
    except MissingProgramError as error:
        result.note = str(error)
    except (NotReadyError, RunError) as error:
        result.note = " ".join(str(error).split())[:200]
        result.failed = True
    finally:
        _progress("")
    return result


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        print(f"\r{text[: width - 1]:<{width - 1}}\r", end="", file=sys.stderr, flush=True)


_WIDTHS = [12, 24, 7, 8, 8, 15, 21, 7, 7]


def _format(cells: list[str]) -> str:
    return "  ".join(
        f"{cell:<{width}}" for cell, width in zip(cells, _WIDTHS, strict=True)
    ).rstrip()


def _table(lines: list[list[str]]) -> list[str]:
    """The same as a Markdown table, to paste."""
    rule = ["---"] * len(HEADINGS)
    return [f"| {' | '.join(cells)} |" for cells in (HEADINGS, rule, *lines)]
