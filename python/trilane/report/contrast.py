"""Two runs set side by side, on the terminal: the verdict first, then what it rests on."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trilane.lab.analysis.compare_runs import apart
from trilane.lab.model.comparison import Fact, Shown
from trilane.lab.model.contrast import Contrast, ContrastSide, JudgedGate, Shift, ValueUnit
from trilane.quantity import value_text
from trilane.report import answers, cells, formatting, styles

_SHOWN = 60
# Seconds in a unit of time, and how many places it is told with.
_UNITS = ((86_400, 1, "days"), (3600, 1, "h"), (60, 0, "min"), (1, 0, "s"))


def show(contrast: Contrast, console: Console) -> None:
    """Print a contrast."""
    console.print(render(contrast), highlight=False)


def render(contrast: Contrast) -> RenderableType:
    """A contrast as something rich can print."""
    return Group(_head(contrast), Padding(_table(contrast), (1, 0)), _notes(contrast))


def _head(contrast: Contrast) -> Text:
    return Text.assemble(
        answers.text(contrast.said),
        "\n\n",
        f"A  {_told(contrast.a, contrast.unit)}\n",
        f"B  {_told(contrast.b, contrast.unit)}\n",
        (_apart(contrast), "dim"),
    )


def _told(side: ContrastSide, unit: ValueUnit) -> str:
    sources = side.sources
    first = sources[0]
    if unit == "file":
        tool = "trilane load" if first.kind == "load" else first.kind
        return f"{formatting.counted(len(sources), 'run')} of {tool}: {side.label}"
    of = " ".join(filter(None, [first.experiment, first.form, "(quick)" * first.quick]))
    if unit == "run":
        return f"{formatting.counted(len(sources), 'run')} of {of}: {side.label}"
    blocks = formatting.counted(first.blocks or 0, "block")
    return f"{first.name}: {of}, {blocks}, {first.started_at}"


def _apart(contrast: Contrast) -> str:
    seconds = apart(contrast.a, contrast.b)
    if seconds is None:
        return ""
    size = abs(seconds)
    length, places, unit = next((u for u in _UNITS if size >= u[0]), _UNITS[-1])
    distance = f"{size / length:.{places}f} {unit}"
    where = f"B ran {distance} {'after' if seconds >= 0 else 'before'} A"
    if contrast.control:
        return f"{where}; every value is divided by {contrast.control}'s in the same block"
    return f"{where}: what changed on the machine in between counts as a difference"


def _table(contrast: Contrast) -> Table:
    titles = contrast.titles
    swept = any(row.point is not None for row in contrast.ratios)
    table = styles.table()
    table.add_column("")
    if swept:
        table.add_column("at", justify="right", no_wrap=True)
    for name in ("A", "B"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("B / A (95 %)", no_wrap=True)
    table.add_column("p", justify="right", style="dim", no_wrap=True)
    table.add_column("noise floor", justify="right", style="dim", no_wrap=True)
    for measure in contrast.measures:
        rows = [row for row in contrast.ratios if row.measure == measure.name]
        unit = rows[0].a.unit
        medians = [side.median for row in rows for side in (row.a, row.b)]
        factor, scaled = formatting.scale(medians, unit)
        header = measure.label.replace(" per request", "/req")
        if contrast.control:
            header += f", × {titles.get(contrast.control, contrast.control)}"
        elif measure.unit != "1/s":
            header += f", {scaled}"
        table.add_row(Text(header, style="bold"), end_section=False)
        for row in rows[:_SHOWN]:
            cells: list[str | Text] = [f"  {titles[row.arm]}"]
            cells += (
                [formatting.NONE if row.point is None else value_text(row.point)] if swept else []
            )
            cells += [formatting.number((side.median or 0) / factor) for side in (row.a, row.b)]
            cells += [_ratio(row, measure), _p(row), _floor(row)]
            table.add_row(*cells)
        if len(rows) > _SHOWN:
            table.add_row(Text(f"  and {len(rows) - _SHOWN} more: --format json", style="dim"))
    return table


def _ratio(row: Shift, measure: Shown) -> Text:
    return Text(
        f"{cells.MARKS[row.finding]} {formatting.ratio(row.ratio, row.low, row.high)}",
        style=styles.of_finding(row.finding, cells.tone(row.finding, measure.better)),
    )


def _floor(row: Shift) -> str:
    floor = row.noise_floor
    return f"{floor.low:.2f}–{floor.high:.2f}" if floor else formatting.NONE


def _p(row: Shift) -> str:
    return formatting.NONE if row.p_holm is None else formatting.p_value(row.p_holm)


def _notes(contrast: Contrast) -> Text:
    lines = [
        Text(
            "▲ higher ▼ lower in B, = no difference beyond "
            f"{formatting.percent(contrast.margin)}, ? no difference shown, ✗ invalid",
            style="dim",
        ),
        *(
            [Text(cells.SHARED, style="dim")]
            if any(row.finding == "not_ranked" for row in contrast.ratios)
            else []
        ),
        Text(
            f"medians over {contrast.unit}s; ratio: Hodges-Lehmann, bootstrap interval; "
            "p: Mann-Whitney, Holm over the arms of a measure; "
            "noise floor: a second run of an arm against its first, in A or B",
            style="dim",
        ),
        Text(""),
    ]
    for letter, names in (("A", contrast.only.a), ("B", contrast.only.b)):
        if names:
            lines.append(Text(f"only in {letter}: {', '.join(names)}", style="yellow"))
    lines += _differences(contrast)
    for gate in contrast.gates:
        lines += _gate(gate)
    return Text("\n").join(lines)


def _differences(contrast: Contrast) -> list[Text]:
    if not contrast.differences:
        return [Text("not equal between A and B: nothing that the ledger knows", style="dim")]
    lines = [Text("not equal between A and B:", style="yellow")]
    arms = len(contrast.arms)
    for row in contrast.differences:
        who = "" if len(row.arms) == arms else f" ({', '.join(row.arms)})"
        lines.append(
            Text.assemble(
                f"  {row.scope}: {row.name}{who}: {_fact(row.a)}",
                (" → ", "dim"),
                _fact(row.b),
            )
        )
    return lines


def _fact(value: Fact) -> str:
    return formatting.NONE if value is None else str(value)


def _gate(gate: JudgedGate) -> list[Text]:
    found = ("breached", "bold red") if gate.breached else ("not breached", "green")
    lines = [Text.assemble(f"--fail-if {gate.text}: ", found)]
    for row in gate.rows:
        where = row.arm if row.point is None else f"{row.arm} at {value_text(row.point)}"
        lines.append(Text(f"  {where}: {row.reason}"))
    return lines
