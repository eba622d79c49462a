"""What a contender delivered, as a `trilane.run/1`, and whether it counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hdrh.histogram import HdrHistogram
from msgspec.structs import replace

from trilane import __version__, build_profile, revision
from trilane.lab.clients.contender_messages import Latencies, Result
from trilane.lab.clients.contender_run import Delivered
from trilane.lab.clients.plan import header_fields
from trilane.lab.experiment.workload import ArmSpec, Workload
from trilane.lab.model.contender import Client, Content, ContextSwitches, Repetitions, Wire
from trilane.lab.model.run import (
    SCHEMA,
    Failure,
    Plan,
    Program,
    Request,
    Requests,
    Run,
    Target,
)
from trilane.lab.model.traffic import (
    QUANTILES,
    Cost,
    Distribution,
    ErrorKind,
    Latency,
    Rate,
    enough,
)
from trilane.lab.model.validity import MOST_FAILED, Reason, ReasonCode, RunValidity

if TYPE_CHECKING:
    from trilane.lab.clients.executor import Setting

_NS = 1e9
_FAILURES_TOLD = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """What the run was to do."""

    arm: ArmSpec
    workload: Workload
    setting: Setting
    url: str
    started_at: str


def run_of(asked: Asked, delivered: Delivered) -> Run:
    """The run; its validity says what is wrong with it."""
    result, ready = delivered.result, delivered.ready
    ok, elapsed = result.ok, result.elapsed_s
    failures = _failures(result)
    versions = {version: count for version, count in (result.versions or {}).items() if count}
    process = delivered.ending.process(delivered.peak_rss, delivered.begin)
    user_s, system_s = _cpu_split(delivered)
    used = result.program
    peak_rss = delivered.peak_rss if used is None else used.peak_rss_bytes
    if used is not None:
        switches = ContextSwitches(voluntary=used.voluntary, involuntary=used.involuntary)
        process = replace(process, context_switches=switches, peak_rss_bytes=peak_rss)
    run = Run(
        schema=SCHEMA,
        trilane=program(),
        started_at=asked.started_at,
        interrupted=False,
        client=Client(
            name=asked.arm.client,
            library=ready.library,
            library_version=ready.library_version,
            runtime=ready.runtime,
        ),
        target=Target.of_client(asked.url, versions, result.connections),
        plan=_plan(asked),
        requests=Requests.of_client(result.started, ok, result.abandoned, failures),
        status=result.status or {},
        rate=Rate(
            requests_per_s=ok / elapsed if elapsed > 0 else 0.0,
            goodput_bytes_per_s=result.body_bytes / elapsed if elapsed > 0 else 0.0,
            window_s=elapsed,
        ),
        latency=Latency.of_client(_latency(result.latency), _latency(result.late)),
        connections=None,
        phases=None,
        bytes=None,
        cost=Cost(
            user_s=user_s,
            system_s=system_s,
            # As in the engine: what failed was paid for by what was got.
            cpu_us_per_request=1e6 * (user_s + system_s) / ok if ok else None,
            server_cpu_us_per_request=None,
            context_switches=process.context_switches,
            syscalls=None,
            peak_rss_bytes=peak_rss,
            busy=_busy(asked, delivered, user_s + system_s),
        ),
        elapsed_s=elapsed,
        process=process,
        windows=[],
        content=_content(asked, result),
        wire=_wire(asked, delivered),
        repetitions=_repetitions(result),
        validity=RunValidity.of([]),
    )
    return run.doubted(*problems(asked, run))


def program() -> Program:
    """This program, as a run names it."""
    return Program(version=__version__, revision=revision or "unknown", profile=build_profile)


def problems(asked: Asked, run: Run) -> list[Reason]:
    """Why the run must not be ranked; empty when it may."""
    requests, arm = run.requests, asked.arm
    answered = requests.ok + requests.failed
    ended = answered + requests.abandoned
    found: list[tuple[ReasonCode, str]] = []
    if requests.started != ended:
        text = f"{requests.started} requests were started, but {ended} accounted for"
        found.append(("accounts", text))
    if requests.ok == 0:
        text = "no request was answered as expected"
        if not requests.failed and requests.abandoned and asked.workload.duration_s is not None:
            text = f"no response ended within {asked.workload.duration_s:g} s: use a longer run"
        found.append(("nothing_ok", text))
    elif requests.failed > MOST_FAILED * answered:
        share = 100 * requests.failed / answered
        told = "; ".join(
            failure.example[:200] for failure in list(requests.failures.values())[:_FAILURES_TOLD]
        )
        found.append(("failed", f"{share:.2g} % of responses failed: {told}"))
    other = {version: n for version, n in run.target.versions.items() if version != arm.version}
    if other:
        obtained = ", ".join(f"{version} {n} times" for version, n in other.items())
        found.append(("version", f"{arm.version} was asked for, but obtained was {obtained}"))
    if not requests.failed and run.content is not None and _differs(run.content, asked):
        found.append(("bodies", "the bodies read are not those that the server has"))
    return [Reason(code=code, verdict="invalid", text=text) for code, text in found]


def _differs(content: Content, asked: Asked) -> bool:
    """Whether other bodies were read than the independent client read."""
    if content.digest is None:
        size = asked.setting.reference.size(asked.workload)
        return size is not None and content.bytes != size
    return content.expected is not None and content.digest != content.expected


def _failures(result: Result) -> dict[ErrorKind, Failure]:
    examples = result.examples or {}
    return {
        kind: Failure(count=count, example=examples.get(kind) or kind)
        for kind, count in (result.failed or {}).items()
        if count
    }


def _content(asked: Asked, result: Result) -> Content | None:
    # A load generator such as wrk does not look into the bodies.
    if result.body_digest is None:
        if not asked.workload.discard:
            return None
        return Content(bytes=result.body_bytes, digest=None, expected=None)
    expected = asked.setting.reference.digest(asked.workload)
    return Content(bytes=result.body_bytes, digest=result.body_digest, expected=expected)


def _wire(asked: Asked, delivered: Delivered) -> Wire | None:
    if delivered.wire_bytes is None:
        return None
    result = delivered.result
    return Wire(
        bytes=delivered.wire_bytes,
        requests=result.ok + sum((result.failed or {}).values()),
        interface=asked.setting.interface.name,
    )


def _repetitions(result: Result) -> Repetitions | None:
    seconds = result.repetitions_s
    if not seconds:
        return None
    return Repetitions(count=len(seconds), mean_s=sum(seconds) / len(seconds), seconds=seconds)


def _plan(asked: Asked) -> Plan:
    arm, workload, cpus = asked.arm, asked.workload, asked.setting.cpus
    return Plan(
        connections=arm.connections,
        streams=arm.streams,
        threads=arm.threads,
        model="closed" if arm.rate is None else "open",
        rate_per_s=arm.rate,
        requests=workload.count,
        duration_s=workload.duration_s,
        warmup_s=0.0,
        timeout_s=workload.timeout_s,
        cpus=None if cpus is None else list(cpus),
        request=Request(
            method=workload.method,
            urls=len(workload.paths) if workload.kind == "urls" else workload.count or 1,
            header_fields=len(header_fields(arm, workload)),
            header_bytes=None,
            body_bytes=workload.file_bytes or len(workload.body or b""),
            coding="gzip" if arm.gzip else None,
        ),
        strategy=arm.strategy,
        session=arm.session,
        in_flight=arm.in_flight,
        processes=arm.processes,
        workload=workload_text(workload),
    )


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


def _cpu_split(delivered: Delivered) -> tuple[float, float]:
    """User and system share of the CPU while the workload ran, in seconds."""
    used = delivered.result.program
    if used is not None:
        return used.user_s, used.system_s
    total = delivered.cpu_s
    usage, begin = delivered.ending.usage, delivered.begin
    # The kernel splits a running process at 10 ms only; the split of the rest of its life is exact.
    user = max(0.0, usage.ru_utime - begin.user_s)
    system = max(0.0, usage.ru_stime - begin.system_s)
    share = user / (user + system) if user + system else 1.0
    return total * share, total * (1 - share)


def _busy(asked: Asked, delivered: Delivered, cpu_s: float) -> list[float]:
    """Share of the time that the client computed: of one CPU for each of its processes.

    An interpreter with a global lock gets no further than 1, however many threads it has.
    """
    span = delivered.end.at - delivered.begin.at
    processes = asked.arm.processes or asked.workload.repeat_processes or 1
    return [min(1.0, cpu_s / span / processes)] if span > 0 else []


def _latency(told: Latencies | None) -> Distribution | None:
    if told is None:
        return None
    if told.hdr:
        return distribution(told.hdr)
    quantiles = told.quantiles or {}
    return Distribution(
        count=told.count,
        min=told.min,
        mean=told.mean,
        stdev=told.stdev,
        **_quantiles(told.count, lambda name, _: quantiles.get(name)),
        max=told.max,
        hdr=None,
    )


def distribution(blob: str) -> Distribution:
    """The statistics in seconds of an HdrHistogram that holds nanoseconds, and the histogram."""
    histogram = HdrHistogram.decode(blob)
    count = int(histogram.get_total_count())
    return Distribution(
        count=count,
        min=histogram.get_min_value() / _NS if count else None,
        mean=histogram.get_mean_value() / _NS if count else None,
        stdev=histogram.get_stddev() / _NS if count else None,
        **_quantiles(count, lambda _, share: histogram.get_value_at_percentile(100 * share) / _NS),
        max=histogram.get_max_value() / _NS if count else None,
        hdr=blob,
    )


def _quantiles(count: int, read: Callable[[str, float], float | None]) -> dict[str, float | None]:
    """Each quantile as `read` gives it by name and share; None where there are too few samples."""
    return {
        name: read(name, share) if enough(count, share) else None
        for name, share in QUANTILES.items()
    }
