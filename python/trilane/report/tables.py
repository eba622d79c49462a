"""A result as plain tables: CSV for programs, Markdown for a README."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from trilane.lab.model.answer import Answer
from trilane.lab.model.comparison import Comparison, JudgedArm
from trilane.lab.model.documents import Json
from trilane.lab.model.lab import LabResult
from trilane.lab.model.record import SweepValue
from trilane.report import accounts, answers, cells, formatting, grids, labels, pairs, view
from trilane.report.view import Point

_COLUMNS = (
    "experiment",
    "form",
    "point",
    "arm",
    "client",
    "library_version",
    "version",
    "strategy",
    "measure",
    "unit",
    "median",
    "low",
    "high",
    "to",
    "ratio",
    "ratio_low",
    "ratio_high",
    "p_holm",
    "finding",
    "blocks",
    "validity",
    "published_ratio",
)
# Options that only say where things go, on one machine.
_PLACES = frozenset({"--state", "--report", "--format"})


def csv_text(result: LabResult) -> str:
    """One row per point, arm and measure; the units are those of the JSON (s, us, B, %, 1)."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_records(result))
    return out.getvalue()


def columns(result: LabResult) -> dict[str, list[Any]]:
    """The rows of `csv_text` as columns by name."""
    rows = list(_records(result))
    return {name: [row[name] for row in rows] for name in _COLUMNS}


def _records(lab: LabResult) -> Iterator[Json]:
    posted: dict[tuple[str, str, str | None, SweepValue | None], float] = {
        (row.measure, row.arm, row.to, row.at): row.published.ratio for row in lab.published
    }
    for point in view.points(lab):
        comparison = point.comparison
        ratios = view.ratios(comparison)
        for arm in comparison.arms:
            for measure in view.measures(comparison):
                summary = view.summary(arm, measure)
                ratio = ratios.get((measure.name, arm.name))
                to = None if ratio is None else ratio.to
                yield {
                    "experiment": lab.experiment.name,
                    "form": lab.experiment.form,
                    "point": point.value,
                    "arm": arm.name,
                    "client": arm.client,
                    "library_version": arm.library_version,
                    "version": arm.version,
                    "strategy": arm.strategy,
                    "measure": measure.name,
                    "unit": measure.unit,
                    "median": summary.median,
                    "low": summary.low,
                    "high": summary.high,
                    "to": to,
                    "ratio": ratio and ratio.ratio,
                    "ratio_low": ratio and ratio.low,
                    "ratio_high": ratio and ratio.high,
                    "p_holm": ratio and ratio.p_holm,
                    "finding": ratio and ratio.finding,
                    "blocks": comparison.plan.blocks_done,
                    "validity": arm.validity.verdict,
                    "published_ratio": posted.get((measure.name, arm.name, to, point.value)),
                }


def markdown(lab: LabResult) -> str:
    """Verdict, tables with intervals, published ratios, date and machine: for a README."""
    parts = [f"**{escaped(lab.said.line)}**", *answer_text(lab.said)]
    for point in view.points(lab):
        if point.label:
            parts.append(f"{point.label}: {escaped(point.comparison.said.line)}")
        if view.measures(point.comparison):
            parts += pairs_tables(point)
            parts += grid_tables(point) or [point_table(point)]
        if aside := answers.aside(point.comparison):
            parts.append(escaped(aside))
        total = accounts.total(accounts.accounts(point.comparison))
        said = ", ".join([*accounts.setting(point.comparison), total])
        parts.append(escaped(formatting.capital(said)) + ".")
    parts += [f"- {escaped(row.text)}" for row in lab.crossings]
    if why := labels.remarks(lab):
        parts.append(escaped(why))
    if lab.published:
        parts.append(published_table(lab))
    parts.append(footing(lab))
    return "\n\n".join(parts) + "\n"


def answer_text(answer: Answer) -> list[str]:
    """Why, and what speaks against it, below a headline."""
    doubts = [f"- {escaped(answers.doubt_text(doubt))}" for doubt in answer.confidence.doubts]
    because = escaped(" ".join(answer.because))
    verdict = answer.confidence.verdict.capitalize()
    return [
        part for part in (because, doubts and f"{verdict} because of:", "\n".join(doubts)) if part
    ]


