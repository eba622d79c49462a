"""An experiment on the terminal in thirty lines: the answer, then of the rest what fits."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from trilane.lab.model.answer import Answer
from trilane.lab.model.comparison import Comparison
from trilane.lab.model.lab import LabResult
from trilane.report import (
    accounts,
    answers,
    formatting,
    labels,
    maps,
    number_tables,
    sections,
    view,
)
from trilane.report.view import Point

MOST = 30
"""Lines in all; more only where the answer itself leaves no room, as on a narrow terminal."""
# Lines kept for the sentence that names what was left out.
_LAST = 3
# Arms of a table: the best ones, at least and at most.
_LEAST, _BEST = 3, 10
_FAILED = 3


def render(result: LabResult, width: int) -> RenderableType:
    """The answer whole, then each part that still fits; the last line names the others."""
    page = _Page(width)
    page.put(answers.text(result.said))
    page.put(_setting(result))
    for part in sections.gates(result):
        page.put(part)
    points = [point for point in view.points(result) if view.measures(point.comparison)]
    if len(points) == 1:
        _numbers(page, points[0].comparison, view.level(result))
    elif points:
        _sweep(page, result, points)
    if result.crossings:
        page.fit(sections.crossings(result), "crossings")
    if result.published:
        page.fit(sections.published(result), "the post's numbers beside ours")
    if result.benchstat:
        page.leave_out("benchstat")
    for part in sections.profiles(result):
        page.fit(part, "profiles")
    if result.skipped:
        page.fit(sections.skipped(result), formatting.counted(len(result.skipped), "skipped arm"))
    return page.whole("all numbers" if points else "")


class _Page:
    """The parts that fit into so many lines, and the names of those that do not."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._console = Console(width=width, file=io.StringIO())
        self._parts: list[RenderableType] = []
        self._left_out: list[str] = []
        self._left = MOST - _LAST

    def room(self, *parts: RenderableType) -> int:
        """Lines that are left when these are printed."""
        return self._left - len(self._console.render_lines(Group(*parts), pad=False))

    def put(self, *parts: RenderableType) -> None:
        """Print these in any case."""
        self._left = self.room(*parts)
        self._parts += parts

    def fit(self, part: RenderableType, name: str) -> None:
        """Print this if there is room, else its name in the last line."""
        if self.room(part) >= 0:
            self.put(part)
        else:
            self.leave_out(name)

    def fit_each(
        self, parts: Iterable[RenderableType], what: str, after: Iterable[RenderableType] = ()
    ) -> None:
        """Print as many of these as there is room for, and what stands `after` any of them."""
        tail = Group(*after)
        parts = list(parts)
        shown = 0
        while shown < len(parts) and self.room(parts[shown], tail) >= 0:
            self.put(parts[shown])
            shown += 1
        if shown:
            self.put(tail)
        if shown < len(parts):
            self.leave_out(formatting.counted(len(parts) - shown, what))

    def leave_out(self, name: str) -> None:
        """Name it in the last line."""
        self._left_out.append(name)

    def whole(self, always: str) -> RenderableType:
        """All that was printed, and the line that says what `-v` adds."""
        more = ", ".join(filter(None, [*self._left_out, always]))
        return Group(*self._parts, *([Text(f"\nMore with -v: {more}", "dim")] if more else []))


def _setting(result: LabResult) -> Text:
    """What was measured, and what of it was asked otherwise."""
    experiment = result.experiment
    form = f", {experiment.form} form" if experiment.form else ""
    lines = [Text(f"\n{experiment.title}{form}{', quick' if experiment.quick else ''}")]
    points = view.points(result)
    if len(points) == 1:
        lines.append(Text(sections.shape(points[0].comparison), "dim"))
    elif points:
        lines.append(Text(f"{len(points)} points, {view.blocks(result)} at each", "dim"))
    if why := labels.remarks(result):
        lines.append(Text(why, "yellow"))
    return Text("\n").join(lines)


def _sweep(page: _Page, result: LabResult, points: Sequence[Point]) -> None:
    """Maps of networks, or the ratios that the headline counts and the headline of each point."""
    if mapped := maps.maps(result):
        legend = sections.marks(points[0].comparison, view.level(result))[:1]
        page.fit_each((sections.mapped(found) for found in mapped), "more map", after=legend)
        return
    page.put(Text(""))
    page.fit_each(_ratios(result.said), "more ratio")
    lines = [
        Text.assemble((point.label, "bold"), ": ", answers.headline(point.comparison.said))
        for point in points
    ]
    page.fit_each(lines, "more point")


def _ratios(answer: Answer) -> list[Text]:
    """The ratios that the headline of a sweep counts."""
    return [
        Text(f"{each.label}: {formatting.ratio(each.value, each.low, each.high)}")
        for each in answer.figures
        if each.unit == "1"
    ]


def _numbers(page: _Page, comparison: Comparison, level: str) -> None:
    """The table of one point, what failed, and the pairs that the experiment asks about."""
    told = accounts.accounts(comparison)
    failed = [
        Text(f"{row.title}: {row.failed:,} of {row.started:,} failed ({row.kinds})", "yellow")
        for row in told
        if row.failed
    ]
    below = [*failed[:_FAILED], *sections.marks(comparison, level)]
    # Of few arms the table has no marks.
    below = [*(sections.aside(comparison) if len(told) > view.FEW else []), *below]
    most = _BEST
    while page.room(_table(comparison, page.width, most), *below) < 0 and most > _LEAST:
        most -= 1
    page.put(_table(comparison, page.width, most), *below)
    if more := len(comparison.arms) - len(number_tables.best(comparison, most)):
        page.leave_out(formatting.counted(more, "more arm"))
    for part in sections.searched(comparison):
        page.fit(part, "what each search found")
    page.fit_each(sections.questions(comparison), "table of pairs")


def _table(comparison: Comparison, width: int, most: int) -> RenderableType:
    return Padding(number_tables.first(comparison, width, most), (1, 0))
