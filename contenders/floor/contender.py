# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "hdrhistogram==0.10.8",
#     "pbr==7.1.3",
#     "setuptools==84.2.1",
# ]
#
# [tool.trilane]
# name = "floor"
# title = "a loop that parses nothing"
# note = "two system calls for each response; built from a checkout of Trilane"
# versions = ["h1"]
# strategies = ["load"]
# requires = ["cargo"]
# build = [
#     [
#         "cargo", "install", "--quiet", "--locked", "--no-track",
#         "--path", ".", "--root", "{build}", "--target-dir", "{build}/target",
#     ],
#     ["rm", "-r", "{build}/target"],
# ]
# ///
"""The floor under HTTP/1.1 load: a loop on epoll that counts bytes and parses nothing.

It learns the length of a response from a first one, and takes that many bytes for the next. So it
is no client, but the price of the system calls that every client pays.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane_contender import generator
from trilane_contender.generator import Generator

FLOOR = str(Path(sys.argv[1]) / "bin" / "trilane-floor") if sys.argv[1:] else "trilane-floor"


class Floor(Generator):
    """The loop, for one path over HTTP/1.1 without TLS."""

    name = "floor"
    versions = ("h1",)
    length = 0.0
    """Of the body of a response, in bytes."""

    def cannot(self) -> Iterable[tuple[bool, str]]:
        """The loop sends the same bytes over and over, for a time."""
        plan = self.plan
        return (
            (plan.scheme == "https", "the loop knows no TLS: it needs tls = false"),
            (plan.workload.duration_s is None, "the loop works for a duration: it counts nothing"),
            (len(plan.workload.paths) != 1, "the loop sends one request over and over"),
            (
                plan.method != "GET" or self.body is not None,
                f"the loop sends GET without a body, not {plan.method}",
            ),
        )

    def verify(self) -> None:
        """Ask for the path once."""
        self.length = self.get_all()

    def run(self, seconds: float | None) -> str:
        """What the loop printed."""
        plan = self.plan
        fields = [f"{name}: {value}" for name, value in plan.headers]
        words = [FLOOR, plan.host, str(plan.port), plan.workload.paths[0]]
        return self.output([*words, str(self.connections), f"{seconds:g}", *fields], seconds or 0.0)

    def result(self, output: str) -> dict[str, Any]:
        """Every connection has one request under way when the loop stops."""
        report = generator.report(self.name, output)
        ok, elapsed_s = int(report["requests"]), float(report["seconds"])
        return {
            "started": ok + self.connections,
            "ok": ok,
            "failed": {},
            "examples": {},
            "abandoned": self.connections,
            "status": {},
            "versions": {"h1": ok},
            "connections": self.connections,
            "body_bytes": round(ok * self.length),
            "body_digest": None,
            "elapsed_s": elapsed_s,
            "repetitions_s": [elapsed_s],
            "latency": None,
        }

    def version(self) -> str:
        """It has none of its own: it is built from the checkout that measures."""
        return "of this checkout"


if __name__ == "__main__":
    sys.exit(generator.serve(Floor))
