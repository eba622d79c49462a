"""Single runs of load generators side by side, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trilane.lab.model.beside import Beside, Told
from trilane.report import answers, formatting, styles

# Kinds of errors and status codes that are listed for one run.
_LISTED = 4


def show(beside: Beside, console: Console) -> None:
    """Print the runs."""
    console.print(render(beside), highlight=False)


def render(beside: Beside) -> RenderableType:
    """The runs as something rich can print."""
    runs = _named(beside)
    files = "\n".join(f"{name}  {told.tool}: {told.file}, {told.format}" for name, told in runs)
    return Group(
        Text("\n").join([answers.text(beside.answer), *map(Text, beside.answer.details)]),
        Text(f"\n{files}"),
        Padding(_table(beside, runs), (1, 0)),
        _notes(runs),
    )


def _named(beside: Beside) -> list[tuple[str, Told]]:
    """The runs, each with its letter, and a number where a side has several."""
    return [
        (letter if len(side) == 1 else f"{letter}{number}", told)
        for letter, side in (("A", beside.a), ("B", beside.b))
        for number, told in enumerate(side, start=1)
    ]


def _table(beside: Beside, runs: Sequence[tuple[str, Told]]) -> Table:
    table = styles.table()
    table.add_column("")
    for name, told in runs:
        table.add_column(f"{name}  {told.tool}", justify="right")
    for measure in beside.measures:
        values = [told.value(measure.name) for _, told in runs]
        factor, unit = formatting.scale(values, measure.unit)
        cells = [formatting.number(None if v is None else v / factor) for v in values]
        label = measure.label if measure.unit == "1/s" else formatting.headed(measure.label, unit)
        table.add_row(f"ok {label}" if measure.name == "requests_per_s" else label, *cells)
    own = [told.own_rate for _, told in runs]
    table.add_row(
        "requests/s as the tool tells it",
        *(formatting.number(None if rate is None else rate.per_s) for rate in own),
    )
    accounts = [told.requests for _, told in runs]
    table.add_row("ok", *(f"{each.ok:,}" for each in accounts))
    table.add_row("failed", *(f"{each.failed:,}" for each in accounts))
    table.add_row(
        "unfinished at the end",
        *(formatting.NONE if a.unfinished is None else f"{a.unfinished:,}" for a in accounts),
    )
    table.add_row("status codes", *(_counts(each.status) for each in accounts))
    table.add_row("errors", *(_counts(each.errors) for each in accounts))
    table.add_row("received", *(_received(told) for _, told in runs))
    table.add_row("over", *(formatting.quantity(told.duration_s, "s") for _, told in runs))
    return table


def _counts(counts: dict[str, int] | dict[str, int | None]) -> str:
    shown = [
        name[:60] if count is None else f"{name[:60]}: {count:,}"
        for name, count in list(counts.items())[:_LISTED]
    ]
    more = len(counts) - _LISTED
    return ", ".join([*shown, *([f"and {more} more"] if more > 0 else [])]) or formatting.NONE


def _received(told: Told) -> str:
    if told.bytes_received is None:
        return formatting.NONE
    return f"{formatting.quantity(told.bytes_received, 'B')} ({told.bytes_are})"


def _notes(runs: Sequence[tuple[str, Told]]) -> Text:
    lines = [
        Text(
            "ok requests/s: ok requests divided by the time, the same for every tool; "
            f"{formatting.NONE} is not told, or has too few samples",
            style="dim",
        )
    ]
    for name, told in runs:
        lines.append(Text(f"{name}, latency: {told.latency_runs}", style="dim"))
        if told.own_rate is not None:
            lines.append(Text(f"{name}, its own rate: {told.own_rate.counts}", style="dim"))
        if told.unsaid:
            lines.append(Text(f"{name} does not tell: {'; '.join(told.unsaid)}", style="dim"))
    return Text("\n").join(lines)
