"""The pages in a real browser: every chart is drawn, nothing is loaded; a report fits a phone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from peers.browser import document
from synthetic import folders, labs, races
from trilane.lab.analysis import paired
from trilane.lab.model.lab import LabResult
from trilane.lab.model.run import Run
from trilane.lab.model.search import Search
from trilane.lab.storage import history
from trilane.lab.storage.summaries import summaries
from trilane.report import charts, html, single
from trilane.report import history as shown
from unit.report.test_charts import capacity
from unit.report.test_single import made, search

PHONE, SCREEN = 500, 1280
# Opens every fold, and tells what is too wide, what is cut off, and which words lie on each other.
_PROBE = """
<script>
addEventListener("load", () => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  const page = document.documentElement, told = [];
  if (page.scrollWidth > page.clientWidth) told.push("the page is too wide");
  for (const figure of document.querySelectorAll("figure")) {
    const name = figure.querySelector(".chart").id, edge = figure.getBoundingClientRect();
    const texts = [...figure.querySelectorAll("svg text")];
    const places = texts.map((text) => text.getBoundingClientRect());
    const wide = figure.querySelector(".chart").scrollWidth > edge.width;
    texts.forEach((text, one) => {
      const at = places[one];
      if (getComputedStyle(text).fill === "none")
        told.push(`${name} does not show ${text.textContent}`);
      if (!wide && (at.left < edge.left || at.right > edge.right))
        told.push(`${name} cuts off ${text.textContent}`);
      places.slice(0, one).forEach((other, two) => {
        if (Math.min(at.right, other.right) - Math.max(at.left, other.left) > 1
          && Math.min(at.bottom, other.bottom) - Math.max(at.top, other.top) > 4)
          told.push(`${name} has ${text.textContent} on ${texts[two].textContent}`);
      });
    });
  }
  page.dataset.told = told.join("; ");
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


def opened(page: str, folder: Path, width: int) -> str:
    """The document that a browser makes of the page."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    return document(file.as_uri(), folder, width)


def drawn(found: str) -> list[str]:
    """The names of the charts that are there."""
    return re.findall(r'id="chart-([^"]+)"[^>]*>\s*<svg', found)


def fits(page: str, names: list[str], folder: Path, widths: Sequence[int]) -> None:
    """At each width all charts of the page are there, and all of their words can be read."""
    assert "script" not in page
    probed = page.replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'")
    for width in widths:
        found = opened(probed + _PROBE, folder, width)
        assert sorted(drawn(found)) == sorted(names), width
        assert re.findall(r'data-told="([^"]*)"', found) == [""], width


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
