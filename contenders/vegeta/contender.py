# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "hdrhistogram==0.10.8",
#     "pbr==7.1.3",
#     "setuptools==84.2.1",
# ]
#
# [tool.trilane]
# name = "vegeta"
# title = "vegeta"
# note = "opens a connection where none is idle; its latencies run from when requests were sent"
# versions = ["h1", "h2", "h2c"]
# strategies = ["load"]
# rates = true
# requires = ["go"]
# build = [[
#     "go", "build", "-buildvcs=false", "-o", "{build}/vegeta", "github.com/tsenart/vegeta/v12",
# ]]
# ///
"""vegeta as a contender: this script starts it and translates its log of every request."""

import csv
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane_contender import generator
from trilane_contender.generator import Generator
from trilane_contender.tally import histogram

VEGETA = str(Path(sys.argv[1]) / "vegeta") if sys.argv[1:] else "vegeta"
# What its errors are, by words in them, the most special first.
KINDS = {
    "timeout": "timeout",
    "deadline exceeded": "timeout",
    "refused": "refused",
    "no such host": "dns",
    "certificate": "tls",
    "tls": "tls",
    "reset": "reset",
    "goaway": "goaway",
    "eof": "closed",
    "closed": "closed",
    "dial": "connect",
}
# How long the translation of its log may take.
ENCODE_S = 120.0
# Columns of its log as CSV.
TIMESTAMP, CODE, LATENCY, BYTES_IN, ERROR, SEQUENCE = 0, 1, 2, 4, 5, 8


class Vegeta(Generator):
    """vegeta, at a rate or as fast as so many workers can."""

    name = "vegeta"
    versions = ("h1", "h2", "h2c")

    def cannot(self) -> Iterable[tuple[bool, str]]:
        """vegeta sends for a time and keeps the bodies that come."""
        return (
            (self.plan.workload.count is not None, "vegeta sends for a duration, and counts not"),
            (self.plan.discard, "vegeta holds whole bodies in memory"),
        )

    def verify(self) -> None:
        """Ask for the paths, or shake hands: vegeta itself tells of errors only afterwards."""
        if self.plan.version == "h1":
            self.get_all()
        else:
            self.shake_hands("h2")

    @property
    def log(self) -> Path:
        """What vegeta writes of each request."""
        return self.folder / "results.bin"

    def run(self, seconds: float | None) -> str:
        """Have it send; what came of it is in its log."""
        plan = self.plan
        if seconds is None:
            raise RuntimeError("vegeta sends for a duration")
        targets = self.folder / "targets"
        body = f"\n@{self.body}" if self.body is not None else ""
        paths = plan.workload.paths
        targets.write_text(
            "\n\n".join(f"{plan.method} {plan.target}{path}{body}" for path in paths) + "\n"
        )
        words = [VEGETA, f"-cpus={self.threads}", "attack", f"-targets={targets}"]
        words += [f"-output={self.log}", f"-duration={round(seconds * 1000)}ms"]
        words += [f"-timeout={plan.timeout_s:g}s", "-redirects=-1"]
        words += [f"-connections={self.connections}", f"-workers={plan.in_flight}"]
        if plan.rate_per_s is None:
            words += ["-rate=0", f"-max-workers={plan.in_flight}"]
        else:
            words += [f"-rate={round(plan.rate_per_s)}/1s"]
        words += ["-h2c"] if plan.version == "h2c" else []
        words += [f"-http2={str(plan.version == 'h2').lower()}"]
        words += [f"-root-certs={plan.cacert}"] if plan.cacert else []
        words += [f"-header={name}: {value}" for name, value in plan.headers]
        return self.output(words, seconds)

    def result(self, output: str) -> dict[str, Any]:
        """Every request by its line: when it was sent, how long it took, and what became of it."""
        del output
        printed = self.folder / "results.csv"
        words = [VEGETA, "encode", "-to=csv", f"-output={printed}", str(self.log)]
        subprocess.run(words, check=True, timeout=ENCODE_S)
        # Bodies stand in it, in base64.
        csv.field_size_limit(sys.maxsize)
        with printed.open(newline="") as lines:
            rows = [
                (
                    int(row[TIMESTAMP]),
                    int(row[CODE]),
                    int(row[LATENCY]),
                    int(row[BYTES_IN]),
                    row[ERROR],
                    int(row[SEQUENCE]),
                )
                for row in csv.reader(lines)
            ]
        if not rows:
            raise RuntimeError("vegeta has sent nothing")
        status: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        examples: dict[str, str] = {}
        latencies: Counter[int] = Counter()
        ok = received = 0
        for _, code, latency_ns, length, error, _ in rows:
            received += length
            if code:
                status[str(code)] += 1
                latencies[latency_ns] += 1
            if 200 <= code < 400:
                ok += 1
                continue
            kind = "status" if code else _kind(error)
            failed[kind] += 1
            examples.setdefault(kind, error or f"vegeta got the status {code}")
        answered = sum(status.values())
        ends = [sent + latency_ns for sent, _, latency_ns, *_ in rows]
        elapsed_s = (max(ends) - min(row[0] for row in rows)) / 1e9
        return {
            "started": len(rows),
            "ok": ok,
            "failed": dict(failed),
            "examples": examples,
            "abandoned": 0,
            "status": dict(status),
            "versions": {self.plan.version: answered} if answered else {},
            # It opens as many as it needs, and does not tell.
            "connections": None,
            "body_bytes": received,
            "body_digest": None,
            "elapsed_s": elapsed_s,
            "repetitions_s": [elapsed_s],
            "latency": histogram(latencies),
            "late": self._late([(row[0], row[5]) for row in rows]),
        }

    def _late(self, sent: list[tuple[int, int]]) -> dict[str, str] | None:
        """How much later requests were sent than they were due, beside the most punctual one."""
        if self.plan.rate_per_s is None:
            return None
        interval_ns = 1e9 / self.plan.rate_per_s
        offsets = [at - number * interval_ns for at, number in sent]
        least = min(offsets)
        return histogram(Counter(round(offset - least) for offset in offsets))

    def version(self) -> str:
        """That of the module which was built."""
        words = ["go", "version", "-m", VEGETA]
        return generator.release(words, r"mod\s+github.com/tsenart/vegeta/v12\s+v(\S+)")


def _kind(error: str) -> str:
    told = error.lower()
    return next((kind for words, kind in KINDS.items() if words in told), "protocol")


if __name__ == "__main__":
    sys.exit(generator.serve(Vegeta))
