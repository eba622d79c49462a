"""What a contender delivered, as a `trilane.run/1`, and whether it counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hdrh.histogram import HdrHistogram

from trilane import __version__, build_profile, revision
from trilane.lab.analysis.measures import Json
from trilane.lab.clients.contender_run import Delivered
from trilane.lab.clients.observe import LOOPBACK
from trilane.lab.clients.plan import header_fields
from trilane.lab.design.workload import ArmSpec, Workload

# METHOD §5: more failures than this make a run invalid.
_MAX_FAILED = 0.001
_QUANTILES = (
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99_9", 0.999),
    ("p99_99", 0.9999),
)
_NS = 1e9
_FAILURES_TOLD = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """What the run was to do."""

    contender: str
    arm: ArmSpec
    workload: Workload
    url: str
    started_at: str
    cpus: Sequence[int] | None
    expected_digest: int | None
    """Sum of the CRC-32 of all bodies; None where the set of pages depends on timing."""
    expected_bytes: int | None = None
    """Sum of their lengths, for clients that only count; None where the digest is."""
    passes: int = 1
    """How often each byte crosses the loopback interface: 2 with a relay between."""


def run_of(asked: Asked, delivered: Delivered) -> Json:
    """The run; its validity says what is wrong with it."""
    result, ready = delivered.result, delivered.ready
    ok = int(result["ok"])
    failures = {str(kind): int(count) for kind, count in (result.get("failed") or {}).items()}
    failed = sum(failures.values())
    elapsed = float(result["elapsed_s"])
    versions = {str(v): int(n) for v, n in (result.get("versions") or {}).items() if n}
    answered = ok + failed
    run: Json = {
        "schema": "trilane.run/1",
        "trilane": {
            "version": __version__,
            "revision": revision or "unknown",
            "profile": build_profile,
        },
        "started_at": asked.started_at,
        "interrupted": False,
        "client": {
            "name": asked.contender,
            "library": str(ready.get("library")),
            "library_version": str(ready.get("library_version")),
            "runtime": str(ready.get("runtime")),
        },
        "target": _target(asked, result, versions),
        "plan": _plan(asked),
        "requests": {
            "started": int(result["started"]),
            "ok": ok,
            "failed": failed,
            "abandoned": int(result.get("abandoned") or 0),
            "unsent": 0,
            "censored": failures.get("timeout", 0),
            "retried": 0,
            "early_responses": None,
            "failures": {
                kind: {
                    "count": count,
                    "example": str((result.get("examples") or {}).get(kind) or kind),
                }
                for kind, count in failures.items()
                if count
            },
            "warmup": {"started": 0, "ok": 0, "failed": 0},
        },
        "status": {str(code): int(n) for code, n in (result.get("status") or {}).items()},
        "rate": {
            "requests_per_s": ok / elapsed if elapsed > 0 else 0.0,
            "goodput_bytes_per_s": int(result["body_bytes"]) / elapsed if elapsed > 0 else 0.0,
            "window_s": elapsed,
        },
        "latency": {
            "service": _latency(result.get("latency")),
            "response": None,
            "late": None,
            "failed": None,
            "queued": None,
            "ttfb": None,
        },
        "connections": None,
        "phases": None,
        "bytes": None,
        "cost": {
            **_cpu_split(delivered),
            # As in the engine: what failed was paid for by what was got.
            "cpu_us_per_request": 1e6 * delivered.cpu_s / ok if ok else None,
            "server_cpu_us_per_request": None,
            "context_switches": delivered.ending.process(
                delivered.begin, delivered.peak_rss, delivered.started
            )["context_switches"],
            "syscalls": None,
            "peak_rss_bytes": delivered.peak_rss,
            "busy": _busy(asked, delivered),
        },
        "elapsed_s": elapsed,
        "process": delivered.ending.process(delivered.begin, delivered.peak_rss, delivered.started),
        "windows": [],
    }
    # A load generator such as wrk does not look into the bodies.
    if result.get("body_digest") is not None:
        run["content"] = {
            "bytes": int(result["body_bytes"]),
            "digest": int(result["body_digest"]),
            "expected": asked.expected_digest,
        }
    elif asked.workload.discard:
        run["content"] = {"bytes": int(result["body_bytes"]), "digest": None, "expected": None}
    if delivered.wire_bytes is not None:
        run["wire"] = {
            "bytes": delivered.wire_bytes // asked.passes,
            "requests": answered,
            "interface": LOOPBACK,
            "passes": asked.passes,
        }
    seconds = [float(value) for value in result.get("repetitions_s") or []]
    if seconds:
        run["repetitions"] = {
            "count": len(seconds),
            "mean_s": sum(seconds) / len(seconds),
            "seconds": seconds,
        }
    reasons = problems(asked, run, versions)
    run["validity"] = {
        "verdict": "invalid" if reasons else "valid",
        "reasons": reasons,
        "bound": None,
    }
    return run


def problems(asked: Asked, run: Json, versions: dict[str, int]) -> list[str]:
    """Why the run must not be ranked; empty when it may."""
    requests, arm = run["requests"], asked.arm
    answered = requests["ok"] + requests["failed"]
    found = []
    if requests["started"] != answered + requests["abandoned"]:
        found.append(
            f"{requests['started']} requests were started, but "
            f"{answered + requests['abandoned']} accounted for"
        )
    if requests["ok"] == 0:
        found.append("no request was answered as expected")
    elif requests["failed"] > _MAX_FAILED * answered:
        share = 100 * requests["failed"] / answered
        told = "; ".join(
            str(f["example"])[:200] for f in list(requests["failures"].values())[:_FAILURES_TOLD]
        )
        found.append(f"{share:.2g} % of responses failed: {told}")
    other = {version: n for version, n in versions.items() if version != arm.version}
    if other:
        obtained = ", ".join(f"{version} {n} times" for version, n in other.items())
        found.append(f"{arm.version} was asked for, but obtained was {obtained}")
    content = run.get("content", {"digest": None, "expected": None})
    if content["digest"] is None:
        read, wanted = content.get("bytes"), asked.expected_bytes
        wrong = None not in (read, wanted) and read != wanted
    else:
        wrong = content["expected"] is not None and content["digest"] != content["expected"]
    if wrong and not requests["failed"]:
        found.append("the bodies read are not those that the server has")
    return found


def _target(asked: Asked, result: Json, versions: dict[str, int]) -> Json:
    connections = result.get("connections")
    return {
        "url": asked.url,
        "version": max(versions, key=versions.__getitem__) if versions else None,
        "versions": versions,
        "alpn": None,
        "tls": None,
        "peer": None,
        "congestion_control": None,
        "mtu": None,
        "server": None,
        "server_settings": None,
        "client_settings": None,
        "body": None,
        "connections": None if connections is None else int(connections),
    }


def _plan(asked: Asked) -> Json:
    arm, workload = asked.arm, asked.workload
    return {
        "connections": arm.connections,
        "streams": arm.streams,
        "threads": arm.threads,
        "model": "closed",
        "rate_per_s": None,
        "requests": workload.count,
        "duration_s": workload.duration_s,
        "warmup_s": 0.0,
        "timeout_s": workload.timeout_s,
        "cpus": None if asked.cpus is None else list(asked.cpus),
        "request": {
            "method": workload.method,
            "urls": len(workload.paths) if workload.kind == "urls" else workload.count or 1,
            "header_fields": len(header_fields(arm, workload)),
            "header_bytes": None,
            "body_bytes": workload.file_bytes or len(workload.body or b""),
            "coding": "gzip" if arm.gzip else None,
        },
        "strategy": arm.strategy,
        "session": arm.session,
        "in_flight": arm.in_flight,
        "processes": arm.processes,
        "workload": workload_text(workload),
    }


def workload_text(workload: Workload) -> str:
    """The workload in a few words."""
    if workload.kind == "index":
        return f"{workload.method} {workload.index}, then {workload.item} of each id"
    if workload.kind == "crawl":
        return f"pages linked from {workload.start}"
    paths = ", ".join(workload.paths[:3]) + (", …" if len(workload.paths) > 3 else "")
    size = workload.file_bytes or len(workload.body or b"")
    body = f" with {size} bytes" if size else ""
    return f"{workload.method} {paths}{body}"


def _cpu_split(delivered: Delivered) -> Json:
    """User and system share of the CPU while the workload ran."""
    total = delivered.cpu_s
    usage, begin = delivered.ending.usage, delivered.begin
    # The kernel splits a running process at 10 ms only; the split of the rest of its life is exact.
    user = max(0.0, usage.ru_utime - begin.user_s)
    system = max(0.0, usage.ru_stime - begin.system_s)
    share = user / (user + system) if user + system else 1.0
    return {"user_s": total * share, "system_s": total * (1 - share)}


def _busy(asked: Asked, delivered: Delivered) -> list[float]:
    """Share of the time that the client computed: of one CPU for each of its processes.

    An interpreter with a global lock gets no further than 1, however many threads it has.
    """
    span = delivered.end.at - delivered.begin.at
    processes = asked.arm.processes or asked.workload.repeat_processes or 1
    return [min(1.0, delivered.cpu_s / span / processes)] if span > 0 else []


def _latency(told: Any) -> Json | None:
    if not isinstance(told, dict):
        return None
    if told.get("hdr"):
        return histogram_summary(str(told["hdr"]))
    quantiles = told.get("quantiles") or {}
    count = int(told.get("count") or 0)
    return {
        "count": count,
        "min": told.get("min"),
        "mean": told.get("mean"),
        "stdev": told.get("stdev"),
        **{
            name: quantiles.get(name) if enough(count, quantile) else None
            for name, quantile in _QUANTILES
        },
        "max": told.get("max"),
        "hdr": None,
    }


def histogram_summary(blob: str) -> Json:
    """Summary in seconds of an HdrHistogram that holds nanoseconds."""
    histogram = HdrHistogram.decode(blob)
    count = int(histogram.get_total_count())
    return {
        "count": count,
        "min": histogram.get_min_value() / _NS if count else None,
        "mean": histogram.get_mean_value() / _NS if count else None,
        "stdev": histogram.get_stddev() / _NS if count else None,
        **{
            name: histogram.get_value_at_percentile(100 * quantile) / _NS
            if enough(count, quantile)
            else None
            for name, quantile in _QUANTILES
        },
        "max": histogram.get_max_value() / _NS if count else None,
        "hdr": blob,
    }


def enough(count: int, quantile: float) -> bool:
    """METHOD §2: a quantile needs at least 10 / (1 - q) samples."""
    return count * (1 - quantile) >= 10 - 1e-9
