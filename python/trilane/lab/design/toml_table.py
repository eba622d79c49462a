"""Reading a TOML table key by key: types, units, and errors that name the key.

A `Table` knows where it stands in the document, so that every error is a `BadExperiment` with its
key; `close` refuses what nobody asked for.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from trilane.lab.design.bad_experiment import BadExperiment, Key
from trilane.lab.design.quantity import seconds
from trilane.lab.design.words import meant

__all__ = ["Table", "meant", "told"]

_T = TypeVar("_T")
_V = TypeVar("_V")
_MISSING: Any = object()

# What TOML calls the types that `tomllib` gives.
_CALLED = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}


class Table:
    """A table of the document; every value is to be read once."""

    def __init__(self, values: Mapping[str, Any], key: Key) -> None:
        self.key = key
        self._values = values
        # In the order of reading, which is the order in which they are suggested.
        self._known: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: _T = _MISSING) -> str | _T:
        """A text that is not empty."""
        value = self._read(name, str, default)
        if isinstance(value, str) and name in self._values and not value.strip():
            raise self.bad(name, "is empty")
        return value

    def flag(self, name: str, default: _T = _MISSING) -> bool | _T:
        """True or false."""
        return self._read(name, bool, default)

    def whole(self, name: str, default: _T = _MISSING) -> int | _T:
        """A whole number."""
        return self._read(name, int, default)

    def number(self, name: str, default: _T = _MISSING) -> float | _T:
        """A number."""
        return self._read(name, float, default)

    def time(self, name: str, default: _T = _MISSING) -> float | _T:
        """Seconds of a time with its unit, such as "40ms"."""
        value = self._read(name, str, default, "a time with its unit, such as 500ms, 2s or 1m")
        return self._seconds(name, value) if isinstance(value, str) else value

    def texts(self, name: str, default: _T = _MISSING) -> tuple[str, ...] | _T:
        """A list of texts."""
        return self._list(name, str, default)

    def text_or_texts(self, name: str) -> tuple[str, ...]:
        """One text or a list of them; none where the key is missing."""
        if isinstance(self._values.get(name), str):
            return (self.text(name),)
        return self.texts(name, ())

    def flags(self, name: str, default: _T) -> tuple[bool, ...] | _T:
        """A list of true and false."""
        return self._list(name, bool, default)

    def numbers(self, name: str, default: _T = _MISSING) -> tuple[float, ...] | _T:
        """A list of numbers; whole ones stay whole."""
        return self._list(name, float, default)

    def times(self, name: str, default: _T) -> tuple[float, ...] | _T:
        """A list of times with their units, in seconds."""
        found = self._list(name, str, None)
        if found is None:
            return default
        return tuple(self._seconds(name, value, index) for index, value in enumerate(found))

    def table(self, name: str) -> Table | None:
        """A table in this one; None where there is none."""
        self._known.append(name)
        if name not in self._values:
            return None
        if not isinstance(self._values[name], dict):
            raise self.bad(name, "is a table: put its keys under a header or in braces")
        return Table(self._values[name], (*self.key, name))

    def tables(self, name: str) -> list[Table]:
        """The tables of an array; none where it is missing."""
        self._known.append(name)
        found = self._values.get(name, [])
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise self.bad(name, f"is a list of tables: write [[{'.'.join(self._path(name))}]]")
        return [Table(item, (*self.key, name, index)) for index, item in enumerate(found)]

    def table_or_tables(self, name: str) -> list[Table]:
        """One table, or the tables of an array; none where it is missing."""
        if isinstance(self._values.get(name), list):
            return self.tables(name)
        table = self.table(name)
        return [] if table is None else [table]

    def lists(self, name: str) -> list[list[Any]]:
        """A list of lists, whatever is in them; empty where it is missing."""
        self._known.append(name)
        found = self._values.get(name, [])
        if not isinstance(found, list) or not all(isinstance(item, list) for item in found):
            raise self.bad(name, "takes a list of lists")
        return found

    def named(self) -> list[tuple[str, Table]]:
        """All keys of this table, each a table."""
        return [(name, table) for name in self._values if (table := self.table(name)) is not None]

    def close(self) -> None:
        """Refuse keys that were not asked for."""
        for name in self._values:
            if name not in self._known:
                raise self.bad(name, f"unknown key{meant(name, self._known)}")

    def bad(self, name: str | None, problem: str, index: int | None = None) -> BadExperiment:
        """The error to raise about a key of this table, or about the table."""
        key = self.key if name is None else (*self.key, name)
        return BadExperiment(problem, key if index is None else (*key, index))

    def _path(self, name: str) -> list[str]:
        return [part for part in (*self.key, name) if isinstance(part, str)]

    def _read(self, name: str, kind: type[_V], default: _T, called: str | None = None) -> _V | _T:
        self._known.append(name)
        if name not in self._values:
            if default is _MISSING:
                raise self._missing(name, "…")
            return default
        value = self._values[name]
        if not _is(value, kind):
            raise self.bad(name, f"takes {called or _CALLED[kind]}, not {told(value)}")
        return cast("_V", value)

    def _list(self, name: str, kind: type[_V], default: _T) -> tuple[_V, ...] | _T:
        self._known.append(name)
        if name not in self._values:
            if default is _MISSING:
                raise self._missing(name, "[…]")
            return default
        found = self._values[name]
        if not isinstance(found, list):
            raise self.bad(name, f"takes a list, not {told(found)}: put it in brackets")
        for index, value in enumerate(found):
            if not _is(value, kind):
                raise self.bad(name, f"takes {_CALLED[kind]}, not {told(value)}", index)
        return tuple(found)

    def _missing(self, name: str, value: str) -> BadExperiment:
        # Most often it is there, but misspelt.
        unread = [key for key in self._values if key not in self._known]
        for near in difflib.get_close_matches(name, unread, 1, 0.8):
            return self.bad(near, f"unknown key: did you mean {name}?")
        return self.bad(None, f"{name} is missing: add {name} = {value}")

    def _seconds(self, name: str, value: str, index: int | None = None) -> float:
        found = seconds(value)
        if found is None:
            raise self.bad(name, f"{value!r} is no time: write 500ms, 2s or 1m", index)
        return found


def told(value: Any) -> str:
    """A value of TOML as the file has it, for a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    return "a list" if isinstance(value, list) else repr(value)


def _is(value: Any, kind: type[Any]) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float) if kind is float else isinstance(value, kind)
