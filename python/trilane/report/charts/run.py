"""One run: its rate, latency and processors over time, its distributions and slowest requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import altair as alt

from trilane.lab.model.documents import Json
from trilane.lab.model.run import Run
from trilane.lab.model.traffic import Window
from trilane.report import formatting, palette
from trilane.report.charts.base import GREY, PLAIN, Chart, data, legend, log_ticks, spec
from trilane.report.charts.latency import percentile_axis
from trilane.report.distribution import curve

# Of a line, and of a heat map side by side, at most.
_POINTS = 300
_COLUMNS = 75
_HEIGHT = 240
_OK, _FAILED, _DUE = "ok", "failed", "asked for"
_CLIENT, _SERVER = "client", "server"
_SLOWEST = 20
# Steps of `Window.latencies` in a decade.
_STEPS = 10
_LEAST_MS = 1e-3
# Of distributions that often lie on one drawn before: of short responses the first byte is the last
# one, too, and what was queued is most of what waited.
_SOLID = [1, 0]
_DASHES = {"first byte": [4, 8], "queued": [2, 3], "late": [8, 3, 2, 3], "failed": [3, 6]}
_PARTS = ("before its first byte", "to the head of the response", "to its end")


@dataclass(frozen=True, slots=True)
class Part:
    """Windows that are drawn as one."""

    begin: float
    """Seconds since the beginning of the measured part."""
    end: float
    windows: Sequence[Window]

    @property
    def span(self) -> Json:
        """What each row of its data carries."""
        return {"begin": self.begin, "middle": (self.begin + self.end) / 2, "end": self.end}

    def per_s(self, total: float) -> float:
        """What there was of something, per second."""
        return total / sum(window.length_s for window in self.windows)


def charts(run: Run) -> list[Chart]:
    """The charts that a run has data for."""
    made = [rate(run), latency(run), distribution(run), processors(run), slowest(run)]
    return [chart for chart in made if chart is not None]


def parts(windows: Sequence[Window], most: int) -> list[Part]:
    """Windows in at most so many parts of equal length, but for the last one."""
    size = max(1, -(-len(windows) // most))
    groups = [windows[at : at + size] for at in range(0, len(windows), size)]
    return [
        Part(group[0].start_s, group[-1].start_s + group[-1].length_s, group)
        for group in groups
        if sum(window.length_s for window in group) > 0
    ]


def rate(run: Run) -> Chart | None:
    """Ok and failed requests per second, and what was asked for."""
    found = parts(_whole(run), _POINTS)
    if len(found) < 2:
        return None
    rows: list[Json] = [
        {**part.span, "kind": kind, "rate": part.per_s(sum(count(w) for w in part.windows))}
        for kind, count in ((_OK, _ok), (_FAILED, _failed))
        for part in found
        if kind == _OK or run.requests.failed
    ]
    rows += [{"middle": at, "kind": _DUE, "rate": due} for at, due in _due(run, found[-1].end)]
    return Chart(
        "rate",
        "Requests per second over time",
        f"By when they ended; each point is of {_length(found)}."
        + (" Dashed: the rate that was asked for." if run.plan.rate_per_s is not None else ""),
        spec(_lines(rows, "rate", (_OK, _FAILED, _DUE)), _HEIGHT),
    )


def latency(run: Run) -> Chart | None:
    """Latency over time: a heat map, or where the run has only quantiles of it, lines of these."""
    return _heat(run) or _quantiles(run)


def _heat(run: Run) -> Chart | None:
    found = parts(_whole(run), _COLUMNS)
    rows: list[Json] = []
    for part in found:
        counts: dict[int, int] = {}
        for window in part.windows:
            for step, count in window.latencies:
                counts[step] = counts.get(step, 0) + count
        total = sum(counts.values())
        rows += [
            {
                **part.span,
                "low": 10 ** (step / _STEPS) / 1e3,
                "high": 10 ** ((step + 1) / _STEPS) / 1e3,
                "count": count,
                "said": (
                    f"{count:,} requests ({count / total:.0%}) of {_ms(step)}–{_ms(step + 1)} ms, "
                    f"at {part.begin:.4g} s"
                ),
            }
            for step, count in sorted(counts.items())
        ]
    if len(found) < 2 or not rows:
        return None
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    cells = (
        data(rows)
        .mark_rect(color=palette.ARMS[0])
        .encode(
            _time("begin:Q", found[-1].end),
            alt.X2("end:Q"),
            alt.Y(
                "low:Q",
                title=None,
                scale=alt.Scale(type="log", domain=[low, high], nice=False),
                axis=alt.Axis(format=",~g", values=log_ticks(low, high), grid=False),
            ),
            alt.Y2("high:Q"),
            opacity=alt.Opacity(
                "count:Q",
                title="requests",
                scale=alt.Scale(type="log", range=[0.12, 1]),
                legend=alt.Legend(orient="top", tickCount=4, format="~s", symbolType="square"),
            ),
            # In few words, as there are a thousand of them.
            description=alt.Description("said:N"),
        )
    )
    return Chart(
        "latency-over-time",
        "Latency (ms) over time",
        f"Each column is {_length(found)}, each cell the requests that ended in it with such a "
        "service time (from the first byte sent to the last one received): the darker, the more. "
        "Log scales.",
        spec(cells, _HEIGHT),
    )


def _quantiles(run: Run) -> Chart | None:
    rows: list[Json] = [
        {"begin": w.start_s, "middle": w.start_s + w.length_s / 2, "end": w.start_s + w.length_s}
        | {"kind": name, "latency": value * 1e3}
        for w in _whole(run)
        for name, value in (("p50", w.p50), ("p99", w.p99))
        if value
    ]
    if len({row["begin"] for row in rows}) < 2:
        return None
    low, high = min(row["latency"] for row in rows), max(row["latency"] for row in rows)
    wide = high / low > 8
    lines = _lines(
        rows,
        "latency",
        ("p50", "p99"),
        scale=alt.Scale(type="log", nice=False) if wide else alt.Scale(),
        axis=alt.Axis(format=",~g", values=log_ticks(low, high)) if wide else alt.Axis(),
    )
    return Chart(
        "latency-over-time",
        "Latency (ms) over time",
        "Median and p99 of the service time in each tenth of a second: this result has no counts "
        "of latencies over time, of which a map could be drawn. A p99 takes a thousand responses.",
        spec(lines, _HEIGHT),
    )


def distribution(run: Run) -> Chart | None:
    """Each distribution of times of the run over its percentiles."""
    told = {
        "response": run.latency.response,
        "service": run.latency.service,
        "first byte": run.latency.ttfb,
        "queued": run.latency.queued,
        "late": run.latency.late,
        "failed": run.latency.failed,
    }
    rows: list[Json] = [
        {
            "kind": name,
            "x": round(1 / (1 - band.q), 4),
            "latency": band.median * 1e3,
        }
        for name, kept in told.items()
        for band in curve(kept)
        if band.median > 0
    ]
    # One percentile alone is no distribution, and what never took a microsecond is none to look at.
    times = {name: [row["latency"] for row in rows if row["kind"] == name] for name in told}
    names = [name for name, known in times.items() if len(known) > 1 and max(known) >= _LEAST_MS]
    rows = [row for row in rows if row["kind"] in names]
    if not rows:
        return None
    low, high = min(row["latency"] for row in rows), max(row["latency"] for row in rows)
    lines = (
        data(rows)
        .mark_line(strokeWidth=2)
        .encode(
            percentile_axis(max(row["x"] for row in rows)),
            alt.Y(
                "latency:Q",
                title=None,
                scale=alt.Scale(type="log", nice=False),
                axis=alt.Axis(format=",~g", values=log_ticks(low, high)),
            ),
            color=_colour(names),
            strokeDash=alt.StrokeDash(
                "kind:N",
                scale=alt.Scale(domain=names, range=[_DASHES.get(n, _SOLID) for n in names]),
                legend=legend(names),
            ),
            description=alt.Description("kind:N"),
        )
    )
    model = (
        "In a closed model the mean is only in flight ÷ rate. "
        if run.plan.model == "closed"
        else ""
    )
    return Chart(
        "distribution",
        "Times (ms) by percentile",
        f"Up to the percentile that has ten requests beyond it. {model}Log scales.",
        spec(lines, 280),
    )


def processors(run: Run) -> Chart | None:
    """Processor time of both ends over time."""
    found = parts(_whole(run), _POINTS)
    if len(found) < 2:
        return None
    rows: list[Json] = []
    for part in found:
        rows.append(
            {**part.span, "kind": _CLIENT, "busy": part.per_s(sum(w.cpu_s for w in part.windows))}
        )
        server = [w.server_cpu_s for w in part.windows if w.server_cpu_s is not None]
        if len(server) == len(part.windows):
            rows.append({**part.span, "kind": _SERVER, "busy": part.per_s(sum(server))})
    ends = "of the worker threads"
    if any(row["kind"] == _SERVER for row in rows):
        ends += ", and of the server's processes"
    return Chart(
        "processors",
        "CPUs in use over time",
        f"Processor time {ends} in each second: 1 is one CPU. Each point is of {_length(found)}.",
        spec(
            _lines(
                rows,
                "busy",
                (_CLIENT, _SERVER),
                axis=alt.Axis(format=PLAIN),
            ),
            _HEIGHT,
        ),
    )


def slowest(run: Run) -> Chart | None:
    """What the slowest requests waited for."""
    if not run.slowest:
        return None
    shown = run.slowest[:_SLOWEST]
    rows: list[Json] = []
    for place, slow in enumerate(shown, start=1):
        known = (slow.waited_s, slow.first_byte_s, slow.body_s)
        told = sum(value or 0.0 for value in known)
        for name, value in zip(_PARTS, known, strict=True):
            # Of one that was given up the rest has no end of its own.
            length = value if value is not None else max(0.0, slow.latency_s - told)
            if value is None and name == _PARTS[2] and slow.first_byte_s is None:
                continue
            rows.append(
                {
                    "place": f"{place}. at {slow.at_s:.3f} s",
                    "kind": name,
                    "time": length * 1e3,
                    "order": _PARTS.index(name),
                    "said": f"{formatting.quantity(length, 's')} {name}; number {slow.number:,}, "
                    f"connection {slow.worker}:{slow.connection}, stream {slow.stream}",
                }
            )
    names = [name for name in _PARTS if any(row["kind"] == name and row["time"] for row in rows)]
    bars = (
        data(rows)
        .mark_bar()
        .encode(
            alt.Y(
                "place:N",
                title=None,
                sort=list(dict.fromkeys(row["place"] for row in rows)),
                axis=alt.Axis(domain=False, ticks=False, labelLimit=200),
            ),
            alt.X("time:Q", title=None, axis=alt.Axis(format=PLAIN)),
            color=_colour(names),
            order=alt.Order("order:Q"),
            description=alt.Description("said:N"),
        )
    )
    more = f"The first {_SLOWEST} of {len(run.slowest)}. " if len(run.slowest) > _SLOWEST else ""
    return Chart(
        "slowest",
        "The slowest requests (ms)",
        f"{more}The table below has where they went.",
        spec(bars, 22 * len(shown) + 20),
    )


def _whole(run: Run) -> list[Window]:
    """The windows without a rest at the end, which would look like a slump."""
    longest = max((window.length_s for window in run.windows), default=0.0)
    return [window for window in run.windows if window.length_s > 0.5 * longest]


def _ok(window: Window) -> int:
    return window.ok


def _failed(window: Window) -> int:
    return window.failed


def _due(run: Run, end: float) -> Iterator[tuple[float, float]]:
    """The rate that was asked for, as points between which it changes evenly."""
    plan = run.plan
    if plan.rate_per_s is None:
        return
    if not plan.stages:
        yield from ((0.0, plan.rate_per_s), (end, plan.rate_per_s))
        return
    at, due = 0.0, 0.0
    yield at, due
    for stage in plan.stages:
        at, due = at + stage.length_s, stage.rate_per_s
        yield at, due


def _length(found: Sequence[Part]) -> str:
    first = found[0]
    return f"{round(first.end - first.begin, 3):g} s"


def _time(field: str, end: float) -> alt.X:
    return alt.X(
        field,
        title="time (s)",
        scale=alt.Scale(domain=[0, end], nice=False),
        axis=alt.Axis(format=PLAIN),
    )


def _colour(names: Sequence[str]) -> alt.Color:
    """Colours of kinds."""
    return alt.Color(
        "kind:N",
        scale=alt.Scale(domain=list(names), range=list(palette.ARMS[: len(names)])),
        legend=legend(names),
    )


def _ms(step: int) -> str:
    """Where a step of `Window.latencies` begins."""
    return f"{10 ** (step / _STEPS) / 1e3:.3g}"


def _lines(
    rows: Sequence[Json],
    field: str,
    kinds: Sequence[str],
    *,
    scale: alt.Scale | None = None,
    axis: alt.Axis | None = None,
) -> list[alt.Chart]:
    """Lines over time, one for each of the kinds that there are."""
    names = [kind for kind in kinds if any(row["kind"] == kind for row in rows)]
    colours = {_FAILED: palette.ARMS[4], _DUE: GREY}
    end = max(row["end"] if "end" in row else row["middle"] for row in rows)
    base = data(rows).encode(
        _time("middle:Q", end),
        alt.Y(
            f"{field}:Q",
            title=None,
            scale=scale or alt.Scale(zero=True),
            axis=axis or alt.Axis(format="~s"),
        ),
        color=alt.Color(
            "kind:N",
            scale=alt.Scale(
                domain=names,
                range=[colours.get(n, palette.ARMS[place]) for place, n in enumerate(names)],
            ),
            legend=legend(names),
        ),
    )
    solid = (
        base.transform_filter(f"datum.kind != '{_DUE}'")
        .mark_line(strokeWidth=1.8)
        .encode(description=alt.Description("kind:N"))
    )
    dashed = base.transform_filter(f"datum.kind == '{_DUE}'").mark_line(
        strokeWidth=1.5, strokeDash=[5, 4]
    )
    # Vega warns of a layer without rows.
    return [*([dashed] if _DUE in names else []), solid]
