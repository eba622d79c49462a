"""What is written from the cases: the page that lists them, and the data that the crates play."""

from __future__ import annotations

from . import data, document


def test_the_page_is_up_to_date() -> None:
    written = document.PAGE.read_text(encoding="utf-8")
    assert written == document.text(), f"type: {document.COMMAND}"


def test_the_data_are_up_to_date() -> None:
    assert data.FILE.read_text(encoding="utf-8") == data.text(), f"type: {document.COMMAND}"


def test_every_case_has_a_name_of_its_own() -> None:
    for cases in (data.H1, data.H2, data.H3):
        assert len({case.name for case in cases}) == len(cases)
