"""Charts as the elements of a page: drawn beforehand, in its colours, with words to point at."""

from __future__ import annotations

import functools
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

pytestmark = pytest.mark.usefixtures("drawn")

EVIL = "<script>alert('&\"')</script>"


def chart(made: alt.Chart, name: str = "made") -> Chart:
    return Chart(name, f"of {EVIL}", "", base.spec(made, 100))


def drawn(made: alt.Chart) -> ET.Element:
    return parsed(drawing.svg(chart(made)))


def parsed(markup: str) -> ET.Element:
    return ET.fromstring(markup)  # noqa: S314 - of our own making


def titles(made: alt.Chart) -> list[str]:
    return [each.text or "" for each in drawn(made).iter("title")]


def words(of: ET.Element) -> Iterable[str]:
    return ("".join(text.itertext()) for text in of.iter("text"))


def points(*rows: dict[str, object]) -> alt.Chart:
    marks: alt.Chart = base.data(rows).mark_point()
    return marks.encode(alt.X("value:Q"), color=alt.Color("arm:N"))


@functools.cache
def kinds(make: Callable[[], LabResult]) -> dict[str, str]:
    """A chart of each kind: there are as many bars and ratios as measures, each like the first."""
    of_kind = {each.name.split("-")[0]: each for each in reversed(charts.charts(make()))}
    return {each.name: drawing.svg(each) for each in of_kind.values()}


def test_what_describes_a_mark_is_its_title() -> None:
    made = points({"said": EVIL, "value": 1}, {"said": "h2: 2 ms", "value": 2})
    assert titles(made.encode(description="said:N")) == [EVIL, "h2: 2 ms"]


def test_a_mark_that_is_not_described_has_no_title() -> None:
    """Vega would say all that it is drawn by."""
    assert titles(points({"arm": "h2", "value": 1})) == []


def test_nothing_of_what_a_server_said_is_markup() -> None:
    made = points({"arm": EVIL, "said": EVIL, "value": 1}).encode(description="said:N")
    found = drawing.svg(chart(made))
    assert "<script" not in found
    assert EVIL in words(parsed(found))


@pytest.mark.parametrize("make", [race, capacity, bookstore])
def test_what_a_chart_says_of_its_marks_is_known(make: Callable[[], LabResult]) -> None:
    for name, found in kinds(make).items():
        told = [title.text or "" for title in parsed(found).iter("title")]
        assert told, name
        assert not any(re.search("None|nan|null|undefined", title) for title in told), name


def test_a_bar_says_its_interval() -> None:
    made = {each.name: each for each in charts.charts(race())}
    told = [title.text for title in parsed(drawing.svg(made["bars-p99"])).iter("title")]
    assert told == [
        "HTTP/1.1: 2.29 ms (2.18–2.50)",
        "HTTP/2: 1.50 ms (1.44–1.67)",
        "HTTP/3: 3.87 ms (3.55–4.09)",
    ]


def test_a_published_ratio_says_whose_it_is() -> None:
    (beside,) = [each for each in charts.charts(bookstore()) if each.name == "published"]
    told = [title.text for title in parsed(drawing.svg(beside)).iter("title")]
    assert told[:2] == ["published: 0.60×", "here: 0.37× (0.37–0.38)"]


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
    for name, found in kinds(make).items():
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
