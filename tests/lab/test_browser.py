"""The pages in a real browser: every chart is drawn, nothing is loaded; a report fits a phone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from peers.browser import document
from synthetic import folders, labs, races
from synthetic.records import with_runs
from trilane.lab.analysis import paired
from trilane.lab.model.lab import LabResult
from trilane.lab.model.measures import CAPACITY
from trilane.lab.model.run import Run
from trilane.lab.model.sample import Sample
from trilane.lab.model.search import Search
from trilane.lab.storage import history
from trilane.lab.storage.summaries import summaries
from trilane.report import charts, html, single
from trilane.report import history as shown
from unit.report.test_single import made, search

PHONE, SCREEN = 500, 1280
# Opens every fold, so that the charts inside are drawn, and tells whether the page is too wide. The
# 8 s are of virtual time.
_PROBE = """
<script type="module">
addEventListener("load", () => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  setTimeout(() => {
    const page = document.documentElement;
    page.dataset.overflow = String(page.scrollWidth > page.clientWidth);
    const wide = [...document.querySelectorAll(".chart")].filter(
      (place) => place.querySelector("svg")?.getBoundingClientRect().width > place.clientWidth + 1);
    page.dataset.wide = wide.map((place) => place.id).join(" ");
  }, 8000);
});
</script>
"""


def race() -> LabResult:
    made = races.race({"h1": 1.0, "h2": 1.5, "h3": 0.6}, histogram=True)
    return LabResult.of_race(paired.compare(made))


def bookstore() -> LabResult:
    return labs.bookstore(12)


def sweep() -> LabResult:
    return labs.strategies((100, 1000))


def capacity() -> LabResult:
    """A race of searches for the highest rate that holds."""

    def found(sample: Sample) -> dict[str, object]:
        low = {"h1": 10_000.0, "h2": 15_000.0, "h3": 5000.0}[sample.arm] * (1 + sample.block / 100)
        return {"capacity": search(low=low, high=low * 1.04).capacity}

    observed = with_runs(races.race({"h1": 1.0, "h2": 1.5, "h3": 0.6}, blocks=6), found)
    made = replace(observed, measures=(CAPACITY,), rank=CAPACITY)
    return LabResult.of_race(paired.compare(made))


def opened(page: str, folder: Path, width: int) -> str:
    """The document that a browser makes of the page."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    return document(file.as_uri(), folder, width)


def drawn(found: str) -> list[str]:
    """The names of the charts that are there."""
    return re.findall(r'id="chart-([^"]+)"[^>]*>\s*<svg', found)


def fits(page: str, names: list[str], folder: Path, widths: Sequence[int]) -> None:
    """At each width all charts of the page are drawn, and nothing is wider than its place."""
    for width in widths:
        found = opened(page + _PROBE, folder, width)
        assert sorted(drawn(found)) == sorted(names), width
        assert 'data-overflow="false"' in found, width
        assert 'data-wide=""' in found, width


# On a wide screen the one with the most charts stands for all.
@pytest.mark.parametrize(
    ("make", "widths"),
    [(race, [PHONE]), (bookstore, [PHONE, SCREEN]), (sweep, [PHONE]), (capacity, [PHONE])],
)
def test_a_browser_draws_every_chart_of_a_report_offline(
    tmp_path: Path, make: Callable[[], LabResult], widths: Sequence[int]
) -> None:
    made = make()
    fits(html.render(made), [chart.name for chart in charts.charts(made)], tmp_path, widths)


def test_a_browser_draws_every_chart_of_a_history_offline(tmp_path: Path) -> None:
    factors = {"h1": 1.0, "h2": 1.5}
    for day in (18, 19):
        folders.lab(tmp_path, f"202611{day}-110000", factors, points=(100, 1000), seed=day)
    page = shown.page(history.read(summaries(tmp_path), "bookstore"))
    assert drawn(opened(page, tmp_path, PHONE)) == ["1", "2"]


@pytest.mark.parametrize(
    ("of", "widths"), [(made(), [PHONE, SCREEN]), (search(), [PHONE])], ids=["run", "search"]
)
def test_a_browser_draws_every_chart_of_one_run_or_search(
    tmp_path: Path, of: Run | Search, widths: Sequence[int]
) -> None:
    fits(single.render(of), [chart.name for chart in single.charts(of)], tmp_path, widths)
