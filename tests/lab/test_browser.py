"""The report in a real browser: it draws every chart, loads nothing, fits a phone."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from peers.running import absent
from synthetic import labs, races
from trilane.lab.analysis import comparison
from trilane.report import charts, html

# Opens every fold, so that the charts inside are drawn, and tells whether the page is too wide.
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


def chromium() -> str:
    """The browser; without it a skip at home and a failure in CI."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        absent("chromium is not installed: apt-get install chromium")
    return path


def race() -> dict[str, Any]:
    made = races.race({"h1": 1.0, "h2": 1.5, "h3": 0.6}, histogram=True)
    return comparison.compare(made)


def bookstore() -> dict[str, Any]:
    return labs.bookstore(12)


def sweep() -> dict[str, Any]:
    return labs.strategies((100, 1000))


@pytest.mark.parametrize("width", [500, 1280])
@pytest.mark.parametrize("make", [race, bookstore, sweep])
def test_a_browser_draws_every_chart_offline(
    tmp_path: Path, make: Callable[[], dict[str, Any]], width: int
) -> None:
    browser = chromium()
    page = tmp_path / "report.html"
    page.write_text(html.render(make()) + _PROBE, encoding="utf-8")
    done = subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu"),
            *("--disable-background-networking", "--enable-logging=stderr"),
            *(f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},2000"),
            *("--virtual-time-budget=20000", "--dump-dom", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert console == []
    drawn = re.findall(r'id="chart-([^"]+)"[^>]*>\s*<svg', done.stdout)
    assert sorted(drawn) == sorted(chart.name for chart in charts.charts(make()))
    assert 'data-overflow="false"' in done.stdout
    assert 'data-wide=""' in done.stdout
