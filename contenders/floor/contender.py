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
# note = "what sending, receiving and ciphers cost alone; built from a checkout of Trilane"
# versions = ["h1", "h3"]
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
"""The floor under load: loops that do nothing with what they get.

Over HTTP/1.1 the loop learns the length of a response from a first one, and takes that many bytes
for the next. Over HTTP/3 it opens each datagram and counts the streams that end in it. So neither
is a client, but the price of the system calls and of the cryptography that every client pays.
"""

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from trilane_contender import generator
from trilane_contender.generator import Generator

FLOOR = str(Path(sys.argv[1]) / "bin" / "trilane-floor") if sys.argv[1:] else "trilane-floor"


class Floor(Generator):
    """The loops, for one path over HTTP/1.1 without TLS, or over HTTP/3."""

    name = "floor"
    versions = ("h1", "h3")
    length = 0.0
    """Of the body of a response, in bytes."""

    @property
    def under_way(self) -> int:
        """Requests at one time, on all connections together."""
        streams = self.streams if self.plan.version == "h3" else 1
        return self.connections * streams

    @property
    def streams(self) -> int:
        """Requests at one time on one connection of HTTP/3."""
        return max(1, self.plan.in_flight // self.connections)

    def cannot(self) -> Iterable[tuple[bool, str]]:
        """The loops send the same bytes over and over, for a time."""
        plan = self.plan
        return (
            (
                plan.version == "h1" and plan.scheme == "https",
                "the loop over HTTP/1.1 knows no TLS: it needs tls = false",
            ),
            (
                plan.version == "h3" and plan.cacert is None,
                "the loop over HTTP/3 needs a cacert to verify by",
            ),
            (plan.workload.duration_s is None, "the loop works for a duration: it counts nothing"),
            (len(plan.workload.paths) != 1, "the loop sends one request over and over"),
            (
                plan.method != "GET" or self.body is not None,
                f"the loop sends GET without a body, not {plan.method}",
            ),
        )

    def verify(self) -> None:
        """Ask for the path once, over HTTP/1.1: HTTP/3 is there on the same port, over UDP."""
        self.length = self.get_all()

    def run(self, seconds: float | None) -> str:
        """What the loop printed."""
        plan = self.plan
        words = [FLOOR]
        if plan.version == "h3" and plan.cacert is not None:
            words += ["--http3", "--streams", str(self.streams), "--cacert", plan.cacert]
        words += [plan.host, str(plan.port), plan.workload.paths[0]]
        words += [str(self.connections), f"{seconds:g}"]
        words += [f"{name}: {value}" for name, value in plan.headers]
        return self.output(words, seconds or 0.0)

    def result(self, output: str) -> dict[str, Any]:
        """Every connection has as many requests under way as it may when the loop stops.

        The loop says what it used while it measured: its handshakes are not in it.
        """
        report = generator.report(self.name, output)
        ok, elapsed_s = int(report["requests"]), float(report["seconds"])
        if self.used is not None:
            used = {name: report[name] for name in ("user_s", "system_s")}
            switches = {name: report[name] for name in ("voluntary", "involuntary")}
            self.used = replace(self.used, **used, **switches)
        return {
            "started": ok + self.under_way,
            "ok": ok,
            "failed": {},
            "examples": {},
            "abandoned": self.under_way,
            "status": {},
            "versions": {self.plan.version: ok},
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
