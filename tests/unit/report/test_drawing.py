"""Charts as the elements of a page: drawn beforehand, in its colours, with words to point at."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from xml.etree import ElementTree as ET

import altair as alt
import pytest

from trilane.lab.model.lab import LabResult
from trilane.report import charts, drawing
from trilane.report.charts import base
from trilane.report.charts.base import Chart
from unit.report.test_charts import bookstore, capacity, race

EVIL = "<script>alert('&\"')</script>"


def chart(made: alt.Chart | alt.LayerChart, name: str = "made") -> Chart:
    return Chart(name, f"of {EVIL}", "", base.spec(made, 100))


def drawn(made: alt.Chart | alt.LayerChart) -> ET.Element:
    return parsed(drawing.svg(chart(made)))


def parsed(markup: str) -> ET.Element:
    return ET.fromstring(markup)  # noqa: S314 - of our own making


def titles(made: alt.Chart | alt.LayerChart) -> list[str]:
    return [each.text or "" for each in drawn(made).iter("title")]


def words(of: ET.Element) -> Iterable[str]:
    return ("".join(text.itertext()) for text in of.iter("text"))


def points(*rows: dict[str, object]) -> alt.Chart:
    marks: alt.Chart = base.data(rows).mark_point()
    return marks.encode(alt.X("value:Q"), color=alt.Color("arm:N"))


TIPS = [alt.Tooltip("arm:N"), alt.Tooltip("value:Q", format=",.3~r", title="p99 (ms)")]


def test_what_a_mark_tells_is_its_title() -> None:
    made = points({"arm": EVIL, "value": 1234.5}, {"arm": "h2", "value": None})
    assert titles(made.encode(tooltip=TIPS)) == [f"arm: {EVIL}\np99 (ms): 1,230"]
    assert titles(made.encode(tooltip=TIPS[1])) == ["p99 (ms): 1,230"]


def test_what_is_not_known_is_a_dash() -> None:
    made = base.data([{"arm": "h2", "value": None, "at": 1}]).mark_point().encode(alt.X("at:Q"))
    assert titles(made.encode(tooltip=TIPS)) == ["arm: h2\np99 (ms): –"]


def test_a_mark_that_has_nothing_to_tell_has_no_title() -> None:
    assert titles(points({"arm": "h2", "value": 1})) == []


def test_a_line_tells_whose_it_is_and_no_number_of_its_first_point() -> None:
    rows = [{"arm": "h2", "value": value} for value in (1, 2)]
    made = base.data(rows).mark_line().encode(alt.X("value:Q"), alt.Y("value:Q"), tooltip=TIPS)
    assert titles(made) == ["arm: h2"]


def test_nothing_of_what_a_server_said_is_markup() -> None:
    found = drawing.svg(chart(points({"arm": EVIL, "value": 1}).encode(tooltip=TIPS)))
    assert "<script" not in found
    assert EVIL in words(parsed(found))


def test_labels_of_several_lines_are_whole() -> None:
    made = base.data([{"arm": "one\ntwo", "value": 1}]).mark_bar().encode(alt.X("value:Q"))
    label = list(words(drawn(made.encode(alt.Y("arm:N", axis=base.row_axis())))))
    assert "onetwo" in label


def test_colours_follow_the_page() -> None:
    made = base.data([{"arm": "h2", "value": 1}]).mark_text()
    made = made.encode(alt.X("value:Q"), alt.Y("value:Q"), alt.Text("arm:N"))
    told = {
        value
        for element in drawn(made).iter()
        for key in ("fill", "stroke")
        if (value := element.get(key)) is not None
    }
    assert told <= {"none", "var(--ink)", "var(--soft)", "var(--line)", "transparent"}


@pytest.mark.parametrize("make", [race, capacity, bookstore])
def test_nothing_is_black_or_white(make: Callable[[], LabResult]) -> None:
    """It would be lost on the page of the other colours; legends of shapes and dashes were."""
    # Of many arms there are as many bars and ratios as measures, each like the first.
    kinds = {each.name.split("-")[0]: each for each in reversed(charts.charts(make()))}
    for name, each in kinds.items():
        found = drawing.svg(each)
        assert not re.search(r'"(black|white|#000|#fff|#000000|#ffffff)"', found), name


def test_ids_are_unique_in_a_page() -> None:
    """Else the gradient of a second chart is that of the first."""
    made = points({"arm": "a", "value": 1}, {"arm": "b", "value": 2})
    made = made.encode(color=alt.Color("value:Q"))
    page = "".join(drawing.svg(chart(made, name)) for name in ("one", "two"))
    ids = re.findall(r' id="([^"]*)"', page)
    assert ids
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r"url\(#([^)]*)\)", page)) == set(ids)


@pytest.mark.parametrize("width", [base.WIDTH, base.SMALL])
def test_a_chart_is_drawn_as_wide_as_it_shall_be_and_scales(width: int) -> None:
    made = chart(points({"arm": "h2", "value": 1}))
    found = parsed(drawing.svg(replace(made, spec={**made.spec, "width": width})))
    assert (found.get("viewBox") or "").split()[2] == str(width)
    assert found.get("width") is None
