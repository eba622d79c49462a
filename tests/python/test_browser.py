"""The report in a real browser: it draws every chart, loads nothing, fits a phone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import synthetic
from trilane.lab import comparison
from trilane.report import html

_PROBE = """
<script type="module">
addEventListener("load", () => setTimeout(() => {
  const page = document.documentElement;
  page.dataset.overflow = String(page.scrollWidth > page.clientWidth);
}, 1500));
</script>
"""


def chromium() -> str:
    """The browser; without it a skip at home and a failure in CI."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is not installed: apt-get install chromium")
        pytest.skip("chromium is not installed: apt-get install chromium")
    return path


@pytest.mark.parametrize("width", [500, 1280])
def test_a_browser_draws_every_chart_offline(tmp_path: Path, width: int) -> None:
    browser = chromium()
    race = synthetic.race({"h1": 1.0, "h2": 1.5, "h3": 0.6}, histogram=True)
    page = tmp_path / "report.html"
    page.write_text(html.render(comparison.compare(race)) + _PROBE, encoding="utf-8")
    done = subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu"),
            *("--disable-background-networking", "--enable-logging=stderr"),
            *(f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},2000"),
            *("--virtual-time-budget=10000", "--dump-dom", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert console == []
    drawn = re.findall(r'id="chart-(\w+)"[^>]*>\s*<svg', done.stdout)
    assert drawn == ["ratios", "latency", "windows", "cpu", "bytes"]
    assert 'data-overflow="false"' in done.stdout
