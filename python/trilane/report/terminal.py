"""A result on the terminal: the answer first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from trilane.lab.analysis import looks
from trilane.lab.model.comparison import ArmLoad, Comparison
from trilane.lab.model.lab import LabResult, skipped_in
from trilane.report import (
    accounts,
    answers,
    brief,
    formatting,
    labels,
    ledgers,
    maps,
    number_tables,
    sections,
    view,
)
from trilane.report.view import Point


def show(result: LabResult, console: Console, *, verbose: bool = False) -> None:
    """Print a result: in thirty lines, or with `verbose` all that a terminal can show."""
    shown = render(result, width=console.width, verbose=verbose)
    console.print(shown, highlight=False, soft_wrap=False)


def render(result: LabResult, *, width: int = 80, verbose: bool = False) -> RenderableType:
    """A result as something rich can print in `width` columns."""
    if result.race is not None:
        race = _race(result.race, width, verbose=verbose)
        build = [Text(why, "yellow")] if (why := labels.unreleased(result)) else []
        return Group(race, *build, *sections.gates(result), *sections.profiles(result))
    return _experiment(result, width) if verbose else brief.render(result, width)


def _race(comparison: Comparison, width: int, *, verbose: bool) -> RenderableType:
    """The answer and what it rests on, in some twenty-five lines; the page has the rest."""
    shape = ", ".join(filter(None, [comparison.url, *sections.shape(comparison).splitlines()]))
    measured = view.measures(comparison)
    numbers = number_tables.table(comparison, width, brief=not verbose)
    return Group(
        answers.text(comparison.said),
        Text(f"\n{shape}", "dim"),
        *([Padding(numbers, (1, 0, 0, 0))] if measured else []),
        *sections.searched(comparison),
        *_apart(sections.questions(comparison)),
        *sections.drawn(comparison, alone=True),
        _notes(comparison),
    )


def _experiment(result: LabResult, width: int) -> RenderableType:
    """All points of an experiment, published numbers beside ours, crossings, gates."""
    experiment = result.experiment
    form = f", {experiment.form} form" if experiment.form else ""
    parts: list[RenderableType] = [
        answers.text(result.said),
        Text(f"\n{experiment.title}{form}{', quick' if experiment.quick else ''}"),
        Text(
            ", ".join(filter(None, [result.started_at, formatting.machine(result.machine)])), "dim"
        ),
    ]
    if why := labels.remarks(result):
        parts.append(Text(why, "yellow"))
    points = view.points(result)
    mapped = maps.maps(result)
    parts += [sections.mapped(found) for found in mapped]
    # A map says what the tables of many networks would, which the report has.
    for point in points if not mapped or len(points) <= view.FEW else []:
        parts += _point(point, width, alone=len(points) == 1)
    if points:
        legend = sections.legend(points[0].comparison, view.level(result))
        parts.append(Text("\n").join(legend))
    if result.crossings:
        parts.append(sections.crossings(result))
    if result.published:
        parts.append(sections.published(result))
    if result.benchstat:
        lines = result.benchstat.strip().splitlines()
        parts.append(sections.titled("benchstat", (Text(line, "dim") for line in lines)))
    parts += sections.gates(result)
    parts += sections.profiles(result)
    if result.skipped:
        parts.append(sections.skipped(result))
    return Group(*parts)


def _point(point: Point, width: int, *, alone: bool) -> list[RenderableType]:
    comparison = point.comparison
    shape = sections.shape(comparison)
    head = Text(f"\n{shape}", "dim")
    if not alone:
        head = Text.assemble("\n", (point.label, "bold"), (f": {shape}", "dim"))
    said = [] if alone else [answers.headline(comparison.said)]
    return [
        head,
        *said,
        Padding(number_tables.table(comparison, width), (1, 0)),
        *sections.searched(comparison),
        *_apart(sections.questions(comparison)),
        *sections.aside(comparison),
        *sections.requests(comparison),
        *sections.drawn(comparison, alone=alone),
    ]


def _apart(tables: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """Tables with an empty line below each."""
    for table in tables:
        yield table
        yield Text("")


def _notes(comparison: Comparison) -> Text:
    """What became of the requests, how busy both ends were, and what was not equal, a line each."""
    rows = accounts.accounts(comparison)
    lines = [Text(f"\n{accounts.total(rows)}" if any(row.started for row in rows) else "", "dim")]
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
    legend = sections.legend(comparison, looks.percent(comparison.plan.level))
    return Text("\n").join([*lines, *legend])


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
