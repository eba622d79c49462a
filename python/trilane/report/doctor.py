"""A diagnosis on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trilane.lab.machine.doctor import Diagnosis
from trilane.lab.machine.host import Check
from trilane.report import formatting

if TYPE_CHECKING:
    from trilane.lab.model.summary import RunSummary

_STATUS_WIDTH, _NAME_WIDTH = 7, 22
_STYLE = {"ok": "green", "warning": "yellow", "missing": "red"}


def show(diagnosis: Diagnosis, console: Console) -> None:
    """Print it; what is to be typed stays on one line, however long."""
    group = None
    for check in diagnosis.checks:
        if check.group != group:
            console.print(Text(("\n" if group else "") + check.group, style="bold"))
            group = check.group
        console.print(_line(check), highlight=False)
        if check.fix and check.status != "ok":
            console.print(Text(f"→ {check.fix}", style="bold"), soft_wrap=True)
    console.print()
    console.print(_runs(diagnosis), highlight=False, soft_wrap=True)
    console.print(_sum(diagnosis), highlight=False)


def _line(check: Check) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=_STATUS_WIDTH, no_wrap=True)
    table.add_column(width=_NAME_WIDTH, no_wrap=True)
    table.add_column()
    table.add_row(
        Text(check.status, style=_STYLE[check.status]),
        check.name,
        Text.assemble(check.value, (f" – {check.why}", "dim")),
    )
    return table


def _runs(diagnosis: Diagnosis) -> Text:
    runs = diagnosis.runs
    found = "not looked at"
    if runs is not None:
        complete = sum(row.status == "complete" for row in runs)
        count = formatting.counted(len(runs), "run")
        found = f"{count} in {diagnosis.state / 'runs'}, {complete} complete"
    lines = [Text.assemble(("Runs", "bold"), f"  {found}")]
    lines += [Text(line, style="dim") for line in diagnosis.said]
    for row in diagnosis.unfinished:
        lines += _unfinished(row)
    lines.append(Text(""))
    return Text("\n").join(lines)


def _unfinished(row: RunSummary) -> list[Text]:
    if row.status == "broken":
        return [Text.assemble(("broken", "red"), f"   {row.folder}: {row.problem}")]
    return [
        Text.assemble((row.status, "yellow"), f"   {row.folder}"),
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
