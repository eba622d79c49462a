# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "hdrhistogram==0.10.8",
#     "pbr==7.1.3",
#     "setuptools==84.2.1",
# ]
#
# [tool.trilane]
# name = "h2load"
# title = "h2load"
# note = "checks no bodies and sends its user-agent; the script verifies the certificate"
# versions = ["h2", "h2c"]
# strategies = ["load"]
# requires = ["h2load"]
# ///
"""h2load of nghttp2 as a contender: this script starts it and translates what it reports.

It logs every request that ended (`--log-file`), so that its latencies are as exact as it measures
them, in microseconds from the end of the request to the end of the response. The log takes CPU, so
it is kept only where the plan asks for latencies.
"""

import math
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane_contender import generator
from trilane_contender.generator import Generator

H2LOAD = shutil.which("h2load") or "h2load"
EXAMPLES = {
    "reset": "h2load could not connect, or its connection ended before the response",
    "status": "h2load counts answers with a status of 400 and above",
    "timeout": "h2load waited too long without a byte on the connection",
}
# A count has no time of its own.
LONGEST_S = 3600.0
# What h2load prints of itself: it knows no option for a machine.
COUNTS = re.compile(
    r"requests: \d+ total, (?P<started>\d+) started, (?P<done>\d+) done, "
    r"(?P<succeeded>\d+) succeeded, \d+ failed, (?P<errored>\d+) errored, (?P<timeout>\d+) timeout"
)
FINISHED = re.compile(r"finished in (?P<number>[\d.]+)(?P<unit>us|ms|s|m|h)?,")
UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
DATA = re.compile(r"\((?P<bytes>\d+)\) data$", re.MULTILINE)


class H2load(Generator):
    """h2load, with a log of its requests."""

    name = "h2load"
    # Told to speak HTTP/1.1 for a duration, h2load 1.52 does not always end.
    versions = ("h2", "h2c")

    def cannot(self) -> Iterable[tuple[bool, str]]:
        """h2load has GET, and POST where there is a body; a count is shared among connections."""
        plan = self.plan
        count = plan.workload.count
        method, what = ("GET", "no body") if self.body is None else ("POST", "a body")
        return (
            (
                plan.method != method,
                f"h2load sends {method} where there is {what}, not {plan.method}",
            ),
            (
                count is not None and count < self.connections,
                f"h2load has no fewer requests than connections: {count} on {self.connections}",
            ),
        )

    def verify(self) -> None:
        """Shake hands: what speaks HTTP/2 besides is not installed with this script."""
        self.shake_hands("h2")

    @property
    def log(self) -> Path:
        """Where h2load logs its requests."""
        return self.folder / "log"

    def run(self, seconds: float | None) -> str:
        """What h2load printed; it logs its requests only where latencies are asked for."""
        plan = self.plan
        self.log.unlink(missing_ok=True)
        streams = max(1, plan.in_flight // self.connections)
        words = [H2LOAD, f"--clients={self.connections}"]
        words += [f"--threads={self.threads}", f"--max-concurrent-streams={streams}"]
        words += [f"--connection-inactivity-timeout={math.ceil(plan.timeout_s)}s"]
        words += [f"--log-file={self.log}"] if plan.latency else []
        words += generator.fields(plan, "--header")
        if self.body is not None:
            words += [f"--data={self.body}"]
        if seconds is None:
            words += [f"--requests={plan.workload.count}"]
        else:
            words += [f"--duration={round(seconds * 1000)}ms"]
        words += [plan.target + path for path in plan.workload.paths]
        return self.output(words, LONGEST_S if seconds is None else seconds)

    def result(self, output: str) -> dict[str, Any]:
        """Requests that a broken connection never sent are failures of that connection."""
        report = _numbers(output)
        status, latencies = _logged(self.log) if self.plan.latency else ({}, None)
        ok, late = report["succeeded"], report["timeout"]
        failed = generator.counted(
            {
                "reset": max(0, report["errored"] - late),
                "status": report["done"] - ok,
                "timeout": late,
            }
        )
        under_way = report["started"] - report["done"] - report["errored"]
        abandoned = 0 if self.plan.workload.duration_s is None else max(0, under_way)
        answered = sum(status.values()) or ok
        return {
            "started": ok + sum(failed.values()) + abandoned,
            "ok": ok,
            "failed": failed,
            "examples": {kind: EXAMPLES[kind] for kind in failed},
            "abandoned": abandoned,
            "status": status,
            "versions": {self.plan.version: answered} if answered else {},
            "connections": self.connections,
            "body_bytes": report["data"],
            "body_digest": None,
            "elapsed_s": report["elapsed_s"],
            "repetitions_s": [report["elapsed_s"]],
            "latency": None if latencies is None else generator.latency(latencies),
        }

    def version(self) -> str:
        """That of nghttp2."""
        return generator.release([H2LOAD, "--version"], r"nghttp2/(\S+)")


def _numbers(output: str) -> dict[str, Any]:
    """Counts of requests, bytes of content and seconds, as h2load prints them at its end."""
    counts, finished, data = COUNTS.search(output), FINISHED.search(output), DATA.search(output)
    if counts is None or finished is None or data is None:
        raise RuntimeError(f"h2load reported nothing: {output.strip()[-300:]}")
    return {
        **{name: int(value) for name, value in counts.groupdict().items()},
        "elapsed_s": float(finished["number"]) * UNITS_S[finished["unit"] or "s"],
        "data": int(data["bytes"]),
    }


def _logged(log: Path) -> tuple[dict[str, int], Counter[int]]:
    """How often there was each status, and each latency in microseconds."""
    status: Counter[str] = Counter()
    latencies: Counter[int] = Counter()
    with log.open(encoding="ascii") as lines:
        for line in lines:
            _, code, microseconds = line.split("\t")[:3]
            if code != "-1":
                status[code] += 1
                latencies[int(microseconds)] += 1
    return dict(status), latencies


if __name__ == "__main__":
    sys.exit(generator.serve(H2load))
