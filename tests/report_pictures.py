"""The pictures of docs/reports.md: `make pictures` draws them, most from made-up results of tests.

README's, which are of a real race, are drawn by `pictures`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image

import pictures
from lab.test_browser import bookstore, sweep
from repository import DOCS
from synthetic import calls, folders, labs
from trilane.lab.model.arm import Arm
from trilane.lab.model.lab import LabResult, Question
from trilane.lab.storage import history, singles
from trilane.lab.storage.summaries import summaries
from trilane.report import history as shown
from trilane.report import html, single
from unit.report.test_charts import capacity
from unit.report.test_maps import networks
from unit.report.test_single import search

TALL = ("load", "search")
"""Pages whose charts begin low."""
COLOURS = 64
"""Of each picture: a page has few, and each one costs bytes."""


def _history() -> str:
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        for day, factor in ((18, 1.5), (19, 1.48), (20, 1.52), (21, 1.3)):
            folders.lab(state, f"202611{day}-110000", {"h1": 1.0, "h2": factor}, seed=day)
        return shown.page(history.read(summaries(state), "bookstore"))


def _ab() -> LabResult:
    arms = [
        Arm(name="base", title="main, 3f2c1a9", version="h1"),
        Arm(name="head", title="HEAD, 8b41d07", version="h1"),
    ]
    question = Question(
        name="ab",
        title="shop: Keep what was parsed",
        form="revisions",
        note=None,
        question="What does HEAD change against main?",
        hypothesis=None,
        confounders=[],
        source=None,
        quick=False,
    )
    return labs.lab((None, labs.observed(arms, {"base": 1.0, "head": 0.93})), experiment=question)


PAGES: dict[str, Callable[[], str]] = {
    "ab": lambda: html.render(_ab()),
    "load": lambda: single.render(singles.load(DOCS / "run-example.json")),
    "search": lambda: single.render(search()),
    "capacity": lambda: html.render(capacity()),
    "experiment": lambda: html.render(bookstore()),
    "sweep": lambda: html.render(sweep()),
    "networks": lambda: html.render(networks()),
    "calls": lambda: html.render(calls.result(4)),
    "history": _history,
}


def file(name: str) -> Path:
    """Where the picture of a page lies."""
    return pictures.FOLDER / f"{name}.png"


def main(names: list[str]) -> int:
    """Draw those of the names, or all."""
    for name in names or PAGES:
        with tempfile.TemporaryDirectory() as scratch:
            page = Path(scratch, "report.html")
            page.write_text(PAGES[name](), encoding="utf-8")
            height = 1000 if name in TALL else 700
            profile = f"{scratch}/profile"
            pictures.photograph(page, "light", file(name), profile, height=height)
        with Image.open(file(name)) as picture:
            few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(file(name), optimize=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
