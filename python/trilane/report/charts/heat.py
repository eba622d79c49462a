"""A map of ratios over networks as coloured cells."""

from __future__ import annotations

import math

import altair as alt

from trilane.lab.model.lab import LabResult
from trilane.report import formatting, maps, view
from trilane.report.cells import FINDINGS
from trilane.report.charts.base import GREY, Chart, data, plain, ratio_ticks, spec

_ROW = 56
# Half of a colour scale at least, so that a difference that means little looks like little.
_LEAST = 1.25
# Pixels: of the legend's colours, of a digit, and between two ticks at least.
_LEGEND, _DIGIT, _GAP = 200, 7, 8
_PALE, _DARK = "#f4f4f4", "#1a1d21"
_WORSE, _BETTER = "#d95f0e", "#2b6cb0"
# Findings of which a colour would say too much.
_UNCLAIMED = ("undecided", "invalid", "not_ranked")


# Values are written with their units.
_SETTINGS = {"rtt": "round-trip time", "loss": "packets lost", "rate": "rate of the link"}


def heat(lab: LabResult) -> list[Chart]:
    """A chart for each pair of arms; none where the sweep is not over networks."""
    found = maps.maps(lab)
    known = [cell.ratio for each in found for cell in each.cells.values() if cell and cell.ratio]
    # One scale for all: the same colour means the same ratio on the whole page.
    most = max([_LEAST, *(max(ratio, 1 / ratio) for ratio in known)])
    return [_heat(lab, each, most) for each in found]


def legend_ticks(most: float, length: float) -> list[float]:
    """Round ratios from 1/`most` to `most` with room for their texts along so many pixels."""
    ticks = ratio_ticks(1 / most, most)
    kept = [1.0]
    for side in ([t for t in ticks if t > 1], [t for t in reversed(ticks) if t < 1]):
        last = 1.0
        for tick in side:
            room = length * abs(math.log(tick / last)) / (2 * math.log(most))
            if room >= (_width(tick) + _width(last)) / 2 + _GAP:
                kept.append(tick)
                last = tick
    return sorted(kept)


def _width(tick: float) -> float:
    """Pixels of a tick's text."""
    return _DIGIT * len(f"{tick:,g}")


def _called(setting: str) -> str:
    return _SETTINGS.get(setting, setting)


def _heat(lab: LabResult, found: maps.Map, most: float) -> Chart:
    def place(row: str, column: str) -> str:
        across = f"{found.across} {column}"
        return f"{found.down} {row}, {across}" if found.down else across

    rows = [
        {
            "row": row,
            "column": column,
            "ratio": cell.ratio,
            "text": f"{formatting.times(cell.ratio)}×",
            "interval": f"{formatting.times(cell.low)}–{formatting.times(cell.high)}",
            "said": f"{place(row, column)}: "
            f"{formatting.ratio(cell.ratio, cell.low, cell.high)}, {FINDINGS[cell.finding]}",
            "claimed": cell.finding not in _UNCLAIMED,
            # Orange is light enough for dark ink up to its end.
            "strong": (cell.ratio > 1) == (found.better == "higher")
            and abs(math.log(cell.ratio)) > 0.7 * math.log(most),
        }
        for (row, column), cell in found.cells.items()
        if cell is not None and cell.ratio and cell.low is not None and cell.high is not None
    ]
    base = data(rows).encode(
        alt.X(
            "column:N",
            title=_called(found.across),
            sort=found.columns,
            axis=alt.Axis(labelAngle=0, orient="bottom", ticks=False, domain=False),
        ),
        alt.Y(
            "row:N",
            title=_called(found.down) or None,
            sort=found.rows,
            axis=alt.Axis(ticks=False, domain=False, labels=bool(found.down)),
        ),
    )
    colours = [_WORSE, _PALE, _BETTER] if found.better == "higher" else [_BETTER, _PALE, _WORSE]
    cells = base.mark_rect(style="tile", strokeWidth=2).encode(
        color=alt.condition(
            "datum.claimed",
            alt.Color(
                "ratio:Q",
                title="ratio",
                scale=alt.Scale(type="log", domain=[1 / most, 1, most], range=colours),
                legend=alt.Legend(
                    orient="top",
                    values=legend_ticks(most, _LEGEND),
                    format=",~g",
                    gradientLength=_LEGEND,
                ),
            ),
            alt.value(GREY),
        ),
        description=alt.Description("said:N"),
    )
    ink = alt.condition("datum.strong || !datum.claimed", alt.value("white"), alt.value(_DARK))
    value = base.mark_text(dy=-7, fontWeight="bold", fontSize=13).encode(
        alt.Text("text:N"), color=ink
    )
    between = base.mark_text(dy=9, fontSize=11).encode(alt.Text("interval:N"), color=ink)
    better = "Above" if found.better == "higher" else "Below"
    return Chart(
        f"map-{plain(found.key)}",
        formatting.capital(found.title),
        f"Ratio within blocks, and its {view.level(lab)} interval. {better} 1 (blue) the first arm "
        "is better. Grey: undecided or invalid.",
        spec([cells, value, between], _ROW * max(1, len(found.rows))),
    )
