"""The list of runs: what each is, how far it got, the room that it takes, and its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from trilane.lab.model.summary import BROKEN, RunSummary
from trilane.report import formatting, styles

_STATUS_STYLE = {"complete": "green", "running": "cyan", BROKEN: "red"}
# Between two columns, and the least for a verdict: narrower it is a column of single words.
_GAP = 2
_ROOM = 24


def show(rows: Sequence[RunSummary], sizes: Mapping[str, int], console: Console) -> None:
    """Print all runs: where a verdict has no room beside its run, it stands below.

    `sizes`: bytes by the names of the folders.
    """
    table = styles.table()
    for name in ("run", "status", "size", "machine"):
        table.add_column(name, no_wrap=True, justify="right" if name == "size" else "left")
    shown = [_cells(row, sizes[row.folder]) for row in rows]
    before = sum(
        max(cell.cell_len for cell in column) + _GAP for column in zip(*shown, strict=True)
    )
    beside = console.width - before >= _ROOM
    if beside:
        table.add_column("verdict", ratio=1)
    for row, cells in zip(rows, shown, strict=True):
        verdict = row.verdict or row.problem or row.way_on or formatting.NONE
        if beside:
            table.add_row(*cells, Text(verdict))
        else:
            console.print(Text("  ").join(cells), highlight=False)
            console.print(Padding(Text(verdict), (0, 0, 0, 2)), highlight=False)
    if beside:
        console.print(table, highlight=False)
    total = formatting.quantity(sum(sizes.values()), "B")
    console.print(f"{formatting.counted(len(rows), 'run')}, {total}", highlight=False)


def _cells(row: RunSummary, size: int) -> tuple[Text, ...]:
    """Folder, status, size and machine."""
    return (
        Text(row.folder + (" (quick)" if row.quick else "")),
        Text(row.status, style=_STATUS_STYLE.get(row.status, "yellow")),
        Text(formatting.quantity(size, "B")),
        Text(row.machine or formatting.NONE),
    )
