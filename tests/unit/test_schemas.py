"""What is generated in docs/ from types and measures: as these are now."""

from __future__ import annotations

import json

import msgspec
import pytest
from jsonschema import Draft202012Validator

from repository import DOCS
from trilane.lab import schemas
from trilane.lab.model.measures import MEASURES
from trilane.lab.model.run import Run


@pytest.mark.parametrize("file", schemas.SCHEMAS)
def test_no_schema_is_stale(file: str) -> None:
    """Where it fails: `python -m trilane.lab.schemas` writes them anew."""
    text = schemas.text(file)
    assert (DOCS / file).read_text(encoding="utf-8") == text
    Draft202012Validator.check_schema(json.loads(text))


def test_the_list_of_measures_is_not_stale() -> None:
    page = (DOCS / schemas.MEASURES_PAGE).read_text(encoding="utf-8")
    assert page.count("<!-- generated: measures -->") == page.count("<!-- end -->") == 1
    assert schemas.with_measures(page) == page
    assert all(measure.definition for measure in MEASURES)


def test_a_toml_file_has_no_null() -> None:
    assert '"null"' not in schemas.text("experiment.schema.json")


def test_a_record_has_no_members_but_those_described() -> None:
    definitions = json.loads(schemas.text("run.schema.json"))["$defs"]
    for name, definition in definitions.items():
        assert definition["additionalProperties"] is False, name
        for member in definition["properties"].values():
            assert member["description"], name


def test_a_record_is_read_as_it_was_written() -> None:
    kept = (DOCS / "run-example.json").read_bytes()
    again = json.loads(msgspec.json.encode(msgspec.json.decode(kept, type=Run)))
    # What a run has not is left out.
    assert again == {name: part for name, part in json.loads(kept).items() if part is not None}
