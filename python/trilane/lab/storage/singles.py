"""What `trilane load -o FILE --format json` writes: one run, or one search for a rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from trilane.lab.model import run, search
from trilane.lab.model.run import Run
from trilane.lab.model.search import Search
from trilane.lab.storage.runs import BadRun

Single: TypeAlias = Run | Search
_KINDS: dict[str, type[Single]] = {run.SCHEMA: Run, search.SCHEMA: Search}


def load(path: Path) -> Single:
    """The run or search in a file; raises `BadRun`."""
    try:
        return read(path.read_bytes())
    except OSError as error:
        raise BadRun(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise BadRun(f"{path} {error}") from error


def read(content: str | bytes) -> Single:
    """The run or search in a text.

    Raises:
        ValueError: it is none; the message begins with a verb.
    """
    try:
        document: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"is not a JSON file: {error}") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema not in _KINDS:
        raise ValueError(f"has schema {schema!r}, not {' or '.join(_KINDS)}")
    try:
        return msgspec.convert(document, _KINDS[schema])
    except msgspec.ValidationError as error:
        raise ValueError(f"is not a {schema} of this version: {error}") from error
