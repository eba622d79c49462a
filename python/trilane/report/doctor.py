"""A diagnosis on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from trilane.lab.doctor import Diagnosis
from trilane.lab.host import Check
from trilane.lab.index import BROKEN, Row
from trilane.report import text

_STYLE = {"ok": "green", "warning": "yellow", "missing": "red"}


def show(diagnosis: Diagnosis, console: Console) -> None:
    """Print it."""
    console.print(render(diagnosis), highlight=False)


def render(diagnosis: Diagnosis) -> RenderableType:
    """A diagnosis as something rich can print."""
    groups = list(dict.fromkeys(check.group for check in diagnosis.checks))
    parts: list[RenderableType] = [
        _group(group, [check for check in diagnosis.checks if check.group == group])
        for group in groups
    ]
    return Group(*parts, _runs(diagnosis), _sum(diagnosis))


def _group(title: str, checks: Sequence[Check]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=7, no_wrap=True)
    table.add_column(min_width=22, no_wrap=True)
    table.add_column(ratio=1)
    for check in checks:
        told = Text.assemble(check.value, (f"  {check.why}", "dim"))
        if check.fix and check.status != "ok":
            told.append(f"\n→ {check.fix}", style="bold")
        table.add_row(Text(check.status, style=_STYLE[check.status]), check.name, told)
    return Group(Text(title, style="bold"), table, Text(""))


def _runs(diagnosis: Diagnosis) -> Text:
    lines = [
        Text.assemble(
            ("Runs", "bold"),
            f"  {text.counted(len(diagnosis.runs), 'run')} in {diagnosis.state / 'runs'}, "
            f"{sum(row.status == 'complete' for row in diagnosis.runs)} complete",
        )
    ]
    lines += [Text(line, style="dim") for line in diagnosis.said]
    for row in diagnosis.unfinished:
        lines += _unfinished(row)
    lines.append(Text(""))
    return Text("\n").join(lines)


def _unfinished(row: Row) -> list[Text]:
    if row.status == BROKEN:
        return [Text.assemble(("broken", "red"), f"   {row.folder}: {row.problem}")]
    status = "killed" if row.status == "running" else row.status
    return [
        Text.assemble((status, "yellow"), f"   {row.folder}"),
        Text(f"→ {row.way_on}", style="bold"),
    ]


def _sum(diagnosis: Diagnosis) -> Text:
    counts = {
        status: sum(check.status == status for check in diagnosis.checks) for status in _STYLE
    }
    told = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    if diagnosis.able:
        return Text.assemble(("trilane race can run here", "bold green"), f" ({told})")
    lacking = [c.name for c in diagnosis.checks if c.needed and c.status == "missing"]
    return Text.assemble(
        ("trilane race cannot run here", "bold red"), f": {', '.join(lacking)} ({told})"
    )
