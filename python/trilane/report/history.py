"""A measure over time: tables on the terminal, charts in one offline HTML file."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from trilane.lab.analysis import steps
from trilane.lab.analysis.steps import Step
from trilane.lab.model.comparison import Better
from trilane.lab.storage.history import History, Series, Value
from trilane.quantity import value_text
from trilane.report import formatting, palette, styles

if TYPE_CHECKING:
    import altair as alt

    from trilane.report.charts.base import Chart

# Characters of a line of a head.
_HEAD = 16
# Characters of a time, and of a terminal with room for more in its column.
_WHEN, _WIDE = 21, 120


@dataclass(frozen=True, slots=True)
class Panel:
    """The series that share a chart: one machine, form and point."""

    title: str
    machine: str
    series: Sequence[Series]
    factor: float
    """What one of the shown unit is in that of the history."""
    head: str
    """The measure with the shown unit."""
    steps: Sequence[tuple[Series, Step]]
    """Where a series stepped to another level."""
    better: Better
    """Which direction of the measure is."""

    @property
    def values(self) -> Iterator[tuple[Series, Value]]:
        """Each value with its series."""
        return ((series, value) for series in self.series for value in series.values)


def show(history: History, console: Console) -> None:
    """Print a history."""
    console.print(render(history, width=console.width), highlight=False)


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
        parts.append(_table(panel, width))
        parts += [
            Text(line, style="bold red" if worse(panel, step) else "bold green")
            for (_, step), line in zip(panel.steps, step_lines(panel), strict=True)
        ]
        parts.append(Text(""))
    return Group(*parts)


def panels(history: History) -> list[Panel]:
    """The history's series, grouped as they may be shown together."""
    found = []
    better = history.measure.better
    for _, group in groupby(history.series, key=lambda each: each.values[-1].question[:-1]):
        series = list(group)
        run, point = series[-1].run, series[-1].arm.point
        revision = None if history.branch is None else series[-1].arm.revision
        of = "" if revision is None else f"of {revision.repository}"
        words = [history.experiment, run.form or "", of, "quick" if run.quick else ""]
        title = " ".join(word for word in words if word)
        title += "" if point is None else f" at {value_text(point)}"
        title += f", machine {run.machine or formatting.NONE}"
        medians = (value.median for each in series for value in each.values)
        factor, unit = formatting.scale(medians, history.unit)
        head = history.measure.label + ("" if history.unit == "1/s" else f", {unit}")
        stepped = [(each, step) for each in series for step in steps.of(each)]
        where = formatting.machine(run.machine_facts)
        found.append(Panel(title, where, series, factor, head, stepped, better))
    return found


def worse(panel: Panel, step: Step) -> bool:
    """Whether the measure is worse behind a step."""
    return (step.ratio > 1) == (panel.better == "lower")


def step_lines(panel: Panel) -> list[str]:
    """A sentence for each step of the series of a panel."""
    return [f"{series.name} {_stepped(panel, series, step)}" for series, step in panel.steps]


def _stepped(panel: Panel, series: Series, step: Step) -> str:
    value, before = series.values[step.place], series.values[step.place - 1]
    size = f"{_change(step.ratio)} ({_change(step.low)} to {_change(step.high)})"
    how = "worse" if worse(panel, step) else "better"
    where = f"{value.software}, measured {_when(value)}"
    if value.software == before.software:
        where += "; the one before was the same, so the machine or what it asks for changed"
    return f"stepped by {size}, {how}, at {where}"


