"""One run of `trilane load`, or one search for the highest rate, as an offline HTML file."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from altair.utils.schemapi import debug_mode

from trilane.lab.experiment.describe import templates
from trilane.lab.model.answer import Answer
from trilane.lab.model.arm import TITLES
from trilane.lab.model.capacity import Capacity, Tried
from trilane.lab.model.measures import counted
from trilane.lab.model.run import Run, Slow
from trilane.lab.model.search import Search
from trilane.lab.model.traffic import Statistics
from trilane.lab.model.validity import Reason, Validity
from trilane.lab.storage.singles import Single
from trilane.report import formatting, palette, scripts
from trilane.report.charts import run as charts_of_run
from trilane.report.charts.base import Chart
from trilane.report.charts.load import latency_against_load, of_search

_OF_STEPS = ("p50", "p90", "p99", "max")
_STATISTICS = ("min", "mean", "p50", "p75", "p90", "p95", "p99", "p99_9", "p99_99", "max")


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the page."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    @property
    def id(self) -> str:
        """Its place on the page."""
        return self.title.lower().replace(" ", "-")


def render(single: Single) -> str:
    """The page of a run or of a search: everything that a server said is escaped."""
    figures = charts(single)
    shown = _search(single) if isinstance(single, Search) else _run(single)
    page: str = (
        templates("trilane.report")
        .get_template("run.html.jinja")
        .render(figures=figures, charts=figures, vega=scripts.vega(), **shown)
    )
    return page


@debug_mode(False)
def charts(single: Single) -> list[Chart]:
    """Its charts."""
    if isinstance(single, Run):
        return charts_of_run.charts(single)
    chart = latency_against_load([of_search(single.capacity, _version(single), palette.ARMS[0])])
    return [] if chart is None else [chart]


def answer(single: Single) -> Answer:
    """What came of it; of a result of a version before, one sentence."""
    if single.answer is not None:
        return single.answer
    if isinstance(single, Search):
        capacity = single.capacity
        found = f"{formatting.capital(capacity.answer())}."
        reasons = []
        if capacity.per_s is None:
            reasons.append(Reason(code="no_capacity", verdict="invalid", text=found))
        return Answer.of_sentence(found, Validity.of(reasons))
    latency = counted(single)
    parts = [f"{single.rate.requests_per_s:,.0f} requests/s over {_version_of(single)}"]
    for name, label in (("p50", "median"), ("p99", "p99")):
        value = None if latency is None else getattr(latency, name)
        if value is not None:
            parts.append(f"{label} {formatting.quantity(value, 's')}")
    parts.append(f"{single.requests.failed:,} of {_ended(single):,} requests failed")
    return Answer.of_sentence(f"{', '.join(parts)}.", single.validity)


def _version(search: Search) -> str:
    return _version_of(search.trials[0].run) if search.trials else "search"


def _version_of(run: Run) -> str:
    version = run.target.version
    return TITLES[version] if version else "no HTTP version"


def _ended(run: Run) -> int:
    return run.requests.ok + run.requests.failed


def _run(run: Run) -> dict[str, Any]:
    sections = [
        _requests(run),
        _scenario(run),
        _origins(run),
        _times(run),
        _slowest(run.slowest),
        _connections(run),
        _cost(run),
        _workers(run),
    ]
    return {
        "kind": "Run",
        "found": answer(run),
        "lines": [run.target.url, *_asked(run), f"{run.started_at}, trilane {_program(run)}."],
        "sections": [section for section in sections if section is not None],
    }


def _program(run: Run) -> str:
    program = run.trilane
    return f"{program.version} ({program.revision}, {program.profile})"


def _asked(run: Run) -> list[str]:
    plan = run.plan
    shape = [
        formatting.counted(count, noun)
        for count, noun in (
            (plan.connections, "connection"),
            (plan.streams, "stream"),
            (plan.threads, "thread"),
        )
        if count is not None
    ]
    if plan.rate_per_s is None:
        model = "closed model"
    elif plan.stages:
        model = f"open model in {formatting.counted(len(plan.stages), 'stage')}"
    else:
        model = f"open model at {plan.rate_per_s:,.6g} requests/s"
    length = (
        formatting.counted(plan.requests, "request")
        if plan.requests is not None
        else formatting.duration(plan.duration_s or run.rate.window_s)
    )
    ended = " It was interrupted." if run.interrupted else ""
    return [
        (
            f"{plan.request.method}, {model}, {', '.join(shape)}; {length} after "
            f"{formatting.duration(plan.warmup_s)} of warm-up.{ended}"
        )
    ]


def _requests(run: Run) -> Section:
    requests = run.requests
    rows = [
        ["ok requests/s", f"{run.rate.requests_per_s:,.1f}"],
        ["started", f"{requests.started:,}"],
        ["ok", f"{requests.ok:,}"],
        ["failed", f"{requests.failed:,}"],
        ["abandoned (in flight at the end)", f"{requests.abandoned:,}"],
        *(
            [label, f"{count:,}"]
            for label, count in (
                ("due and not sent", requests.unsent),
                ("shed", requests.shed),
                ("sent again", requests.retried),
            )
            if count
        ),
        *([f"status {code}", f"{count:,}"] for code, count in run.status.items() if count),
        *(
            [f"failed: {kind}", f"{failure.count:,}, such as: {failure.example}"]
            for kind, failure in requests.failures.items()
        ),
    ]
    return Section("Requests", ("", "in the measured part"), rows)


def _scenario(run: Run) -> Section | None:
    scenario = run.scenario
    if scenario is None:
        return None
    rows = [
        [
            step.name,
            f"{step.ok:,}",
            f"{step.failed:,}",
            *(formatting.quantity(getattr(step.service, each), "s") for each in _OF_STEPS),
        ]
        for step in scenario.steps
    ]
    return Section(
        "Scenario",
        ("step", "ok", "failed", *(f"service {each}" for each in _OF_STEPS)),
        rows,
        f"{scenario.name}: {formatting.counted(scenario.users, 'user')}, "
        f"{scenario.iterations_per_s:,.1f} iterations/s; {scenario.started:,} started = "
        f"{scenario.ok:,} ok + {scenario.failed:,} failed + {scenario.abandoned:,} abandoned; one "
        f"took {formatting.quantity(scenario.duration.p50, 's')} in the median, pauses included.",
    )


def _origins(run: Run) -> Section | None:
    if run.origins is None:
        return None
    rows = [
        [
            each.origin,
            *(f"{count:,}" for count in (each.started, each.ok, each.failed, each.abandoned)),
            f"{each.connections:,}",
            *(formatting.quantity(getattr(each.service, name), "s") for name in _OF_STEPS),
        ]
        for each in run.origins
    ]
    counts = ("started", "ok", "failed", "abandoned", "connections")
    return Section("Origins", ("origin", *counts, *(f"service {name}" for name in _OF_STEPS)), rows)


def _workers(run: Run) -> Section | None:
    if run.workers is None:
        return None
    rows = [
        [
            f"{each.name} on {each.host}",
            str(each.threads),
            f"{each.ok:,}",
            f"{each.failed:,}",
            f"{each.requests_per_s:,.1f}",
            formatting.quantity(each.p50, "s"),
            formatting.quantity(each.p99, "s"),
            formatting.quantity(each.cpu_us_per_request, "us"),
            f"{each.busy:.0%}",
            formatting.quantity(each.start_late_s, "s"),
            each.lost or "",
        ]
        for each in run.workers
    ]
    heads = ("worker", "threads", "ok", "failed", "requests/s", "p50", "p99", "CPU per request")
    return Section("Workers", (*heads, "busy", "began late", "lost"), rows)


def _times(run: Run) -> Section | None:
    latency = run.latency
    told = (
        ("response: from when it was due", latency.response),
        ("service: from the first byte sent", latency.service),
        ("first byte of the response", latency.ttfb),
        ("queued: no stream or connection free", latency.queued),
        ("late: the client's doing", latency.late),
        ("failed", latency.failed),
    )
    rows = [_row(name, kept) for name, kept in told if kept is not None and kept.count]
    if not rows:
        return None
    return Section(
        "Times",
        ("", "count", *(_statistic(name) for name in _STATISTICS)),
        rows,
        "A quantile stands there only with ten responses beyond it.",
    )


def _statistic(name: str) -> str:
    return name.replace("_", ".")


def _row(name: str, kept: Statistics) -> list[str]:
    return [
        name,
        f"{kept.count:,}",
        *(formatting.quantity(getattr(kept, each), "s") for each in _STATISTICS),
    ]


def _slowest(slowest: Sequence[Slow]) -> Section | None:
    if not slowest:
        return None
    rows = [
        [
            f"{place}.",
            formatting.quantity(slow.latency_s, "s") + (" (timed out)" if slow.timed_out else ""),
            f"{slow.at_s:.3f} s",
            *(
                formatting.quantity(part, "s")
                for part in (slow.waited_s, slow.first_byte_s, slow.body_s)
            ),
            f"{slow.number:,}",
            f"{slow.worker}:{slow.connection}",
            f"{slow.stream:,}",
        ]
        for place, slow in enumerate(slowest, start=1)
    ]
    return Section(
        "Slowest",
        (
            "",
            "time",
            "begun at",
            "before its first byte",
            "to the head",
            "to its end",
            "number",
            "worker:connection",
            "stream",
        ),
        rows,
        "The slowest requests one by one: what they waited for, and where they went.",
    )


def _connections(run: Run) -> Section | None:
    known, phases = run.connections, run.phases
    if known is None or phases is None:
        return None
    rows = [
        ["attempted", f"{known.attempted:,}"],
        ["established", f"{known.established:,}"],
        *([f"failed: {kind}", f"{count:,}"] for kind, count in known.failed.items()),
        *([f"lost: {kind}", f"{count:,}"] for kind, count in known.lost.items()),
        ["open at the end", f"{known.open_at_end:,}"],
        *(
            [f"{label}, median and longest", f"{_time(phase.p50)}, {_time(phase.max)}"]
            for label, phase in (
                ("name resolution", phases.dns),
                ("TCP", phases.connect),
                ("TLS", phases.tls),
                ("QUIC", phases.quic),
            )
            if phase is not None and phase.count
        ),
        [
            "handshakes",
            f"{phases.handshakes.full:,} full, {phases.handshakes.resumed:,} resumed",
        ],
    ]
    return Section("Connections", ("", "whole run"), rows)


def _time(value: float | None) -> str:
    return formatting.quantity(value, "s")


def _cost(run: Run) -> Section:
    cost, moved = run.cost, run.bytes
    rows = [
        ["client CPU per ok request", formatting.quantity(cost.cpu_us_per_request, "us")],
        ["server CPU per ok request", formatting.quantity(cost.server_cpu_us_per_request, "us")],
        ["busiest worker", formatting.percent(max(cost.busy, default=None))],
        *([] if moved is None else _moved(moved.sent, moved.received, moved.retransmits)),
    ]
    return Section("Cost", ("", "measured part; bytes of the whole run"), rows)


def _moved(sent: int, received: int, again: int) -> list[list[str]]:
    return [
        ["payload sent", formatting.quantity(sent, "B")],
        ["payload received", formatting.quantity(received, "B")],
        ["segments or packets sent again", f"{again:,}"],
    ]


def _search(search: Search) -> dict[str, Any]:
    capacity = search.capacity
    first = search.trials[0].run if search.trials else None
    lines = [f"Asked for: {', '.join(search.goals)}."]
    if first is not None:
        lines = [first.target.url, *lines, *_asked_of(first), f"{first.started_at}."]
    if capacity.broke:
        lines.append(f"What did not hold above it: {', '.join(capacity.broke)}.")
    return {
        "kind": "Search for the highest rate",
        "found": answer(search),
        "lines": lines,
        "sections": [_rates(capacity), _trials(capacity.tried)],
    }


def _asked_of(run: Run) -> list[str]:
    plan = run.plan
    connections = formatting.counted(plan.connections or 0, "connection")
    streams = formatting.counted(plan.streams or 0, "stream")
    length = formatting.duration(plan.duration_s or 0)
    return [
        (
            f"Over {_version_of(run)}, on {connections} with {streams}, runs of {length} each, "
            f"trilane {_program(run)}."
        )
    ]


def _rates(capacity: Capacity) -> Section:
    rows = []
    for rate in sorted({run.rate_per_s for run in capacity.tried}):
        runs = capacity.at(rate)
        rows.append(
            [
                f"{rate:,.1f}",
                f"{statistics.median(run.reached_per_s for run in runs):,.1f}",
                _median_time(run.p50 for run in runs),
                _median_time(run.p99 for run in runs),
                f"{100 * statistics.median(run.failed_share for run in runs):.3g} %",
                f"{sum(run.held for run in runs)} of {len(runs)}",
            ]
        )
    return Section(
        "Rates",
        ("requests/s asked for", "ok requests/s", "p50", "p99", "failed", "held"),
        rows,
        "Medians of the runs at a rate.",
    )


def _median_time(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return _time(statistics.median(known) if known else None)


def _trials(tried: Sequence[Tried]) -> Section:
    rows = [
        [
            f"{place}.",
            f"{run.rate_per_s:,.1f}",
            f"{run.reached_per_s:,.1f}",
            _time(run.p50),
            _time(run.p99),
            "held" if run.held else f"did not hold: {'; '.join(run.why)}",
        ]
        for place, run in enumerate(tried, start=1)
    ]
    return Section(
        "Runs", ("", "requests/s asked for", "ok requests/s", "p50", "p99", "goals"), rows
    )
