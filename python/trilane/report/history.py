"""A measure over time: tables on the terminal, charts in one offline HTML file."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trilane.lab.model.documents import Json
from trilane.lab.model.summary import BROKEN, RunSummary
from trilane.lab.storage.history import History, Series, Value
from trilane.quantity import value_text
from trilane.report import formatting

# Okabe-Ito hues, moved so that each keeps 3:1 contrast on white and on near-black.
_HUES = (
    *("#3f87c8", "#d97f14", "#27987a", "#b5609f"),
    *("#8f7a1c", "#7b79d8", "#cf5a3c", "#6f8f3a"),
)
_STATUS_STYLE = {"complete": "green", "running": "cyan", BROKEN: "red"}
# Between two columns, and the least for a verdict: narrower it is a column of single words.
_GAP = 2
_ROOM = 24
# Characters of a line of a head.
_HEAD = 16
# Characters of a time, and of a terminal with room for more in its column.
_WHEN, _WIDE = 21, 120
_VALIDITY_STYLE = {"valid": "green", "suspect": "yellow", "invalid": "bold red"}


@dataclass(frozen=True, slots=True)
class Panel:
    """The series that share a chart: one machine, form and point."""

    title: str
    machine: str
    series: Sequence[Series]


def show(history: History, console: Console) -> None:
    """Print a history."""
    console.print(render(history, width=console.width), highlight=False)


def show_runs(rows: Sequence[RunSummary], console: Console) -> None:
    """Print all runs: where a verdict has no room beside its run, it stands below."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for name in ("run", "status", "machine"):
        table.add_column(name, no_wrap=True)
    shown = [_run(row) for row in rows]
    before = sum(
        max(cell.cell_len for cell in column) + _GAP for column in zip(*shown, strict=True)
    )
    beside = console.width - before >= _ROOM
    if beside:
        table.add_column("verdict", ratio=1)
    for row, cells in zip(rows, shown, strict=True):
        verdict = row.verdict or row.problem or row.way_on or formatting.NONE
        if beside:
            table.add_row(*cells, Text(verdict))
        else:
            console.print(Text("  ").join(cells), highlight=False)
            console.print(Padding(Text(verdict), (0, 0, 0, 2)), highlight=False)
    if beside:
        console.print(table, highlight=False)


def _run(row: RunSummary) -> tuple[Text, Text, Text]:
    """Folder, status and machine."""
    return (
        Text(row.folder + (" (quick)" if row.quick else "")),
        Text(row.status, style=_STATUS_STYLE.get(row.status, "yellow")),
        Text(row.machine or formatting.NONE),
    )


def render(history: History, *, width: int = 80) -> RenderableType:
    """A history as something rich can print in `width` columns."""
    parts: list[RenderableType] = [
        Text.assemble(
            (f"{history.measure.label} of {history.experiment}", "bold"),
            f", {history.measure.better} is better; medians with 95 % intervals, "
            "wider ones of runs that ended once they were decided\n",
        )
    ]
    for panel in panels(history):
        parts.append(Text.assemble((panel.title, "bold"), "\n", (panel.machine, "dim")))
        parts.append(_table(panel, history, width))
        parts.append(Text(""))
    return Group(*parts)


def panels(history: History) -> list[Panel]:
    """The history's series, grouped as they may be shown together."""
    found = []
    for _, group in groupby(history.series, key=lambda each: each.values[-1].question[:-1]):
        series = list(group)
        run, point = series[-1].run, series[-1].arm.point
        words = [history.experiment, run.form or "", "quick" if run.quick else ""]
        title = " ".join(word for word in words if word)
        title += "" if point is None else f" at {value_text(point)}"
        title += f", machine {run.machine or formatting.NONE}"
        found.append(Panel(title, _machine(run.machine_facts), series))
    return found


def _machine(facts: Json) -> str:
    told = [
        facts.get("cpu"),
        f"{facts['cpus_usable']} CPUs" if facts.get("cpus_usable") else None,
        facts.get("kernel"),
    ]
    return ", ".join(str(fact) for fact in told if fact)


def _table(panel: Panel, history: History, width: int) -> Table:
    medians = [value.median for series in panel.series for value in series.values]
    factor, unit = formatting.scale(medians, history.unit)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    # The rows of an arm's name are long: they wrap, so that the others stay readable.
    table.add_column(
        "started (UTC)",
        min_width=_WHEN,
        width=_WHEN if width < _WIDE else None,
        overflow="fold",
    )
    head = "\n".join(textwrap.wrap(_headed(history, unit), _HEAD))
    table.add_column(head, justify="right", no_wrap=True)
    table.add_column("95 % interval", no_wrap=True)
    table.add_column("software", min_width=12, overflow="fold")
    table.add_column("validity", no_wrap=True)
    for series in panel.series:
        table.add_row(Text(series.name, style="bold"))
        before = None
        for value in series.values:
            status = "" if value.run.status == "complete" else f", {value.run.status}"
            table.add_row(
                f"  {_when(value)}",
                formatting.number(_scaled(value.median, factor)),
                _interval(value, factor),
                # Told where it changes: that is what one looks for.
                "" if value.arm.software == before else value.arm.software or formatting.NONE,
                Text(value.arm.validity + status, style=_VALIDITY_STYLE[value.arm.validity]),
            )
            before = value.arm.software
    return table


