# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "hdrhistogram==0.10.8",
#     "pbr==7.1.3",
#     "setuptools==84.2.1",
# ]
#
# [tool.trilane]
# name = "ghz"
# title = "ghz"
# note = "calls of gRPC alone, by grpc-go; encodes every message"
# versions = ["h2", "h2c"]
# strategies = ["load"]
# requires = ["go"]
# build = [["go", "build", "-buildvcs=false", "-o", "{build}/ghz", "github.com/bojand/ghz/cmd/ghz"]]
# ///
"""ghz as a contender: this script starts it and translates its report in JSON."""

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane_contender import generator
from trilane_contender.generator import Generator

GHZ = str(Path(sys.argv[1]) / "ghz") if sys.argv[1:] else "ghz"
# A count has no time of its own.
LONGEST_S = 3600.0
# gRPC's statuses by the kinds of the protocol; the others are the call's own failure.
KINDS = {
    "Canceled": "reset",
    "DeadlineExceeded": "timeout",
    "ResourceExhausted": "limit",
    "Unavailable": "connect",
}
# Of fields that gRPC writes itself.
OWN = frozenset({"te", "content-type", "accept-encoding"})


class Ghz(Generator):
    """ghz, for one unary call."""

    name = "ghz"
    versions = ("h2", "h2c")
    speaks_grpc = True

    def cannot(self) -> Iterable[tuple[bool, str]]:
        """ghz shares its workers and its calls out among the connections."""
        count = self.plan.workload.count
        return (
            (
                count is not None and count < self.plan.in_flight,
                f"ghz has no fewer calls than workers: {count} for {self.plan.in_flight}",
            ),
        )

    def verify(self) -> None:
        """Shake hands: a call is made only once everything is there."""
        self.shake_hands("h2")

    def run(self, seconds: float | None) -> str:
        """What ghz printed."""
        plan, call = self.plan, self.plan.call
        if call is None:
            raise RuntimeError("ghz makes calls only")
        # It shares its workers out among the connections. `wait` lets the last calls end well.
        words = [GHZ, f"--connections={self.connections}", f"--concurrency={plan.in_flight}"]
        words += [f"--cpus={self.threads}", f"--timeout={math.ceil(plan.timeout_s)}s"]
        if seconds is None:
            words += [f"--total={plan.workload.count}"]
        else:
            words += [f"--duration={seconds:g}s", "--duration-stop=wait"]
        words += [f"--cacert={plan.cacert}"] if plan.cacert else []
        words += ["--insecure"] if plan.scheme == "http" else []
        fields = {name: value for name, value in plan.headers if name not in OWN}
        words += [f"--metadata={json.dumps(fields)}"] if fields else []
        words += ["--disable-template-functions", "--disable-template-data", "--format=json"]
        words += [f"--proto={call.definition}", f"--import-paths={call.definitions}"]
        words += [f"--call={plan.workload.paths[0].lstrip('/')}", f"--data={call.message}"]
        words += [f"{plan.host}:{plan.port}"]
        limit_s = LONGEST_S if seconds is None else seconds + plan.timeout_s
        return self.output(words, limit_s)

    def result(self, output: str) -> dict[str, Any]:
        """A call is ok by its gRPC status."""
        report = generator.report(self.name, output)
        ended = Counter(report.get("statusCodeDistribution") or {})
        ok = ended.pop("OK", 0)
        failed: Counter[str] = Counter()
        examples: dict[str, str] = {}
        for status, count in ended.items():
            kind = KINDS.get(status, "status")
            failed[kind] += count
            examples.setdefault(kind, f"gRPC status {status}")
        latencies = Counter(
            round(call["latency"] / 1000)
            for call in report.get("details") or ()
            if call["status"] == "OK"
        )
        elapsed_s = report["total"] / 1e9
        return {
            "started": ok + sum(failed.values()),
            "ok": ok,
            "failed": dict(failed),
            "examples": examples,
            "abandoned": 0,
            "status": {},
            "versions": {self.plan.version: ok} if ok else {},
            "connections": self.connections,
            # ghz does not tell how many bytes a message has.
            "body_bytes": 0,
            "body_digest": None,
            "elapsed_s": elapsed_s,
            "repetitions_s": [elapsed_s],
            "latency": generator.latency(latencies) if self.plan.latency else None,
        }

    def version(self) -> str:
        """The version of the module that it was built from."""
        return generator.release(["go", "version", "-m", GHZ], r"bojand/ghz\s+v(\S+)")


if __name__ == "__main__":
    sys.exit(generator.serve(Ghz))
