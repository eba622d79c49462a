"""The JSON Schemas in `docs/`, made of the types that read and write what they describe.

`python -m trilane.lab.model.schemas` writes them; a test says when one is stale.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from trilane.lab.design.experiment import SCHEMA
from trilane.lab.design.experiment_tables import ExperimentFile

_Schema = dict[str, Any]

# The type that a file of `docs/` describes, and the name and version of what it describes.
SCHEMAS: Mapping[str, tuple[Any, str]] = {
    "experiment.schema.json": (ExperimentFile, SCHEMA),
}


def text(file: str) -> str:
    """The content of one of the files, by its name."""
    kind, title = SCHEMAS[file]
    (root,), definitions = msgspec.json.schema_components(
        [kind], schema_hook=_written, ref_template="#/$defs/{name}"
    )
    schema: _Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{title.replace('.', ':schema:').replace('/', ':')}",
        "title": title,
        **root,
        "$defs": definitions,
    }
    return json.dumps(_without_null(schema), indent=2, ensure_ascii=False) + "\n"


def _written(kind: type[Any]) -> _Schema:
    """Schema of a type that is written as text, which msgspec does not know."""
    schema: _Schema = kind.SCHEMA
    return schema


def _without_null(schema: Any) -> Any:
    """The schema of a TOML file: it has no null, which in our types says that a key is missing."""
    if isinstance(schema, list):
        return [_without_null(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: _without_null(value)
        for key, value in schema.items()
        if not (key == "default" and value is None)
    }
    if "anyOf" in found:
        kinds = [each for each in found["anyOf"] if each != {"type": "null"}]
        if len(kinds) > 1:
            return found | {"anyOf": kinds}
        # What is said at the key is more particular than what is said of all values of its type.
        del found["anyOf"]
        return kinds[0] | found
    return found


def main(folder: Path) -> None:
    """Write all of them into a folder."""
    for file in SCHEMAS:
        path = folder / file
        path.write_text(text(file), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main(Path(*sys.argv[1:] or ["docs"]))
