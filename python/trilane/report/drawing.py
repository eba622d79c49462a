"""Charts as SVG for a page: drawn beforehand, so that the page needs no script."""

from __future__ import annotations

import copy
import html
import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

import vl_convert
from markupsafe import Markup

from trilane.lab.model.documents import Json
from trilane.report.charts.base import FONT_SIZE, Chart
from trilane.report.compact import compact

_SVG = "{http://www.w3.org/2000/svg}"
_NUMBER = re.compile(r"-?\d*\.\d+(?:e-?\d+)?")
# What Vega writes for programs, or repeats on each of its elements: the style of a page has it.
_NEEDLESS = {
    "class",
    "role",
    "aria-hidden",
    "aria-label",
    "aria-roledescription",
    "pointer-events",
    "font-family",
}
_DEFAULTS = {
    "opacity": "1",
    "stroke-width": "1",
    "transform": "translate(0,0)",
    "font-size": f"{FONT_SIZE}px",
    "text-anchor": "start",
    "font-weight": "normal",
    "x2": "0",
    "y2": "0",
    "stroke-opacity": "1",
    "fill-opacity": "1",
}
# Of what is looked at, what has words of its own.
_HOVERED = "graphics-symbol"
_GUIDES = {"axis", "legend", "title"}


def config(ink: str, soft: str, line: str, edge: str) -> Json:
    """The looks of all charts in these colours; `edge` is that between cells."""
    return {
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {
            "labelColor": soft,
            "titleColor": soft,
            "gridColor": line,
            "domainColor": line,
            "tickColor": line,
            "labelFontSize": FONT_SIZE,
            "titleFontSize": FONT_SIZE,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "labelOverlap": True,
            "labelSeparation": 10,
            "ticks": False,
            "labelPadding": 6,
        },
        "axisQuantitative": {"tickCount": 6},
        "padding": {"left": 8, "right": 5, "top": 5, "bottom": 5},
        "legend": {
            "labelColor": ink,
            "titleColor": soft,
            "labelFontSize": FONT_SIZE,
            "titleFontSize": FONT_SIZE,
            "titleFontWeight": "normal",
            # Of shapes and dashes, which have no colour of their own.
            "symbolBaseFillColor": soft,
            "symbolBaseStrokeColor": soft,
            # Letters of a browser may be wider than those that the chart was drawn for.
            "columnPadding": 18,
            "layout": {"top": {"direction": "vertical", "anchor": "start"}},
        },
        "text": {"fontSize": FONT_SIZE, "color": soft},
        "rule": {"color": soft},
        "style": {"tile": {"stroke": edge}},
    }


# Variables of the page's style, so that a chart follows light, dark and print.
_SOFT, _LINE = "var(--soft)", "var(--line)"
_PAGE = {**config("var(--ink)", _SOFT, _LINE, "var(--card)"), "background": None}
# What the page's style gives where it is not said.
_STYLED = {("text", "fill"): _SOFT, ("line", "stroke"): _LINE}


def svg(chart: Chart) -> Markup:
    """The chart as an element of a page; what describes a mark is its title."""
    spec = copy.deepcopy(chart.spec)
    for unit in _units(spec):
        _described(unit)
    # Of the converter's own making, so nobody's entities are in it.
    root = ET.fromstring(vl_convert.vegalite_to_svg(spec, config=_PAGE))  # noqa: S314
    compact(root)
    _, _, width, height = root.attrib["viewBox"].split()
    inner = "".join(_markup(child, chart.name) for child in root)
    return Markup(  # noqa: S704 - all text and attributes are escaped below
        f'<svg viewBox="0 0 {width} {height}" style="--drawn:{width}px" role="img" '
        f'aria-label="{html.escape(chart.title)}">{inner}</svg>'
    )


def _units(spec: Json) -> Iterator[Json]:
    """Each part of a specification that has marks of its own."""
    for layer in spec.get("layer", []):
        yield from _units(layer)
    if "mark" in spec:
        yield spec


def _described(unit: Json) -> None:
    """A mark without a description has none of Vega's making."""
    if "description" not in unit.get("encoding", {}):
        unit["mark"] = {"type": unit["mark"]} if isinstance(unit["mark"], str) else unit["mark"]
        unit["mark"]["aria"] = False


def _markup(element: ET.Element, name: str) -> str:
    """An element without what nobody sees; `name` makes its ids unique in a page."""
    tag = element.tag.removeprefix(_SVG)
    if element.get("display") == "none" or _blank(element):
        return ""
    inner = html.escape(element.text or "", quote=False) if tag in {"text", "tspan"} else ""
    if title := _told(element):
        inner = f"<title>{html.escape(title, quote=False)}</title>{inner}"
    inner += "".join(_markup(child, name) for child in element)
    if "stroke" not in element.attrib:
        element.attrib.pop("stroke-width", None)
    attributes = "".join(
        f' {key}="{html.escape(_shorter(key, value, name))}"'
        for key, value in element.attrib.items()
        if key not in _NEEDLESS and value not in {_DEFAULTS.get(key), _STYLED.get((tag, key))}
    )
    if tag == "g" and (not attributes or not inner):
        return inner
    return f"<{tag}{attributes}>{inner}</{tag}>" if inner else f"<{tag}{attributes}/>"


def _blank(element: ET.Element) -> bool:
    """Whether it is a background without a colour."""
    return element.get("class") == "background" and not (
        element.get("fill") or element.get("stroke")
    )


def _told(element: ET.Element) -> str | None:
    if element.get("role") != _HOVERED or element.get("aria-roledescription") in _GUIDES:
        return None
    return element.get("aria-label")


def _shorter(key: str, value: str, name: str) -> str:
    """The value of an attribute: no finer than a tenth of a pixel, with ids of the chart's own."""
    if key == "id":
        return f"{name}-{value}"
    if value.startswith("url(#"):
        return value.replace("url(#", f"url(#{name}-")
    if key in {"transform", "d", "x", "y", "x1", "x2", "y1", "y2", "width", "height"}:
        return _NUMBER.sub(lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), value)
    if key == "opacity":
        return f"{float(value):.2g}"
    return value