def _change(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _table(panel: Panel, width: int) -> Table:
    table = styles.table()
    # The rows of an arm's name are long: they wrap, so that the others stay readable.
    table.add_column(
        "started (UTC)",
        min_width=_WHEN,
        width=_WHEN if width < _WIDE else None,
        overflow="fold",
    )
    head = "\n".join(textwrap.wrap(panel.head, _HEAD))
    table.add_column(head, justify="right", no_wrap=True)
    table.add_column("95 % interval", no_wrap=True)
    branch = panel.series[0].values[0].branch is not None
    table.add_column("commit" if branch else "software", min_width=12, overflow="fold")
    table.add_column("validity", no_wrap=True)
    for series in panel.series:
        table.add_row(Text(series.name, style="bold"))
        before = None
        for value in series.values:
            status = "" if value.run.status == "complete" else f", {value.run.status}"
            table.add_row(
                f"  {_when(value)}",
                formatting.number(value.median / panel.factor),
                _interval(value, panel.factor),
                # Told where it changes: that is what one looks for.
                "" if value.software == before else Text(value.software or formatting.NONE),
                Text(value.arm.validity + status, style=styles.VALIDITY[value.arm.validity]),
            )
            before = value.software
    return table


def _when(value: Value) -> str:
    return (value.run.started_at or "").replace("T", " ").removesuffix("Z")


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value / factor


def _interval(value: Value, factor: float) -> str:
    low, high = value.reached.low, value.reached.high
    return formatting.interval(_scaled(low, factor), _scaled(high, factor))


def page(history: History) -> str:
    """The whole page: everything that a run said is escaped."""
    # With Jinja and Altair it takes a second; the tables do without.
    from trilane.lab.experiment.describe import templates  # noqa: PLC0415
    from trilane.report import drawing  # noqa: PLC0415

    of = formatting.capital(f"{history.measure.label} of {history.experiment}")
    branch = "" if history.branch is None else f", branch {history.branch},"
    return (
        templates("trilane.report")
        .get_template("history.html.jinja")
        .render(
            history=history,
            title=f"{of}{branch} over time",
            panels=[
                (panel, _chart(str(number), panel))
                for number, panel in enumerate(panels(history), start=1)
            ],
            when=_when,
            interval=_interval,
            step_lines=step_lines,
            formatting=formatting,
            drawing=drawing.svg,
        )
    )


def _time_format(panel: Panel) -> str:
    """Of ticks: as fine as the distance between the first and the last run asks for."""
    starts = [datetime.fromisoformat(value.run.started_at or "") for _, value in panel.values]
    span = max(starts) - min(starts)
    if span > timedelta(days=5):
        return "%Y-%m-%d"
    return "%m-%d %H:%M" if span > timedelta(hours=6) else "%H:%M:%S"


def _chart(name: str, panel: Panel) -> Chart:
    """Medians over time with their intervals; a line only within a series."""
    import altair as alt  # noqa: PLC0415

    from trilane.report.charts import base as charts  # noqa: PLC0415

    rows = [
        {
            "arm": series.name,
            "when": value.run.started_at or "",
            "said": f"{value.run.folder}: {formatting.number(value.median / panel.factor)} "
            f"({_interval(value, panel.factor)}), {value.software}, {value.arm.validity}",
            "validity": value.arm.validity,
            "median": value.median / panel.factor,
            "low": _scaled(value.reached.low, panel.factor),
            "high": _scaled(value.reached.high, panel.factor),
        }
        for series, value in panel.values
    ]
    names = list(dict.fromkeys(series.name for series in panel.series))
    colours = [palette.ARMS[place % palette.MANY] for place in range(len(names))]
    base = charts.data(rows).encode(
        x=alt.X(
            "when:T",
            title="start of the run (UTC)",
            scale=alt.Scale(type="utc", padding=12),
            axis=alt.Axis(tickCount=6, format=_time_format(panel)),
        ),
        color=alt.Color(
            "arm:N",
            title=None,
            scale=alt.Scale(domain=names, range=colours),
            legend=charts.legend(names),
        ),
    )
    axis = alt.Y("low:Q", title=None, scale=alt.Scale(zero=False, padding=10, nice=False))
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
        description="said:N",
    )
    layers = [interval, line, valid, point]
    if panel.steps:
        layers.append(_step_marks(panel))
    title = formatting.capital(panel.head)
    return charts.Chart(name, title, "", charts.spec(layers, 280))


def _step_marks(panel: Panel) -> alt.Chart:
    """A dashed line where a series stepped."""
    import altair as alt  # noqa: PLC0415

    from trilane.report.charts import base as charts  # noqa: PLC0415

    rows = [
        {
            "when": series.values[step.place].run.started_at or "",
            "arm": series.name,
            "said": f"{series.name} {_stepped(panel, series, step)}",
        }
        for series, step in panel.steps
    ]
    marks: alt.Chart = (
        charts.data(rows)
        .mark_rule(strokeWidth=1.5, strokeDash=[5, 4])
        .encode(
            x=alt.X("when:T"),
            color=alt.Color("arm:N"),
            description="said:N",
        )
    )
    return marks
