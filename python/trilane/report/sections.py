"""The parts of a result on the terminal, below its answer."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trilane.lab.analysis import looks
from trilane.lab.model.comparison import Comparison
from trilane.lab.model.lab import LabResult
from trilane.report import (
    accounts,
    answers,
    capacities,
    cells,
    formatting,
    labels,
    maps,
    number_tables,
    pairs,
    styles,
    view,
)


def drawn(comparison: Comparison, *, alone: bool) -> list[RenderableType]:
    """What the networks of profiles were; of many points the page says it."""
    lines = accounts.drawn(comparison)
    if not lines:
        return []
    if alone:
        return [Text("\n".join(map(str, lines)), "dim"), Text("")]
    names = " and ".join(dict.fromkeys(line.profile for line in lines))
    return [Text(f"{names}: drawn for each block, as the page lists", "dim"), Text("")]


def shape(comparison: Comparison) -> str:
    """What was measured: model, path, requests in flight, blocks."""
    plan = comparison.plan
    parts = accounts.setting(comparison)
    if plan.in_flight is not None:
        parts.append(f"{formatting.counted(plan.in_flight, 'request')} in flight")
    runs = "runs"
    if plan.duration_s is not None:
        runs = f"{formatting.duration(plan.duration_s)} runs"
        if capacities.goals(comparison):
            runs = f"searches, by {runs}"
    elif plan.count is not None:
        runs = f"runs of {formatting.counted(plan.count, accounts.repeated(comparison))}"
    shape = ", ".join([*parts, f"{formatting.counted(plan.blocks_done, 'block')} of {runs}"])
    return "\n".join(filter(None, [shape, looks.said(comparison)]))


def legend(comparison: Comparison, level: str) -> list[Text]:
    """What the marks of a table mean, and what its noise floor is."""
    floor = f"noise floor: a second run of an arm against its first in a block, {level} interval"
    found = marks(comparison, level)
    return [*found, Text(floor, "dim")] if found else []


def marks(comparison: Comparison, level: str) -> list[Text]:
    """What the marks of a table mean."""
    if all(row.ratio is None for row in comparison.ratios):
        return []
    baseline = view.titles(comparison)[comparison.baseline]
    margin = formatting.percent(comparison.plan.margin)
    means = (
        f"▲ higher ▼ lower = no difference beyond {margin} ? undecided ✗ invalid: ratio to "
        f"{baseline} within blocks, {level} interval"
    )
    lines = [means]
    if any(row.finding == "not_ranked" for row in comparison.ratios):
        lines.append(cells.SHARED)
    return [Text(line, "dim") for line in lines]


def requests(comparison: Comparison) -> list[RenderableType]:
    """What became of the requests: of few arms a table, of many the sum and where some failed."""
    rows = accounts.accounts(comparison)
    if len(rows) > view.FEW:
        failed = [
            Text(f"{row.title}: {row.failed:,} of {row.started:,} failed ({row.kinds})", "yellow")
            for row in rows
            if row.failed
        ]
        return [Text("\n").join([Text(accounts.total(rows), "dim"), *failed, Text("")])]
    apart = len({row.network for row in rows}) > 1
    table = styles.table()
    table.add_column(f"{rows[0].what}s" if rows else "requests")
    heads = ["started", "ok", "failed", "abandoned", "round trip", *(["path"] if apart else [])]
    for head in heads:
        table.add_column(head, justify="right", no_wrap=head != "path")
    for row in rows:
        failed_style = "bold red" if row.failed else ""
        table.add_row(
            Text(row.title),
            f"{row.started:,}",
            f"{row.ok:,}",
            Text(f"{row.failed:,}", failed_style),
            f"{row.abandoned:,}",
            row.round_trip,
            *([row.network] if apart else []),
        )
    return [table, Text("")]


def aside(comparison: Comparison) -> list[Text]:
    """Why arms may be marked worse than the comparison."""
    told = answers.aside(comparison)
    return [] if told is None else [Text(told, "dim")]


def questions(comparison: Comparison) -> list[Table]:
    """Arms compared with each other, on the first measure: a table for each question."""
    made = []
    for question in pairs.questions(comparison, 1):
        table = styles.table()
        table.add_column(Text(f"{question.name}: {view.measures(comparison)[0].label}"))
        table.add_column(number_tables.ratio_head(comparison), justify="right", no_wrap=True)
        for row in question.rows:
            (cell,) = row.cells
            table.add_row(Text(row.label), Text(cell.said, number_tables.style(cell)))
        made.append(table)
    return made


def searched(comparison: Comparison) -> list[RenderableType]:
    """Of searches where each arm holds, and what gave way above it."""
    rows = capacities.rows(comparison)
    if not rows:
        return []
    table = styles.table()
    for name in capacities.head(comparison)[:-1]:
        table.add_column(Text(name), justify="left" if not name or "what" in name else "right")
    for row in rows:
        style = "" if row.verdict == "valid" else styles.VALIDITY[row.verdict]
        title = row.title if row.verdict == "valid" else f"{row.title} {row.verdict}"
        table.add_row(Text(title, style), row.rate, row.interval, row.searches, Text(row.broke))
    return [table, Text("")]


def mapped(found: maps.Map) -> RenderableType:
    """A map as a table."""
    table = styles.table()
    for place, name in enumerate(maps.head(found)):
        table.add_column(Text(name), justify="right" if place else "left")
    for name, *texts in maps.lines(found):
        table.add_row(Text(name), *map(Text, texts))
    return Group(Text(f"\n{formatting.capital(found.title)}", "bold"), table)


def published(result: LabResult) -> RenderableType:
    """The numbers of a post beside ours."""
    table = styles.table()
    table.add_column("published beside ours")
    table.add_column("published", justify="right", no_wrap=True)
    table.add_column(f"here, {view.level(result)} interval", justify="right", no_wrap=True)
    for row in labels.published(result):
        here = Text("not measured", "dim")
        if row.finding is not None:
            here = Text(f"{cells.MARKS[row.finding]} {row.ours}")
        table.add_row(Text(row.label), row.theirs, here)
    return Padding(table, (1, 0, 0, 0))


def gates(result: LabResult) -> list[RenderableType]:
    """What was promised, and whether it holds."""
    tones = {"bad": "bold red", "good": "green", "": "yellow"}
    rows = [
        Text.assemble(
            f"{row.label}, promised {row.range}: ",
            (row.word + ("" if row.here == formatting.NONE else f", {row.here}"), tones[row.tone]),
        )
        for row in labels.gates(result)
    ]
    return [titled("gates", rows)] if rows else []


def titled(title: str, lines: Iterable[Text]) -> Text:
    """Lines below a title."""
    return Text("\n").join([Text(f"\n{title}", style="bold"), *lines])


def profiles(result: LabResult) -> list[RenderableType]:
    """What was profiled, which the report shows, and what was not and why."""
    if result.profiles is UNSET:
        return []
    titles = view.lab_titles(result)
    lines = [
        Text(
            f"{titles.get(each.arm, each.arm)}, {each.end}: {each.samples:,} samples, in the report"
        )
        for each in result.profiles.made
    ]
    lines += [Text(f"no profile: {why}", "yellow") for why in result.profiles.missing]
    return [titled("profiles", lines)]


def skipped(result: LabResult) -> Text:
    """The arms that could not run here, and why."""
    rows = (Text(f"{gone.arm}: {gone.reason}", "yellow") for gone in result.skipped)
    return titled("skipped", rows)


def crossings(result: LabResult) -> Text:
    """Where one arm overtakes another over a sweep."""
    return titled("crossings", (Text(row.text) for row in result.crossings))
