# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "hdrhistogram==0.10.8",
#     "pbr==7.1.3",
#     "setuptools==84.2.1",
# ]
#
# [tool.trilane]
# name = "oha"
# title = "oha"
# note = "its latencies over HTTP/1.1 hold the set-up of connections"
# versions = ["h1", "h2", "h2c", "h3"]
# strategies = ["load"]
# rates = true
# requires = ["oha"]
# ///
"""oha as a contender: this script starts it and translates its report in JSON."""

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane_contender import generator
from trilane_contender.generator import VERIFY_S, Generator

OHA = shutil.which("oha") or "oha"
# A count has no time of its own.
LONGEST_S = 3600.0
VERSIONS = {"h1": "1.1", "h2": "2", "h2c": "2", "h3": "3"}
QUANTILES = {
    "p50": "p50",
    "p75": "p75",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "p99.9": "p99_9",
    "p99.99": "p99_99",
}
# How oha calls a request that was under way at its end.
UNDER_WAY = "aborted due to deadline"
# What its errors are, by words in them.
KINDS = {
    "timeout": "timeout",
    "connection refused": "refused",
    "certificate": "tls",
    "connect": "connect",
    "reset": "reset",
    "closed": "closed",
}


class Oha(Generator):
    """oha, for one path."""

    name = "oha"
    versions = tuple(VERSIONS)

    def cannot(self) -> Iterable[tuple[bool, str]]:
        """oha asks for one address, and is told which authority to trust."""
        return (
            (len(self.plan.workload.paths) != 1, "oha asks for one path"),
            (self.plan.discard, "oha holds whole bodies in memory"),
        )

    def verify(self) -> None:
        """Have oha itself ask once: it verifies the certificate, over HTTP/3 as well."""
        output = self.output([*self.words(1, 1), "-n", "1", self.url], VERIFY_S)
        report = generator.report(self.name, output)
        if errors := report.get("errorDistribution"):
            raise ConnectionError("; ".join(errors))

    @property
    def url(self) -> str:
        """What is asked for."""
        return self.plan.target + self.plan.workload.paths[0]

    def words(self, connections: int, streams: int) -> list[str]:
        """The command, but for its end."""
        plan = self.plan
        return [
            *(OHA, "--no-tui", "--output-format", "json", "--redirect", "0"),
            *("--http-version", VERSIONS[plan.version], "-m", plan.method),
            *("-c", str(connections), "-p", str(streams), "-t", f"{plan.timeout_s:g}s"),
            *("--worker-threads", str(self.threads)),
            # Its latencies run from when requests were due.
            *(
                ("-q", str(round(plan.rate_per_s)), "--latency-correction")
                if plan.rate_per_s is not None
                else ()
            ),
            *(("--cacert", plan.cacert) if plan.cacert else ()),
            *(("-D", str(self.body)) if self.body is not None else ()),
            *generator.fields(plan, "-H"),
        ]

    def run(self, seconds: float | None) -> str:
        """What oha printed."""
        streams = max(1, self.plan.in_flight // self.connections)
        words = self.words(self.connections, streams)
        if seconds is None:
            words += ["-n", str(self.plan.workload.count)]
        else:
            words += ["-z", f"{round(seconds * 1000)}ms"]
        return self.output([*words, self.url], LONGEST_S if seconds is None else seconds)

    def result(self, output: str) -> dict[str, Any]:
        """oha counts every status as a success: those of 400 and above are failures here."""
        report = generator.report(self.name, output)
        summary = report["summary"]
        status: dict[str, int] = report["statusCodeDistribution"]
        answered = sum(status.values())
        ok = sum(count for code, count in status.items() if int(code) < 400)
        errors: dict[str, int] = dict(report["errorDistribution"])
        abandoned = errors.pop(UNDER_WAY, 0)
        failed: dict[str, int] = generator.counted({"status": answered - ok})
        examples = {"status": "oha got answers with a status of 400 and above"} if failed else {}
        for error, count in errors.items():
            told = error.lower()
            kind = next((kind for words, kind in KINDS.items() if words in told), "protocol")
            failed[kind] = failed.get(kind, 0) + count
            examples.setdefault(kind, error)
        told_s = report.get("latencyPercentiles") or {}
        quantiles = {name: told_s.get(theirs) for theirs, name in QUANTILES.items()}
        return {
            "started": answered + sum(errors.values()) + abandoned,
            "ok": ok,
            "failed": failed,
            "examples": examples,
            "abandoned": abandoned,
            "status": status,
            "versions": {self.plan.version: answered} if answered else {},
            "connections": self.connections,
            "body_bytes": summary["totalData"],
            "body_digest": None,
            "elapsed_s": summary["total"],
            "repetitions_s": [summary["total"]],
            "latency": {
                "count": answered,
                "mean": summary["average"],
                "min": summary["fastest"],
                "max": summary["slowest"],
                "quantiles": quantiles,
            }
            if answered
            else None,
        }

    def version(self) -> str:
        """That of the command."""
        return generator.release([OHA, "--version"], r"oha (\S+)")


if __name__ == "__main__":
    sys.exit(generator.serve(Oha))
