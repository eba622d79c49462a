"""What is generated in `docs/`: the JSON Schemas, made of types, and the list of all measures.

`python -m trilane.lab.schemas` writes it; a test says when something is stale.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from inspect import getsource
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from trilane.lab.experiment.experiment import SCHEMA
from trilane.lab.experiment.experiment_tables import ExperimentFile
from trilane.lab.model import beside, comparison, contrast, lab, run, search
from trilane.lab.model.beside import Beside
from trilane.lab.model.comparison import Comparison
from trilane.lab.model.contrast import Contrast
from trilane.lab.model.lab import LabResult
from trilane.lab.model.measures import MEASURES
from trilane.lab.model.record import Record
from trilane.lab.model.run import Run
from trilane.lab.model.search import Search

_Schema = dict[str, Any]

# The type that a file of `docs/` describes, and the name and version of what it describes.
SCHEMAS: Mapping[str, tuple[Any, str]] = {
    "experiment.schema.json": (ExperimentFile, SCHEMA),
    "run.schema.json": (Run, run.SCHEMA),
    "search.schema.json": (Search, search.SCHEMA),
    "comparison.schema.json": (Comparison, comparison.SCHEMA),
    "lab.schema.json": (LabResult, lab.SCHEMA),
    "contrast.schema.json": (Contrast, contrast.SCHEMA),
    "beside.schema.json": (Beside, beside.SCHEMA),
}

MEASURES_PAGE = "measures.md"
_LIST, _END = "<!-- generated: measures -->", "<!-- end -->"


def with_measures(page: str) -> str:
    """The page about measures with the list of those there are, between its two marks."""
    rows = [("name", "called", "unit", "better", "definition"), ("---",) * 5]
    rows += [(f"`{m.name}`", m.label, m.unit, m.better, m.definition) for m in MEASURES]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    head, _, rest = page.partition(_LIST)
    return f"{head}{_LIST}\n\n{table}\n\n{_END}{rest.partition(_END)[2]}"


def text(file: str) -> str:
    """The content of one of the files, by its name."""
    kind, title = SCHEMAS[file]
    # Types that are written as text bring their schema: msgspec does not know them.
    (root,), definitions = msgspec.json.schema_components(
        [kind], schema_hook=attrgetter("SCHEMA"), ref_template="#/$defs/{name}"
    )
    schema: _Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": _urn(title),
        "title": title,
        **root,
        "$defs": definitions,
    }
    if isinstance(kind, type) and issubclass(kind, Record):
        for record in _records(kind):
            _describe(record, definitions[record.cls.__name__])
        others = {
            f"#/$defs/{other.__name__}": _urn(name)
            for other, name in SCHEMAS.values()
            if other is not kind and isinstance(other, type)
        }
        referring = _referring(definitions, others)
        schema["$defs"] = {name: referring[name] for name in _reached(root["$ref"], referring)}
    else:
        schema = _without_null(schema)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _urn(title: str) -> str:
    """The identifier of the schema of what has this name and version."""
    return f"urn:{title.replace('.', ':schema:').replace('/', ':')}"


def _referring(schema: Any, others: Mapping[str, str]) -> Any:
    """The schema with references to records that have a schema of their own led there."""
    if isinstance(schema, list):
        return [_referring(each, others) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: others.get(value, value) if key == "$ref" else _referring(value, others)
        for key, value in schema.items()
    }


def _reached(ref: str, definitions: _Schema) -> list[str]:
    """Names of the definitions that a reference needs, in their order."""
    needed: set[str] = set()
    waiting = [ref]
    while waiting:
        name = waiting.pop().removeprefix("#/$defs/")
        if name in definitions and name not in needed:
            needed.add(name)
            waiting += re.findall(r'"(#/\$defs/\w+)"', json.dumps(definitions[name]))
    return [name for name in definitions if name in needed]


def _records(kind: type[Record]) -> list[inspect.StructType]:
    """A record and those that it is made of."""
    found: dict[type, inspect.StructType] = {}

    def walk(info: Any) -> None:
        if isinstance(info, inspect.StructType) and info.cls not in found:
            found[info.cls] = info
            for field in info.fields:
                walk(field.type)
        for name in ("types", "item_types"):
            for part in getattr(info, name, ()):
                walk(part)
        for name in ("item_type", "value_type"):
            if hasattr(info, name):
                walk(getattr(info, name))

    walk(inspect.type_info(kind))
    return list(found.values())


def _describe(record: inspect.StructType, schema: _Schema) -> None:
    """Say of a record's schema what msgspec does not: all members are known, and what each is."""
    schema["additionalProperties"] = False
    told = {name: said for kind in record.cls.__mro__ for name, said in _below(kind)}
    for field in record.fields:
        member = schema["properties"][field.encode_name]
        member.setdefault("description", told[field.name])
        key = field.type.key_type if isinstance(field.type, inspect.DictType) else None
        if isinstance(key, inspect.LiteralType):
            member["propertyNames"] = {"enum": list(key.values)}


def _below(kind: type) -> Iterator[tuple[str, str]]:
    """Each attribute of a record with what stands below it in the source."""
    if not issubclass(kind, Record) or kind is Record:
        return
    (written,) = ast.parse(textwrap.dedent(getsource(kind))).body
    for attribute, below in pairwise(getattr(written, "body", [])):
        match attribute, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                yield name, " ".join(said.split())


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
    page = folder / MEASURES_PAGE
    page.write_text(with_measures(page.read_text(encoding="utf-8")), encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main(Path(*sys.argv[1:] or ["docs"]))
