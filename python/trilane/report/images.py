"""Charts as PNG and SVG files."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import vl_convert

from trilane.lab.model.documents import Json
from trilane.report import drawing
from trilane.report.charts import Chart

_WIDTH = 720
_SCALE = 2.0
# On white, so that a chart can be pasted anywhere.
_CONFIG: Json = {
    **drawing.config(ink="#1b1e23", soft="#5a616b", line="#dde1e6", edge="#ffffff"),
    "background": "#ffffff",
    "padding": 12,
    "font": "sans-serif",
    "title": {
        "anchor": "start",
        "color": "#1b1e23",
        "subtitleColor": "#5a616b",
        "fontSize": 15,
        "offset": 12,
    },
}


def write(charts: Iterable[Chart], folder: Path) -> list[Path]:
    """Write `NAME.png` and `NAME.svg` of every chart of a result into `folder`; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for chart in charts:
        spec = _standing_alone(chart)
        svg = folder / f"{chart.name}.svg"
        drawn = vl_convert.vegalite_to_svg(spec, config=_CONFIG)
        svg.write_text(drawn, encoding="utf-8")
        png = folder / f"{chart.name}.png"
        png.write_bytes(vl_convert.svg_to_png(drawn, scale=_SCALE))
        written += [svg, png]
    return written


def _standing_alone(chart: Chart) -> Json:
    """Outside of a page a chart has a width and a title of its own."""
    spec: dict[str, Any] = copy.deepcopy(chart.spec)
    spec["width"] = _WIDTH
    spec["autosize"] = {"type": "pad"}
    spec["title"] = chart.title
    return spec
