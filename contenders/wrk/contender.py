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
"""wrk as a contender: this script starts it as its child and translates what it reports.

wrk reads bodies without looking at them and cannot verify a certificate. So the script itself asks
for each path once, verifying the server's certificate, before it says that it is ready.
"""

import base64
import contextlib
import http.client
import json
import math
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from hdrh.histogram import HdrHistogram

from trilane_contender.plan import BadPlan, Plan, parse

FOLDER = Path(__file__).resolve().parent
WRK = shutil.which("wrk") or "wrk"
MARK = "trilane "
LOWEST_NS = 1_000
HIGHEST_NS = 3_600_000_000_000
GRACE_S = 30.0
# Slower answers than the plan's timeout are wrk's to report.
VERIFY_S = 30.0
EXAMPLES = {
    "connect": "wrk could not connect",
    "reset": "wrk could not write a request or read a response",
    "status": "wrk counts answers with a status of 400 and above",
    "timeout": "wrk counts answers later than its timeout and drops their latencies",
}


def say(**event: Any) -> None:
    """One event of the protocol."""
    print(json.dumps(event), flush=True)


def refusal(plan: Plan) -> str | None:
    """Why wrk cannot do the plan."""
    seconds = plan.workload.duration_s
    reasons = (
        (plan.version != "h1", f"wrk speaks HTTP/1.1 only, not {plan.version}"),
        (plan.strategy != "load", f"wrk has no strategy {plan.strategy!r}, only load"),
        (seconds is None, "wrk works for a duration: it cannot count requests or follow links"),
        (
            seconds is not None and (seconds < 1 or seconds % 1 > 0),
            f"wrk counts in whole seconds, not in {seconds} s",
        ),
        (not plan.session, "wrk keeps its connections: it needs session = true"),
        (plan.gzip, "wrk does not decode gzip"),
        (plan.body_file is not None or plan.discard, "wrk holds whole bodies in memory"),
        (plan.warmup > 0, "wrk warms up by time, not by a number of requests"),
        (plan.repeat > 1, "wrk does not repeat a workload"),
    )
    return next((reason for applies, reason in reasons if applies), None)


def verify(plan: Plan) -> float:
    """Ask for each path once, with the certificate verified: the mean length of the bodies.

    Raises if the server cannot be trusted, does not answer or speaks something else.
    """
    if plan.scheme == "https":
        trust = ssl.create_default_context(cafile=plan.cacert)
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            plan.host, plan.port, timeout=VERIFY_S, context=trust
        )
    else:
        connection = http.client.HTTPConnection(plan.host, plan.port, timeout=VERIFY_S)
    lengths = []
    with contextlib.closing(connection):
        for path in plan.workload.paths:
            connection.request(plan.method, path, plan.body, dict(plan.headers))
            response = connection.getresponse()
            lengths.append(len(response.read()))
            if response.version != 11:
                raise ConnectionError(f"HTTP version {response.version} was spoken, not HTTP/1.1")
    return sum(lengths) / len(lengths)


def command(plan: Plan, threads: int, body: Path | None, seconds: float) -> list[str]:
    """wrk's own words. `seconds` is a whole number."""
    connections = plan.connections or plan.in_flight
    words = [WRK, "--connections", str(connections), "--threads", str(min(threads, connections))]
    words += ["--duration", f"{seconds:.0f}s", "--timeout", f"{math.ceil(plan.timeout_s)}s"]
    words += ["--script", str(FOLDER / "report.lua")]
    for name, value in plan.headers:
        words += ["--header", f"{name}: {value}"]
    words += [plan.target + plan.workload.paths[0], "--"]
    return [*words, plan.method, str(body or ""), *plan.workload.paths]


def run(words: list[str], seconds: float) -> dict[str, Any]:
    """Run wrk once; what its script reported."""
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=seconds + GRACE_S, check=False
    )
    sys.stderr.write(done.stderr)
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            report: dict[str, Any] = json.loads(line.removeprefix(MARK))
            return report
    raise RuntimeError(f"wrk reported nothing: {(done.stderr or done.stdout).strip()[:300]}")


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


def result(plan: Plan, report: dict[str, Any], length: float) -> dict[str, Any]:
    """wrk's report in the words of the protocol. `length` is the mean of a body in bytes.

    Every connection has one request under way when wrk stops, which wrk does not count.
    """
    answered, status, late = report["requests"], report["status"], report["timeout"]
    latencies = observed(report, plan.connections or plan.in_flight)
    failed = {
        "connect": report["connect"],
        "reset": report["read"] + report["write"],
        "status": status,
        "timeout": late,
    }
    ok = max(0, answered - status - late)
    abandoned = (plan.connections or plan.in_flight) if answered else 0
    failed = {kind: count for kind, count in failed.items() if count}
    return {
        "started": ok + sum(failed.values()) + abandoned,
        "ok": ok,
        "failed": failed,
        "examples": {kind: EXAMPLES[kind] for kind in failed},
        "abandoned": abandoned,
        # wrk counts only whether a status is 400 or more.
        "status": {},
        "versions": {"h1": answered} if answered else {},
        "connections": plan.connections or plan.in_flight,
        # wrk counts bytes with their heads.
        "body_bytes": round(answered * length),
        "body_digest": None,
        "elapsed_s": report["duration_us"] / 1e6,
        "repetitions_s": [report["duration_us"] / 1e6],
        "latency": {"hdr": histogram(latencies)} if latencies else None,
    }


def histogram(counts: dict[int, int]) -> str:
    """The same in nanoseconds, encoded."""
    made = HdrHistogram(LOWEST_NS, HIGHEST_NS, 3)
    for microseconds, count in counts.items():
        made.record_value(min(max(microseconds * 1000, LOWEST_NS), HIGHEST_NS), count)
    encoded: bytes = made.encode()
    base64.b64decode(encoded, validate=True)
    return encoded.decode("ascii")


def version() -> str:
    """What `wrk -v` says of itself; it exits with 1 while doing so."""
    told = subprocess.run([WRK, "-v"], capture_output=True, text=True, timeout=10, check=False)
    found = re.search(r"wrk (\S+)", told.stdout + told.stderr)
    return found[1] if found else "unknown"


def serve(line: str) -> int:
    """One plan, from its line to its result. Returns the exit code."""
    try:
        plan = parse(line)
    except BadPlan as error:
        say(event="cannot", reason=str(error))
        return 0
    if reason := refusal(plan):
        say(event="cannot", reason=reason)
        return 0
    threads = int(json.loads(line).get("threads") or 1)
    seconds = plan.workload.duration_s or 0.0
    with tempfile.TemporaryDirectory(prefix="trilane-wrk-") as folder:
        body = None
        if plan.body is not None:
            body = Path(folder) / "body"
            body.write_bytes(plan.body)
        try:
            length = verify(plan)
            if plan.warmup_s:
                warm = math.ceil(plan.warmup_s)
                run(command(plan, threads, body, warm), warm)
            say(
                event="ready",
                library="wrk",
                library_version=version(),
                runtime=f"{os.uname().sysname} {os.uname().machine}",
                sessions="one",
            )
            if sys.stdin.readline().strip() != "start":
                return 0
            report = run(command(plan, threads, body, seconds), seconds)
        except (OSError, http.client.HTTPException, RuntimeError) as error:
            sys.stderr.write(f"{plan.origin}: {error}\n")
            return 1
    say(event="done")
    say(event="result", **result(plan, report, length))
    return 0


if __name__ == "__main__":
    sys.exit(serve(sys.stdin.readline()))
