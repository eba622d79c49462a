"""A chart in fewer bytes: each element stands where it stood, in its colour."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from trilane.report.compact import compact

SVG = "http://www.w3.org/2000/svg"


def compacted(inner: str) -> str:
    root = group(inner)
    compact(root)
    return ET.tostring(root, encoding="unicode").replace("ns0:", "")


def group(inner: str) -> ET.Element:
    # What these tests say themselves.
    return ET.fromstring(f'<g xmlns="{SVG}">{inner}</g>')  # noqa: S314


def test_a_circle_is_one_where_it_stands() -> None:
    circle = "M3.354,0A3.354,3.354,0,1,1,-3.354,0A3.354,3.354,0,1,1,3.354,0"
    made = compacted(f'<path d="{circle}" transform="translate(23.42,19)" opacity="0.7" />')
    assert '<circle opacity="0.7" r="3.4" cx="23.4" cy="19" />' in made


def test_what_all_of_a_group_have_is_said_once() -> None:
    text = '<text text-anchor="end" transform="translate(-6,{})">a</text>'
    made = compacted(text.format(22.5) + text.format(60.5))
    assert made.endswith(
        'text-anchor="end"><text x="-6" y="22.5">a</text><text x="-6" y="60.5">a</text></g>'
    )
    dots = compacted('<path d="M0,0h1" fill="#123456" /><path d="M0,0h2" fill="#123456" />')
    assert dots.count('fill="#123456"') == 1


@pytest.mark.parametrize(
    "inner",
    [
        # Others have another, or none.
        '<path d="M0,0h1" fill="#123456" /><path d="M0,0h2" fill="#654321" />',
        '<path d="M0,0h1" fill="#123456" /><path d="M0,0h2" />',
        # A group's opacity is not that of each of its elements; nor is a width a colour's.
        '<path d="M0,0h1" opacity="0.7" /><path d="M0,0h2" opacity="0.7" />',
        '<path stroke="red" stroke-width="3" /><path stroke="blue" stroke-width="3" />',
        # The style of a page colours texts and lines that have no colour.
        '<line x2="1" stroke="red" /><line x2="2" stroke="red" />',
        '<text fill="red">a</text><text fill="red">b</text>',
        # Lines of a text stand below each other; turned text turns about its place.
        '<text transform="translate(1,2)"><tspan>a</tspan><tspan x="0" dy="14">b</tspan></text>',
        '<text transform="translate(1,2) rotate(-90)">a</text>',
        '<path d="M0,0h1" transform="translate(1,2)" />',
    ],
)
def test_what_would_look_otherwise_stays(inner: str) -> None:
    root = group(inner)
    before = ET.tostring(root)
    compact(root)
    assert ET.tostring(root) == before
