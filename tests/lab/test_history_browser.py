"""The page of `trilane history` in a real browser: every chart is drawn, nothing is loaded."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from lab.test_browser import chromium
from synthetic import folders
from trilane.lab.keeping import history, index
from trilane.report import history as shown

FACTORS = {"h1": 1.0, "h2": 1.5}


def test_a_browser_draws_every_chart_offline(tmp_path: Path) -> None:
    browser = chromium()
    for day in (18, 19):
        folders.lab(tmp_path, f"202611{day}-110000", FACTORS, points=(100, 1000), seed=day)
    with index.open_index(tmp_path) as opened:
        file = tmp_path / "history.html"
        page = shown.page(history.read(opened, "bookstore"))
    file.write_text(page, encoding="utf-8")
    done = subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu"),
            *("--disable-background-networking", "--enable-logging=stderr"),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--window-size=500,2000"),
            *("--virtual-time-budget=10000", "--dump-dom", file.as_uri()),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    assert re.findall(r'id="chart-(\d)"[^>]*>\s*<svg', done.stdout) == ["1", "2"]
