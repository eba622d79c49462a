"""The measured parts of the pages about the experiments: `python -m trilane.report.pages RUN…`.

A page of `docs/experiments/` is written by hand but for its numbers. They stand between
`<!-- generated: NAME FORM -->` and `<!-- end -->` and are replaced by what a run found: tables,
published ratios beside ours, date and machine. No sentence there repeats a number of a table.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from trilane.lab.analysis import findings
from trilane.lab.model.lab import LabResult
from trilane.lab.storage import store
from trilane.lab.storage.runs import BadRun, find, load
from trilane.report import formatting, labels, maps, tables, view
from trilane.report.view import Point

DOCS = Path("docs/experiments")
_END = "<!-- end -->"
# More columns than this do not fit on a page.
_MEASURES = 4
# More rows than this are folded.
_ARMS = 10
_BEST = 5
_PATH = re.compile(r"(?<![\w:/])/[\w.+-]+(?:/[\w.+-]+)+/?")


class BadPage(ValueError):
    """A page cannot take the numbers; the message says which and why."""


def marker(name: str, form: str) -> str:
    """The line after which the numbers of a form stand."""
    return f"<!-- generated: {name} {form} -->"


def updated(page: str, result: LabResult) -> str:
    """`page` with the numbers of `result` in their place."""
    experiment = result.experiment
    begin = marker(experiment.name, str(experiment.form))
    return filled(page, begin, measured(result))


def filled(page: str, begin: str, made: str) -> str:
    """`page` with `made` between the line `begin` and the next end.

    Raises:
        BadPage: it has not these lines.
    """
    head, found, rest = page.partition(begin)
    if not found:
        raise BadPage(f"it holds no line {begin}")
    _, ended, tail = rest.partition(_END)
    if not ended or "<!-- generated:" in rest[: len(rest) - len(tail) - len(_END)]:
        raise BadPage(f"after {begin} it holds no line {_END}")
    return f"{head}{begin}\n\n{made}\n\n{_END}{tail}"


def measured(result: LabResult) -> str:
    """What a run found, in Markdown: no paths, nothing that changes without a new run."""
    # Over networks the verdict counts them; elsewhere it repeats the tables.
    counted = [f"**{tables.escaped(result.said.line)}**"] if maps.maps(result) else []
    parts = [*counted, *_of_points(result)]
    if result.crossings:
        parts.append("\n".join(f"- {tables.escaped(row.text)}" for row in result.crossings))
    if why := labels.remarks(result):
        parts.append(tables.escaped(why))
    if result.published:
        parts.append("Published ratios beside ours:")
        parts.append(tables.published_table(result))
    if result.expect:
        parts += ["Gates:", tables.gates_table(result)]
    if result.skipped:
        gone = "; ".join(f"{row.arm} ({row.reason})" for row in result.skipped)
        parts.append(f"Skipped: {tables.escaped(gone)}.")
    parts.append(f"Measured {_when(result)}")
    return _PATH.sub("…", "\n\n".join(parts))


def _of_points(result: LabResult) -> list[str]:
    """What was measured at each point; over many networks the maps alone."""
    points, parts = view.points(result), []
    mapped = maps.maps(result)
    for found in mapped:
        parts.append(f"{formatting.capital(found.title)}, ratios within blocks:")
        parts.append(tables.table(maps.head(found), maps.lines(found)))
    for point in points if not mapped or len(points) <= view.FEW else []:
        shown = [measure.name for measure in view.measures(point.comparison)][:_MEASURES]
        if point.label:
            # What a network is called has no capitals.
            parts.append(f"On {point.label}:" if mapped else f"{formatting.capital(point.label)}:")
        if shown:
            parts += tables.pairs_tables(point)
            parts += _tables(point, shown)
    return parts


def _tables(point: Point, measures: Sequence[str]) -> list[str]:
    """All arms; of many the best and the baseline, and the others in a fold."""
    arms = view.listed(point.comparison)
    crossed = tables.grid_tables(point)
    if crossed:
        whole = tables.point_table(point, measures)
        return [*crossed, _folded(f"All {len(arms)} arms", whole)]
    if len(arms) <= _ARMS:
        return [tables.point_table(point, measures)]
    baseline = point.comparison.baseline
    best = [arm for place, arm in enumerate(arms) if place < _BEST or arm.name == baseline]
    others = [arm for arm in arms[_BEST:] if arm.name != baseline]
    return [
        f"The best {_BEST} of {len(arms)} arms, and the one that ratios refer to:",
        tables.point_table(point, measures, best),
        _folded(f"The other {len(others)} arms", tables.point_table(point, measures, others)),
    ]


def _folded(summary: str, table: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{table}\n\n</details>"


def _when(result: LabResult) -> str:
    """Date, machine, blocks, validity, and what to type to measure it again."""
    verdict = result.validity.verdict
    reasons = (
        f" ({'; '.join(reason.text for reason in result.validity.reasons[:3])})"
        if verdict != "valid"
        else ""
    )
    machine = formatting.machine(result.machine)
    parts = [result.started_at[:10], f"on {machine}", view.blocks(result)]
    said = f"{', '.join(part for part in parts if part)}; intervals are {view.level(result)}; "
    said += f"{verdict}{reasons}."
    return f"{tables.escaped(said)} Again: `{tables.again(result.command)}`."


def write(runs: Sequence[str], docs: Path, state: Path) -> list[Path]:
    """Put the numbers of these runs into the pages of `docs`; the pages that changed."""
    changed = []
    for name in runs:
        result = findings.answered(load(find(name, state)).judged)
        if result.experiment.form is None:
            raise BadPage(f"{name} is a race: only experiments have pages")
        page = docs / f"{result.experiment.name}.md"
        if not page.is_file():
            raise BadPage(f"there is no page {page}")
        before = page.read_text(encoding="utf-8")
        try:
            after = updated(before, result)
        except BadPage as error:
            raise BadPage(f"{page}: {error}") from error
        if after != before:
            store.write_text(page, after)
            changed.append(page)
    return changed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m trilane.report.pages",
        description="Put the numbers of runs into the pages about the experiments.",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder, name or experiment-form")
    parser.add_argument("--docs", type=Path, default=DOCS, metavar="DIR", help=f"[{DOCS}]")
    parser.add_argument("--state", type=Path, default=None, metavar="DIR", help="state folder")
    wanted = parser.parse_args(arguments)
    try:
        changed = write(wanted.runs, wanted.docs, store.state_folder(wanted.state))
    except (BadPage, BadRun, OSError) as error:
        sys.stderr.write(f"pages: error: {error}\n")
        return 1
    sys.stdout.writelines(f"{page}\n" for page in changed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
