"""Two runs set side by side, on the terminal: the verdict first, then what it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trilane.lab.analysis.compare_runs import apart
from trilane.lab.model.documents import Json
from trilane.report import cells, formatting

_VALIDITY_STYLE = {"valid": "green", "suspect": "yellow", "invalid": "bold red"}
_SHOWN = 60
_HOURS_A_DAY = 24


def show(document: Json, console: Console) -> None:
    """Print a `trilane.contrast/1`."""
    console.print(render(document), highlight=False)


def render(document: Json) -> RenderableType:
    """A contrast as something rich can print."""
    parts: list[RenderableType] = [_head(document), Padding(_table(document), (1, 0))]
    parts += [_notes(document)]
    return Group(*parts)


def _head(document: Json) -> Text:
    return Text.assemble(
        (document["verdict"], "bold"),
        "\n\n",
        f"A  {_told(document['a'], document['unit'])}\n",
        f"B  {_told(document['b'], document['unit'])}\n",
        (_apart(document), "dim"),
    )


def _told(side: Json, unit: str) -> str:
    sources = side["sources"]
    first = sources[0]
    if unit == "file":
        return f"{formatting.counted(len(sources), 'run')} of trilane load: {side['label']}"
    of = " ".join(filter(None, [first["experiment"], first["form"], "(quick)" * first["quick"]]))
    if unit == "run":
        return f"{formatting.counted(len(sources), 'run')} of {of}: {side['label']}"
    blocks = formatting.counted(first["blocks"], "block")
    return f"{first['name']}: {of}, {blocks}, {first['started_at']}"


def _apart(document: Json) -> str:
    hours = apart(document["a"], document["b"])
    if hours is None:
        return ""
    size = abs(hours)
    distance = (
        f"{60 * size:.0f} min"
        if size < 1
        else f"{size:.1f} h"
        if size < _HOURS_A_DAY
        else f"{size / _HOURS_A_DAY:.1f} days"
    )
    where = f"B ran {distance} {'after' if hours >= 0 else 'before'} A"
    if document["control"]:
        return f"{where}; every value is divided by {document['control']}'s in the same block"
    return f"{where}: what changed on the machine in between counts as a difference"


def _table(document: Json) -> Table:
    titles = {arm["name"]: arm["title"] for arm in document["arms"]}
    swept = any(row["point"] is not None for row in document["ratios"])
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("")
    if swept:
        table.add_column("at", justify="right", no_wrap=True)
    for name in ("A", "B"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("B / A (95 %)", no_wrap=True)
    table.add_column("p", justify="right", style="dim", no_wrap=True)
    table.add_column("noise floor", justify="right", style="dim", no_wrap=True)
    for measure in document["measures"]:
        rows = [row for row in document["ratios"] if row["measure"] == measure["name"]]
        unit = rows[0]["a"]["unit"]
        medians = [row[side]["median"] for row in rows for side in "ab"]
        factor, scaled = formatting.scale(medians, unit)
        header = measure["label"].replace(" per request", "/req")
        if document["control"]:
            header += f", × {titles.get(document['control'], document['control'])}"
        elif measure["unit"] != "1/s":
            header += f", {scaled}"
        table.add_row(Text(header, style="bold"), end_section=False)
        for row in rows[:_SHOWN]:
            cells: list[str | Text] = [f"  {titles[row['arm']]}"]
            cells += (
                [formatting.NONE if row["point"] is None else f"{row['point']:g}"] if swept else []
            )
            cells += [formatting.number(row[side]["median"] / factor) for side in "ab"]
            cells += [_ratio(row, measure), _p(row), _floor(row)]
            table.add_row(*cells)
        if len(rows) > _SHOWN:
            table.add_row(Text(f"  and {len(rows) - _SHOWN} more: --format json", style="dim"))
    return table


def _ratio(row: Json, measure: Json) -> Text:
    style = "red" if row["finding"] == "invalid" else ""
    if row["finding"] in ("higher", "lower"):
        style = f"bold {'green' if row['finding'] == measure['better'] else 'red'}"
    return Text(
        f"{cells.MARKS[row['finding']]} {formatting.ratio(row['ratio'], row['low'], row['high'])}",
        style=style,
    )


def _floor(row: Json) -> str:
    floor = row["noise_floor"]
    return f"{floor['low']:.2f}–{floor['high']:.2f}" if floor else formatting.NONE


def _p(row: Json) -> str:
    return formatting.NONE if row["p_holm"] is None else f"{row['p_holm']:.3f}"


def _notes(document: Json) -> Text:
    lines = [
        Text(
            "▲ higher ▼ lower in B, = no difference beyond "
            f"{formatting.percent(document['margin'])}, ? no difference shown, ✗ invalid",
            style="dim",
        ),
        *(
            [Text(cells.SHARED, style="dim")]
            if any(row["finding"] == "not_ranked" for row in document["ratios"])
            else []
        ),
        Text(
            f"medians over {document['unit']}s; ratio: Hodges-Lehmann, bootstrap interval; "
            "p: Mann-Whitney, Holm over the arms of a measure; "
            "noise floor: a second run of an arm against its first, in A or B",
            style="dim",
        ),
        Text(""),
    ]
    for letter, names in document["only"].items():
        if names:
            lines.append(Text(f"only in {letter.upper()}: {', '.join(names)}", style="yellow"))
    lines += _differences(document)
    verdict = document["validity"]
    lines.append(
        Text.assemble("validity: ", (verdict["verdict"], _VALIDITY_STYLE[verdict["verdict"]]))
    )
    lines += [Text(f"  {reason}") for reason in verdict["reasons"]]
    for gate in document["gates"]:
        lines += _gate(gate)
    return Text("\n").join(lines)


def _differences(document: Json) -> list[Text]:
    if not document["differences"]:
        return [Text("not equal between A and B: nothing that the ledger knows", style="dim")]
    lines = [Text("not equal between A and B:", style="yellow")]
    arms = len(document["arms"])
    for row in document["differences"]:
        who = "" if len(row["arms"]) == arms else f" ({', '.join(row['arms'])})"
        lines.append(
            Text.assemble(
                f"  {row['scope']}: {row['name']}{who}: {_fact(row['a'])}",
                (" → ", "dim"),
                _fact(row["b"]),
            )
        )
    return lines


def _fact(value: object) -> str:
    return formatting.NONE if value is None else str(value)


def _gate(gate: Json) -> list[Text]:
    rows: Sequence[Json] = gate["rows"]
    style = "bold red" if gate["breached"] else "green"
    lines = [
        Text.assemble(f"--fail-if {gate['text']}: ", ("breached", style))
        if gate["breached"]
        else Text.assemble(f"--fail-if {gate['text']}: ", ("not breached", style))
    ]
    for row in rows:
        where = row["arm"] if row["point"] is None else f"{row['arm']} at {row['point']:g}"
        lines.append(Text(f"  {where}: {row['reason']}"))
    return lines
