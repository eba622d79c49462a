"""A comparison on the terminal: the verdict first, then what it rests on."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trilane.lab.arms import TITLES
from trilane.lab.measures import RACE, RATE, Json, Measure
from trilane.lab.verdict import bound_text
from trilane.report import text

_MARKS = {"higher": "▲", "lower": "▼", "no_difference": "=", "undecided": "?", "invalid": "✗"}
_VALIDITY_STYLE = {"valid": "green", "suspect": "yellow", "invalid": "bold red"}
_LABELS = {
    "requests_per_s": "requests/s",
    "p50": "p50 latency",
    "p99": "p99 latency",
    "client_cpu_us_per_request": "client CPU/req",
    "server_cpu_us_per_request": "server CPU/req",
    "bytes_per_request": "bytes/req",
}


def show(comparison: Json, console: Console) -> None:
    """Print a comparison."""
    console.print(render(comparison), highlight=False, soft_wrap=False)


def render(comparison: Json) -> RenderableType:
    """A comparison as something rich can print."""
    return Group(
        _head(comparison),
        Padding(_table(comparison), (1, 0)),
        _notes(comparison, _legend(comparison)),
    )


def _head(comparison: Json) -> Text:
    plan = comparison["plan"]
    shape = (
        f"closed model, {text.counted(plan['in_flight'], 'request')} in flight, "
        f"{text.counted(plan['blocks_done'], 'block')} of {text.duration(plan['duration_s'])} runs"
    )
    return Text.assemble(
        (comparison["verdict"], "bold"), "\n\n", comparison["url"], "\n", (shape, "dim")
    )


def _legend(comparison: Json) -> list[Text]:
    if all(row["ratio"] is None for row in comparison["ratios"]):
        return []
    baseline = TITLES[comparison["baseline"]]
    return [
        Text(
            f"▲ higher ▼ lower = no difference beyond {text.percent(comparison['plan']['margin'])} "
            f"? undecided ✗ invalid: ratio to {baseline} within blocks, 95 % interval",
            style="dim",
        ),
        Text(f"noise floor: {baseline} against itself, 95 % interval", style="dim"),
    ]


def _shown(comparison: Json) -> list[Measure]:
    return [
        measure
        for measure in RACE
        if any(arm["summary"][measure.name]["median"] is not None for arm in comparison["arms"])
    ]


def _table(comparison: Json) -> Table:
    """Measures down, arms across: value, then ratio to the baseline with its interval."""
    arms = comparison["arms"]
    ratios = {(row["measure"], row["arm"]): row for row in comparison["ratios"]}
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("")
    for arm in arms:
        shape = f"{arm['connections']} × {arm['streams']}"
        table.add_column(f"{arm['title']}\n{shape}", justify="right", no_wrap=True)
    if ratios:
        table.add_column("noise\nfloor", style="dim", no_wrap=True, justify="right")
    for measure in _shown(comparison):
        medians = [arm["summary"][measure.name]["median"] for arm in arms]
        factor, unit = text.scale(medians, measure.unit)
        values = [Text(_value(median, factor, unit, measure)) for median in medians]
        row: list[Text | str] = [_LABELS[measure.name], *values]
        if not ratios:
            table.add_row(*row)
            continue
        floor = comparison["noise_floor"][measure.name]
        table.add_row(*row, f"{floor['low']:.2f}–{floor['high']:.2f}" if floor else text.NONE)
        compared = [ratios.get((measure.name, arm["name"])) for arm in arms]
        if all(row is None or row["ratio"] is None for row in compared):
            continue
        table.add_row(
            "",
            *[_ratio(ratio, measure) for ratio in compared],
            style="dim",
        )
    return table


def _value(median: float | None, factor: float, unit: str, measure: Measure) -> str:
    if median is None:
        return text.NONE
    return text.number(median / factor) + ("" if measure is RATE else f" {unit}")


def _ratio(row: Json | None, measure: Measure) -> Text:
    if row is None:
        return Text("")
    style = "red" if row["finding"] == "invalid" else ""
    if row["finding"] in ("higher", "lower"):
        style = f"not dim bold {'green' if row['finding'] == measure.better else 'red'}"
    return Text(f"{_MARKS[row['finding']]} {text.ratio(row)}", style=style)


def _notes(comparison: Json, lines: list[Text]) -> Text:
    lines.append(Text(""))
    for arm in comparison["arms"]:
        load = arm["load"]
        busy = f"client {text.percent(load['client_busy'])}"
        if load["server_busy"] is not None:
            busy += f", server {text.percent(load['server_busy'])}"
        lines.append(Text(f"{arm['title']}: {bound_text(load)}; busiest thread {busy}"))
    lines += [
        Text(f"{TITLES[gone['version']]} not raced: {gone['reason']}", style="yellow")
        for gone in comparison["absent"]
    ]
    pinning = comparison["ledger"]["machine"].get("pinning")
    if pinning:
        lines.append(Text(f"pinning: {pinning}", style="dim"))
    differing = _unexpected(comparison)
    if differing:
        lines.append(Text(f"not equal between arms: {', '.join(differing)}", style="yellow"))
    verdict = comparison["validity"]
    lines.append(
        Text.assemble("validity: ", (verdict["verdict"], _VALIDITY_STYLE[verdict["verdict"]]))
    )
    for reason in verdict["reasons"]:
        lines[-1].append(f"\n  {reason}", style="default")
    return Text("\n").join(lines)


# A race is about these: they differ by design and are shown in the report's ledger only.
_BY_DESIGN = frozenset(
    {
        "version obtained",
        "ALPN",
        "connections",
        "streams per connection",
        "server settings",
        "client settings",
        "request header fields",
        "request header (bytes)",
    }
)


def _unexpected(comparison: Json) -> list[str]:
    return [
        str(row["name"])
        for row in comparison["ledger"]["rows"]
        if not row["equal"] and row["name"] not in _BY_DESIGN
    ]