def point_table(
    point: Point, measures: Sequence[str] | None = None, arms: Sequence[JudgedArm] | None = None
) -> str:
    """Arms down, measures across (all, or these): median (interval), ratio (interval)."""
    comparison = point.comparison
    arms = view.listed(comparison) if arms is None else arms
    first = comparison.ranking.measure
    baseline = view.titles(comparison)[comparison.baseline]
    rows = [
        row
        for row in cells.rows(comparison, arms)
        if measures is None or row.measure.name in measures
    ]
    head = ["arm"]
    columns: list[list[str]] = []
    for row in rows:
        head.append(formatting.headed(row.measure.label, row.unit))
        columns.append(
            [
                each.value if each.interval is None else f"{each.value} ({each.interval})"
                for each in row.cells
            ]
        )
        if row.measure.name == first and comparison.ratios:
            head.append(f"ratio to {baseline}")
            columns.append([each.ratio or "1" for each in row.cells])
    named = [_named(comparison, arm) for arm in arms]
    return table(
        head,
        [[name, *(column[number] for column in columns)] for number, name in enumerate(named)],
    )


def grid_tables(point: Point) -> list[str]:
    """Of calls, one table per measure: servers and formats down, versions across."""
    found = grids.grids(point.comparison)
    if not found:
        return []
    titles = view.titles(point.comparison)
    baseline = titles[point.comparison.baseline]
    signs = "▲ higher, ▼ lower, = no different, ? undecided"
    parts = [f"Medians; against {escaped(baseline)}: {signs}. h1 plain and h2c are without TLS."]
    for grid in found:
        head = ["server", "format", *grid.columns]
        rows = [
            [line.server, line.message, *map(grids.cell_text, line.cells)] for line in grid.lines
        ]
        parts.append(f"{escaped(formatting.headed(grid.label, grid.unit))}:\n\n{table(head, rows)}")
    return parts


def pairs_tables(point: Point) -> list[str]:
    """What was announced: of each question its name, and a ratio for each pair and measure."""
    head = ["ratio", *(measure.label for measure in view.measures(point.comparison)[: grids.SHOWN])]
    parts = []
    for question in pairs.questions(point.comparison, grids.SHOWN):
        rows = [[row.label, *(cell.said for cell in row.cells)] for row in question.rows]
        parts += [f"{question.name}, ratios within blocks:", table(head, rows)]
    return parts


def _named(comparison: Comparison, arm: JudgedArm) -> str:
    verdict = arm.validity.verdict
    title = f"{arm.title} {view.software(comparison, arm)}".rstrip()
    return title + ("" if verdict == "valid" else f" ({verdict})")


def published_table(lab: LabResult) -> str:
    """Published ratios beside ours."""
    return table(
        ["ratio", "published", f"here ({view.level(lab)} interval)", "finding"],
        [[row.label, row.theirs, row.ours, row.said] for row in labels.published(lab)],
    )


def gates_table(lab: LabResult) -> str:
    """What was promised, and whether it holds."""
    return table(
        ["ratio", "promised", "here", ""],
        [[row.label, row.range, row.here, row.word] for row in labels.gates(lab)],
    )


def footing(lab: LabResult) -> str:
    """Date, machine, blocks, validity and how to do it again."""
    machine = formatting.machine(lab.machine)
    parts = [lab.started_at[:10], machine, view.blocks(lab), f"{view.level(lab)} intervals"]
    if lab.experiment.quick:
        parts.append("a quick run")
    parts.append(f"validity: {lab.validity.verdict}")
    return f"{escaped(', '.join(part for part in parts if part))}. Again: `{again(lab.command)}`"


def again(command: str) -> str:
    """The command as it was typed, without what only says where things go."""
    words = iter(shlex.split(command))
    kept = []
    for word in words:
        if word in _PLACES:
            next(words, None)
        elif word != "--new" and word.partition("=")[0] not in _PLACES:
            kept.append(word)
    return shlex.join(kept)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column left, the others right."""
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "\n".join(f"| {' | '.join(escaped(str(cell)) for cell in line)} |" for line in lines)


def escaped(words: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    for sign in "\\`*_[]<>|":
        words = words.replace(sign, f"\\{sign}")
    return " ".join(words.split())
