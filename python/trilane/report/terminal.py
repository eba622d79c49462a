"""A result on the terminal: the answer first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec import UNSET
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trilane.lab.analysis import looks
from trilane.lab.model.comparison import ArmLoad, Comparison, JudgedArm
from trilane.lab.model.lab import LabResult, skipped_in
from trilane.report import (
    accounts,
    answers,
    capacities,
    cells,
    formatting,
    grids,
    labels,
    ledgers,
    maps,
    pairs,
    styles,
    view,
)
from trilane.report.view import Point

_ANY_WIDTH = 10_000
# Between two columns: padding and the box.
_GAP = 2
# Short enough for six columns on 80 characters; other measures keep their labels.
_LABELS = {
    "requests_per_s": "requests/s",
    "capacity_per_s": "requests/s that hold",
    "elapsed_s": "elapsed",
    "total_s": "whole process",
    "repetition_s": "repetition",
    "mean_s": "mean latency",
    "ttfb_p50": "first byte p50",
    "cpu_percent": "CPU",
    "client_cpu_us_per_request": "client CPU/req",
    "server_cpu_us_per_request": "server CPU/req",
    "bytes_per_request": "bytes/req",
    "wire_bytes_per_request": "wire bytes/req",
    "context_switches_per_request": "switches/req",
    "syscalls_per_request": "syscalls/req",
}


def show(result: LabResult, console: Console) -> None:
    """Print a result: every point, published numbers beside ours, crossings, gates."""
    console.print(render(result, width=console.width), highlight=False, soft_wrap=False)


def _race(comparison: Comparison, width: int) -> RenderableType:
    """The answer and what it rests on, in some twenty-five lines; the page has the rest."""
    shape = ", ".join(filter(None, [comparison.url, *_shape(comparison).splitlines()]))
    return Group(
        answers.text(comparison.said),
        Text(f"\n{shape}", "dim"),
        Padding(_table(comparison, width, brief=True), (1, 0, 0, 0)),
        *_capacities(comparison),
        *_pairs(comparison),
        *_drawn(comparison, alone=True),
        _notes(comparison),
    )


def render(result: LabResult, *, width: int = 80) -> RenderableType:
    """A result as something rich can print in `width` columns."""
    if result.race is not None:
        return Group(_race(result.race, width), *_gates(result), *_profiles(result))
    experiment = result.experiment
    form = f", {experiment.form} form" if experiment.form else ""
    parts: list[RenderableType] = [
        answers.text(result.said),
        Text(f"\n{experiment.title}{form}{', quick' if experiment.quick else ''}"),
        Text(
            ", ".join(filter(None, [result.started_at, formatting.machine(result.machine)])), "dim"
        ),
    ]
    if why := labels.altered(result):
        parts.append(Text(why, "yellow"))
    points = view.points(result)
    mapped = maps.maps(result)
    parts += [_map(found) for found in mapped]
    # A map says what the tables of many networks would, which the report has.
    for point in points if not mapped or len(points) <= view.FEW else []:
        parts += _point(point, width, alone=len(points) == 1)
    if points:
        parts.append(Text("\n").join(_legend(points[0].comparison, view.level(result))))
    if result.crossings:
        parts.append(_titled("crossings", (Text(row.text) for row in result.crossings)))
    if result.published:
        parts.append(_published(result))
    if result.benchstat:
        lines = result.benchstat.strip().splitlines()
        parts.append(_titled("benchstat", (Text(line, "dim") for line in lines)))
    parts += _gates(result)
    parts += _profiles(result)
    if result.skipped:
        parts.append(
            _titled(
                "skipped",
                (Text(f"{gone.arm}: {gone.reason}", "yellow") for gone in result.skipped),
            )
        )
    return Group(*parts)


def _profiles(result: LabResult) -> list[RenderableType]:
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
    return [_titled("profiles", lines)]


def _point(point: Point, width: int, *, alone: bool) -> list[RenderableType]:
    comparison = point.comparison
    head = Text(f"\n{_shape(comparison)}", "dim")
    if not alone:
        head = Text.assemble("\n", (point.label, "bold"), (f": {_shape(comparison)}", "dim"))
    said = [] if alone else [answers.headline(comparison.said)]
    return [
        head,
        *said,
        Padding(_table(comparison, width), (1, 0)),
        *_capacities(comparison),
        *_pairs(comparison),
        *_accounts(comparison),
        *_drawn(comparison, alone=alone),
    ]


def _drawn(comparison: Comparison, *, alone: bool) -> list[RenderableType]:
    """What the networks of profiles were; of many points the page says it."""
    lines = accounts.drawn(comparison)
    if not lines:
        return []
    if alone:
        return [Text("\n".join(map(str, lines)), "dim"), Text("")]
    names = " and ".join(dict.fromkeys(line.profile for line in lines))
    return [Text(f"{names}: drawn for each block, as the page lists", "dim"), Text("")]


def _shape(comparison: Comparison) -> str:
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


def _legend(comparison: Comparison, level: str) -> list[Text]:
    if all(row.ratio is None for row in comparison.ratios):
        return []
    baseline = view.titles(comparison)[comparison.baseline]
    return [
        Text(
            f"▲ higher ▼ lower = no difference beyond {formatting.percent(comparison.plan.margin)} "
            f"? undecided ✗ invalid: ratio to {baseline} within blocks, {level} interval",
            style="dim",
        ),
        *(
            [Text(cells.SHARED, style="dim")]
            if any(row.finding == "not_ranked" for row in comparison.ratios)
            else []
        ),
        Text(
            f"noise floor: a second run of an arm against its first in a block, {level} interval",
            style="dim",
        ),
    ]


def _table(comparison: Comparison, width: int, *, brief: bool = False) -> RenderableType:
    if not view.measures(comparison):
        return Text("")
    crossed = _grids(comparison)
    if crossed is not None:
        return crossed
    if len(comparison.arms) <= view.FEW:
        table = _measures_down(comparison, brief=brief)
        if Console(width=_ANY_WIDTH).measure(table).maximum <= width:
            return table
    return _arms_down(comparison, width)


def _grids(comparison: Comparison) -> RenderableType | None:
    """Calls: one table per measure, servers and formats down, versions across."""
    parts: list[RenderableType] = []
    for grid in grids.grids(comparison):
        table = styles.table()
        table.add_column(Text(formatting.headed(grid.label, grid.unit)))
        table.add_column("format")
        for name in grid.columns:
            table.add_column(name, justify="right", no_wrap=True)
        before = None
        for line in grid.lines:
            server = line.server if line.server != before else ""
            before = line.server
            cells = [Text("") if cell is None else _marked(cell) for cell in line.cells]
            table.add_row(Text(server), Text(line.message), *cells)
        parts += [Text(""), table] if parts else [table]
    return Group(*parts) if parts else None


def _accounts(comparison: Comparison) -> list[RenderableType]:
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


def _pairs(comparison: Comparison) -> list[RenderableType]:
    """Arms compared with each other, on the first measure."""
    made: list[RenderableType] = []
    for question in pairs.questions(comparison, 1):
        table = styles.table()
        table.add_column(Text(f"{question.name}: {view.measures(comparison)[0].label}"))
        table.add_column(_ratio_head(comparison), justify="right", no_wrap=True)
        for row in question.rows:
            (cell,) = row.cells
            table.add_row(Text(row.label), Text(cell.said, _style(cell)))
        made += [table, Text("")]
    return made


def _capacities(comparison: Comparison) -> list[RenderableType]:
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


def _map(found: maps.Map) -> RenderableType:
    table = styles.table()
    for place, name in enumerate(maps.head(found)):
        table.add_column(Text(name), justify="right" if place else "left")
    for name, *texts in maps.lines(found):
        table.add_row(Text(name), *map(Text, texts))
    return Group(Text(f"\n{formatting.capital(found.title)}", "bold"), table)


def _measures_down(comparison: Comparison, *, brief: bool) -> Table:
    """Measures down, arms across: value, then ratio to the baseline with its interval.

    In brief only the measure that decides has a line for its ratio; others have it beside values.
    """
    arms = comparison.arms
    compared = bool(comparison.ratios)
    table = styles.table()
    table.add_column("")
    for arm in arms:
        shape = ""
        if arm.connections is not None and arm.streams is not None:
            shape = f"\n{arm.connections} × {arm.streams}"
        table.add_column(Text(f"{arm.title}{shape}"), justify="right", no_wrap=True)
    if compared:
        table.add_column("noise\nfloor", style="dim", no_wrap=True, justify="right")
    for row in cells.rows(comparison):
        unit = f" {row.unit}" if row.unit else ""
        values = [
            Text(each.value if each.value == formatting.NONE else f"{each.value}{unit}")
            for each in row.cells
        ]
        label = _LABELS.get(row.measure.name, row.measure.label)
        if not compared:
            table.add_row(label, *values)
            continue
        known = any(each.ratio not in (None, formatting.NONE) for each in row.cells)
        below = known and (not brief or row.measure.name == comparison.ranking.measure)
        if brief and not below:
            values = [
                Text.assemble(value, " ", _ratio_alone(each))
                for value, each in zip(values, row.cells, strict=True)
            ]
        table.add_row(label, *values, row.floor)
        if below:
            table.add_row("", *(_ratio(each) for each in row.cells), style="dim")
    return table


def _ratio_alone(cell: cells.Cell) -> Text:
    """Mark and ratio without the interval: `▼ 0.45×`."""
    ratio = _ratio(cell)
    return Text(ratio.plain.partition(" (")[0], style=ratio.style)


def _arms_down(comparison: Comparison, width: int) -> RenderableType:
    """Arms down, best first, measures across; as many tables as the width asks for."""
    arms = view.ranked(comparison)
    titles = [*(_title(arm) for arm in arms), Text("noise floor", "dim")]
    first = min(max(len(title.plain) for title in titles), max(20, width // 3))
    groups: list[list[_Column]] = [[]]
    room = width - first - _GAP
    for column in _columns(comparison, arms):
        if groups[-1] and column.width + _GAP > room:
            groups.append([])
            room = width - first - _GAP
        groups[-1].append(column)
        room -= column.width + _GAP
    tables: list[RenderableType] = []
    for group in groups:
        table = styles.table()
        table.add_column("", width=first)
        for column in group:
            table.add_column(Text(column.head), justify="right", width=column.width)
        for number, title in enumerate(titles):
            cells = [column.cells[number] for column in group]
            if any(cells):
                table.add_row(title, *cells)
        tables.append(Padding(table, (1 if tables else 0, 0, 0, 0)))
    return Group(*tables)


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    cells: list[Text]

    @property
    def width(self) -> int:
        """Of the widest cell or word of the head."""
        words = [len(word) for word in self.head.split()]
        return max([cell.cell_len for cell in self.cells] + words)


def _columns(comparison: Comparison, arms: list[JudgedArm]) -> Iterator[_Column]:
    """The deciding measure with its ratio and interval, then the others with their finding."""
    first = comparison.ranking.measure
    for row in cells.rows(comparison, arms):
        unit = f" ({row.unit})" if row.unit else ""
        head = f"{_LABELS.get(row.measure.name, row.measure.label)}{unit}"
        if row.measure.name == first:
            yield _Column(head, [*(Text(each.value) for each in row.cells), Text("")])
            ratios = [*map(_ratio, row.cells), Text(row.floor, "dim")]
            yield _Column(_ratio_head(comparison), ratios)
        else:
            yield _Column(head, [*map(_marked, row.cells), Text("")])


def _ratio_head(comparison: Comparison) -> str:
    return f"ratio ({looks.percent(comparison.plan.level)} interval)"


def _title(arm: JudgedArm) -> Text:
    verdict = arm.validity.verdict
    title = Text(arm.title)
    if verdict != "valid":
        title.append(f" {verdict}", style=styles.VALIDITY[verdict])
    return title


def _marked(cell: cells.Cell) -> Text:
    if cell.finding is None:
        return Text(cell.value)
    return Text(f"{cells.MARKS[cell.finding]} {cell.value}", style=_style(cell))


def _ratio(cell: cells.Cell) -> Text:
    if cell.ratio is None or cell.finding is None:
        return Text("")
    return Text(f"{cells.MARKS[cell.finding]} {cell.ratio}", style=_style(cell))


def _style(cell: cells.Cell | pairs.Cell) -> str:
    return styles.of_finding(cell.finding, cell.tone)


def _published(result: LabResult) -> RenderableType:
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


def _gates(result: LabResult) -> list[RenderableType]:
    tones = {"bad": "bold red", "good": "green", "": "yellow"}
    rows = [
        Text.assemble(
            f"{row.label}, promised {row.range}: ",
            (row.word + ("" if row.here == formatting.NONE else f", {row.here}"), tones[row.tone]),
        )
        for row in labels.gates(result)
    ]
    return [_titled("gates", rows)] if rows else []


def _titled(title: str, lines: Iterable[Text]) -> Text:
    return Text("\n").join([Text(f"\n{title}", style="bold"), *lines])


def _notes(comparison: Comparison) -> Text:
    """What became of the requests, how busy both ends were, and what was not equal, a line each."""
    rows = accounts.accounts(comparison)
    lines = [Text(f"\n{accounts.total(rows)}", "dim")] if rows else [Text("")]
    lines += [
        Text(f"{row.title}: {row.failed:,} of {row.started:,} failed ({row.kinds})", "yellow")
        for row in rows
        if row.failed
    ]
    if len(comparison.arms) <= view.FEW:
        lines += [*_paths(rows), *_busy(comparison)]
    lines += [
        Text(f"{gone.arm} not raced: {gone.reason}", style="yellow")
        for gone in skipped_in(comparison)
    ]
    lines += [
        Text(f"{name}: {told}", style="dim")
        for name in ("pinning", "turns", "cluster")
        if (told := comparison.ledger.machine.get(name))
    ]
    differing = ledgers.unexpected(comparison)
    if differing:
        lines.append(Text(f"not equal between arms: {', '.join(differing)}", style="yellow"))
    return Text("\n").join([*lines, *_legend(comparison, looks.percent(comparison.plan.level))])


def _paths(rows: Sequence[accounts.Account]) -> list[Text]:
    """The round trip of each arm, and the path where they do not share one."""
    apart = len({row.network for row in rows}) > 1
    known = [row for row in rows if apart or row.round_trip != formatting.NONE]
    each = [f"{row.title} {row.round_trip}{f' {row.network}' if apart else ''}" for row in known]
    return [Text(f"round trip: {', '.join(each)}", "dim")] if each else []


def _busy(comparison: Comparison) -> list[Text]:
    """How busy the busiest thread of both ends was, in each arm."""
    known = [arm for arm in comparison.arms if arm.load.client_busy is not None]
    if not known:
        return []

    def told(load: ArmLoad) -> str:
        ends = [load.client_busy, *([] if load.server_busy is None else [load.server_busy])]
        return " and ".join(formatting.percent(share or 0.0) for share in ends)

    both = any(arm.load.server_busy is not None for arm in known)
    each = ", ".join(f"{arm.title} {told(arm.load)}" for arm in known)
    return [Text(f"busiest thread of client{' and server' if both else ''}: {each}", "dim")]