def _headed(history: History, unit: str) -> str:
    return history.measure.label if history.unit == "1/s" else f"{history.measure.label}, {unit}"


def _when(value: Value) -> str:
    return (value.run.started_at or "").replace("T", " ").removesuffix("Z")


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value / factor


def _interval(value: Value, factor: float) -> str:
    low, high = value.reached.low, value.reached.high
    if low is None or high is None:
        return formatting.NONE
    return f"{formatting.number(low / factor)}–{formatting.number(high / factor)}"


def page(history: History) -> str:
    """The whole page: everything that a run said is escaped."""
    # With Jinja and Altair it takes a second; the tables do without.
    from trilane.lab.experiment.describe import templates  # noqa: PLC0415
    from trilane.report import scripts  # noqa: PLC0415

    return (
        templates("trilane.report")
        .get_template("history.html.jinja")
        .render(
            history=history,
            panels=[
                {
                    "title": panel.title,
                    "machine": panel.machine,
                    "spec": _spec(panel, history),
                    "rows": list(_rows(panel, history)),
                    "unit": _unit(panel, history),
                }
                for panel in panels(history)
            ],
            vega=scripts.vega(),
        )
    )


def _unit(panel: Panel, history: History) -> str:
    medians = [value.median for series in panel.series for value in series.values]
    return _headed(history, formatting.scale(medians, history.unit)[1])


def _rows(panel: Panel, history: History) -> Iterator[Json]:
    medians = [value.median for series in panel.series for value in series.values]
    factor, _ = formatting.scale(medians, history.unit)
    for series in panel.series:
        for value in series.values:
            yield {
                "arm": series.name,
                "when": _when(value),
                "run": value.run.folder,
                "median": formatting.number(_scaled(value.median, factor)),
                "interval": _interval(value, factor),
                "software": value.arm.software or formatting.NONE,
                "validity": value.arm.validity,
            }


def _time_format(panel: Panel) -> str:
    """Of ticks: as fine as the distance between the first and the last run asks for."""
    starts = [
        datetime.fromisoformat(value.run.started_at or "")
        for series in panel.series
        for value in series.values
    ]
    span = max(starts) - min(starts)
    if span > timedelta(days=5):
        return "%Y-%m-%d"
    return "%m-%d %H:%M" if span > timedelta(hours=6) else "%H:%M:%S"


def _spec(panel: Panel, history: History) -> Json:
    """Medians over time with their intervals; a line only within a series."""
    import altair as alt  # noqa: PLC0415

    medians = [value.median for series in panel.series for value in series.values]
    factor, _ = formatting.scale(medians, history.unit)
    rows = [
        {
            "arm": series.name,
            "when": value.run.started_at or "",
            "run": value.run.folder,
            "software": value.arm.software,
            "validity": value.arm.validity,
            "median": _scaled(value.median, factor),
            "low": _scaled(value.reached.low, factor),
            "high": _scaled(value.reached.high, factor),
        }
        for series in panel.series
        for value in series.values
    ]
    names = list(dict.fromkeys(series.name for series in panel.series))
    hues = alt.Scale(domain=names, range=[_HUES[place % len(_HUES)] for place in range(len(names))])
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "when:T",
            title="start of the run (UTC)",
            scale=alt.Scale(type="utc", padding=12),
            axis=alt.Axis(tickCount=6, format=_time_format(panel)),
        ),
        color=alt.Color(
            "arm:N",
            title=None,
            scale=hues,
            legend=alt.Legend(orient="top", columns=3, labelLimit=240, symbolOpacity=1),
        ),
    )
    axis = alt.Y("low:Q", title=_unit(panel, history), scale=alt.Scale(zero=False))
    interval = base.mark_rule(strokeWidth=3, opacity=0.5).encode(axis, alt.Y2("high:Q"))
    line = base.mark_line(strokeWidth=1.5).encode(alt.Y("median:Q"))
    # An open point is one not to lean on.
    valid = (
        base.mark_point(filled=True, size=60, opacity=1)
        .encode(alt.Y("median:Q"))
        .transform_filter("datum.validity == 'valid'")
    )
    point = base.mark_point(size=60, opacity=1).encode(
        alt.Y("median:Q"),
        tooltip=[
            alt.Tooltip("arm:N"),
            alt.Tooltip("run:N"),
            alt.Tooltip("software:N"),
            alt.Tooltip("median:Q", format=".4~g"),
            alt.Tooltip("low:Q", format=".4~g"),
            alt.Tooltip("high:Q", format=".4~g"),
            alt.Tooltip("validity:N"),
        ],
    )
    chart = alt.layer(interval, line, valid, point).properties(width="container", height=280)
    spec: Any = json.loads(chart.to_json(validate=True))
    spec.pop("config", None)
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return dict(spec)
