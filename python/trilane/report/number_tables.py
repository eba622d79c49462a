"""The numbers of a comparison as tables of a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trilane.lab.analysis import looks
from trilane.lab.model.comparison import Comparison, JudgedArm
from trilane.report import cells, formatting, grids, pairs, styles, view

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


def table(comparison: Comparison, width: int, *, brief: bool = False) -> RenderableType:
    """All measures of all arms; in brief, ratios of the deciding measure alone have intervals."""
    if not view.measures(comparison):
        return Text("")
    crossed = _grids(comparison)
    if crossed is not None:
        return crossed
    few = _few(comparison, width, None, brief=brief)
    return few or Group(*_arms_down(comparison, width, view.ranked(comparison)))


def first(comparison: Comparison, width: int, most: int) -> RenderableType:
    """Of few arms so many measures; of many so many arms, with what fits beside the ratio."""
    few = _few(comparison, width, most, brief=True)
    return few or Group(*_arms_down(comparison, width, best(comparison, most), whole=False))


def best(comparison: Comparison, most: int) -> list[JudgedArm]:
    """The arms that `first` shows: few are all there, of many the best ones and the baseline."""
    arms = view.ranked(comparison)
    if len(arms) <= view.FEW:
        return arms
    return [arm for n, arm in enumerate(arms) if n < most or arm.name == comparison.baseline]


def _few(
    comparison: Comparison, width: int, most: int | None, *, brief: bool = False
) -> Table | None:
    """Measures down; None where there are many arms, or too wide ones."""
    if len(comparison.arms) > view.FEW:
        return None
    table = _measures_down(comparison, most, brief=brief)
    return table if Console(width=_ANY_WIDTH).measure(table).maximum <= width else None


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


def _measures_down(comparison: Comparison, most: int | None, *, brief: bool) -> Table:
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
    for row in cells.rows(comparison)[:most]:
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


def _arms_down(
    comparison: Comparison, width: int, arms: list[JudgedArm], *, whole: bool = True
) -> list[RenderableType]:
    """Arms down, measures across, in as many tables as the width asks for.

    If not `whole`, only as far as the ratio of the measure that decides.
    """
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
    for group in groups if whole else groups[: 2 if len(groups[0]) == 1 else 1]:
        table = styles.table()
        table.add_column("", width=first)
        for column in group:
            table.add_column(Text(column.head), justify="right", width=column.width)
        for number, title in enumerate(titles):
            cells = [column.cells[number] for column in group]
            if any(cells):
                table.add_row(title, *cells)
        tables.append(Padding(table, (1 if tables else 0, 0, 0, 0)))
    return tables


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
            yield _Column(ratio_head(comparison), ratios)
        else:
            yield _Column(head, [*map(_marked, row.cells), Text("")])


def ratio_head(comparison: Comparison) -> str:
    """What stands above ratios."""
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
    return Text(f"{cells.MARKS[cell.finding]} {cell.value}", style=style(cell))


def _ratio(cell: cells.Cell) -> Text:
    if cell.ratio is None or cell.finding is None:
        return Text("")
    return Text(f"{cells.MARKS[cell.finding]} {cell.ratio}", style=style(cell))


def style(cell: cells.Cell | pairs.Cell) -> str:
    """The style of what was found."""
    return styles.of_finding(cell.finding, cell.tone)
