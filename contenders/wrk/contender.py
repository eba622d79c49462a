# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "hdrhistogram==0.10.8",
#     "pbr==7.1.3",
#     "setuptools==84.2.1",
# ]
#
# [tool.trilane]
# name = "wrk"
# title = "wrk"
# note = "drops latencies above its timeout, checks no bodies; the script verifies the certificate"
# versions = ["h1"]
# strategies = ["load"]
# requires = ["wrk"]
# ///
"""wrk as a contender: this script starts it as its child and translates what it reports."""

import json
import math
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "harness"))

from trilane_contender import generator
from trilane_contender.generator import Generator

WRK = shutil.which("wrk") or "wrk"
MARK = "trilane "
EXAMPLES = {
    "connect": "wrk could not connect",
    "reset": "wrk could not write a request or read a response",
    "status": "wrk counts answers with a status of 400 and above",
    "timeout": "wrk counts answers later than its timeout and drops their latencies",
}


class Wrk(Generator):
    """wrk, with a script that prints its whole histogram."""

    name = "wrk"
    versions = ("h1",)
    length = 0.0
    """Mean of a body in bytes: wrk counts bytes with their heads."""

    def cannot(self) -> Iterable[tuple[bool, str]]:
        """wrk ends by time alone, in whole seconds."""
        plan, seconds = self.plan, self.plan.workload.duration_s
        return (
            (seconds is None, "wrk works for a duration: it cannot count requests"),
            (
                seconds is not None and (seconds < 1 or seconds % 1 > 0),
                f"wrk counts in whole seconds, not in {seconds} s",
            ),
            (
                plan.body_file is not None or plan.discard,
                "wrk holds whole bodies in memory",
            ),
        )

    def verify(self) -> None:
        """Ask for each path once."""
        self.length = self.get_all()

    def run(self, seconds: float | None) -> str:
        """What wrk printed, with a line of the script in Lua."""
        plan = self.plan
        words = [WRK, "--connections", str(self.connections), "--threads", str(self.threads)]
        words += ["--duration", f"{seconds:.0f}s", "--timeout", f"{math.ceil(plan.timeout_s)}s"]
        words += ["--script", str(FOLDER / "report.lua"), *generator.fields(plan, "--header")]
        words += [plan.target + plan.workload.paths[0], "--"]
        words += [plan.method, str(self.body or ""), *plan.workload.paths]
        return self.output(words, seconds or 0.0)

    def result(self, output: str) -> dict[str, Any]:
        """Every connection has one request under way when wrk stops, which wrk does not count."""
        report = reported(output)
        answered, status, late = report["requests"], report["status"], report["timeout"]
        failed = generator.counted(
            {
                "connect": report["connect"],
                "reset": report["read"] + report["write"],
                "status": status,
                "timeout": late,
            }
        )
        ok = max(0, answered - status - late)
        abandoned = self.connections if answered else 0
        return {
            "started": ok + sum(failed.values()) + abandoned,
            "ok": ok,
            "failed": failed,
            "examples": {kind: EXAMPLES[kind] for kind in failed},
            "abandoned": abandoned,
            # wrk counts only whether a status is 400 or more.
            "status": {},
            "versions": {"h1": answered} if answered else {},
            "connections": self.connections,
            "body_bytes": round(answered * self.length),
            "body_digest": None,
            "elapsed_s": report["duration_us"] / 1e6,
            "repetitions_s": [report["duration_us"] / 1e6],
            "latency": generator.latency(observed(report, self.connections)),
        }

    def version(self) -> str:
        """wrk exits with 1 while it says so."""
        return generator.release([WRK, "-v"], r"wrk (\S+)")


def reported(output: str) -> dict[str, Any]:
    """What the script in Lua printed among the rest."""
    for line in output.splitlines():
        if line.startswith(MARK):
            report: dict[str, Any] = json.loads(line.removeprefix(MARK))
            return report
    raise RuntimeError(f"wrk reported nothing: {output.strip()[:300]}")


def observed(report: dict[str, Any], connections: int) -> dict[int, int]:
    """Counts by latency in microseconds, as wrk measured them.

    What wrk hands to its script has passed through `stats_correct`, which invents the samples that
    an open model would have added. The other clients' latencies have none, so these are taken out
    again, from the longest latency down, as that function put them in from the shortest up.
    """
    counts: dict[int, int] = dict(report["latency"])
    per_connection = report["requests"] // connections
    if per_connection == 0:
        return counts
    interval = report["duration_us"] // per_connection
    for value in sorted(counts, reverse=True):
        for invented in range(value - interval, interval, -interval):
            counts[invented] -= counts[value]
    return {value: count for value, count in counts.items() if count > 0}


if __name__ == "__main__":
    sys.exit(generator.serve(Wrk))
