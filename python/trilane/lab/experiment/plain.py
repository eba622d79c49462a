"""Dataclasses as JSON and back, for what an experiment is made of."""

from __future__ import annotations

import base64
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trilane.lab.model.documents import Json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T")


def to_json(value: DataclassInstance) -> Json:
    """All fields, nested ones too; tuples become lists, bytes base64, paths text."""
    result: Json = _plain(asdict(value))
    return result


def make(kind: type[_T], data: Json, **parts: Any) -> _T:
    """A dataclass of `data`; lists become tuples, `parts` replace what is more than that."""
    return kind(**{key: _frozen(value) for key, value in data.items()} | parts)


def make_optional(kind: type[_T], data: Json | None, **parts: Any) -> _T | None:
    """A dataclass of `data` as `make` makes it; None of None."""
    return None if data is None else make(kind, data, **parts)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
