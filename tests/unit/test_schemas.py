"""The JSON Schemas in docs/ that are made of types: as the types are now."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from repository import DOCS
from trilane.lab.model import schemas


@pytest.mark.parametrize("file", schemas.SCHEMAS)
def test_no_schema_is_stale(file: str) -> None:
    """Where it fails: `python -m trilane.lab.model.schemas` writes them anew."""
    text = schemas.text(file)
    assert (DOCS / file).read_text(encoding="utf-8") == text
    schema = json.loads(text)
    Draft202012Validator.check_schema(schema)
    # TOML has no null.
    assert '"null"' not in text
