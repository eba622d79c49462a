"""The elements of a chart in fewer bytes: what it looks like stays the same."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

_SVG = "{http://www.w3.org/2000/svg}"
_PLACE = re.compile(r"translate\((-?[\d.]+),\s*(-?[\d.]+)\)")
_CIRCLE = re.compile(
    r"M([\d.]+),0A\1,\1,0,1,1,-\1,0A\1,\1,0,1,1,\1,0",
)
# What elements have from their group. Colours of texts and lines stay: the style of a page gives
# those that have none another.
_INHERITED = ("text-anchor", "font-weight")


def compact(element: ET.Element) -> None:
    """Say once for a group what all of it have, and places without transforms; in place."""
    for child in element:
        compact(child)
    _circle(element)
    _place(element)
    tags = {child.tag for child in element}
    coloured = not tags & {f"{_SVG}text", f"{_SVG}line", f"{_SVG}g"}
    for name in (*_INHERITED, *(["fill"] if coloured else [])):
        values = {child.get(name) for child in element}
        if len(element) > 1 and len(values) == 1 and name not in element.attrib:
            (value,) = values
            if value is not None:
                element.set(name, value)
                for child in element:
                    del child.attrib[name]


def _circle(element: ET.Element) -> None:
    """A circle that is drawn as a path."""
    found = _CIRCLE.fullmatch(element.get("d", ""))
    if element.tag == f"{_SVG}path" and found:
        element.tag = f"{_SVG}circle"
        del element.attrib["d"]
        element.set("r", f"{float(found[1]):.1f}")


def _place(element: ET.Element) -> None:
    """Where a circle or one line of text stands."""
    keys = {f"{_SVG}circle": ("cx", "cy"), f"{_SVG}text": ("x", "y")}.get(element.tag)
    found = _PLACE.fullmatch(element.get("transform", ""))
    if keys is None or found is None or len(element) or set(keys) & set(element.attrib):
        return
    del element.attrib["transform"]
    for key, value in zip(keys, found.groups(), strict=True):
        element.set(key, f"{float(value):.1f}".removesuffix(".0"))
