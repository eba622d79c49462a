"""The page that lists the cases."""

from __future__ import annotations

from .document import COMMAND, PAGE, text


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == text(), f"type: {COMMAND}"
