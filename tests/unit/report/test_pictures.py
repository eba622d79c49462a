"""The recordings of README.md: what the command makes of the kept race today."""

from __future__ import annotations

import re

import pytest

import pictures
from repository import DOCS


@pytest.mark.parametrize("theme", pictures.THEMES)
def test_a_recording_is_what_the_terminal_shows_of_the_kept_race(theme: str) -> None:
    drawn = pictures.recording(theme)
    assert pictures.file(theme).read_text("utf-8") == drawn, "make pictures"
    # Neither fonts nor images of another host.
    linked = re.findall(r"(?:url\(|href=)[\"']?([^\"')]+)", drawn)
    assert {target[0] for target in linked} == {"#"}
    assert "@import" not in drawn


def test_the_sample_of_the_page_on_races_is_how_the_kept_race_begins() -> None:
    page = (DOCS / "race.md").read_text("utf-8")
    sample = re.search(r"^```\n(✓.*?)\n```$", page, re.DOTALL | re.MULTILINE)
    assert sample is not None
    assert pictures.printed().startswith(sample[1])
