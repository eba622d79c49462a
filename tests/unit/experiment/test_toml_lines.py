"""On which line of a TOML document each key stands."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from itertools import cycle
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repository import ROOT
from synthetic.experiments import TEXT
from trilane.lab.experiment.bad_experiment import Key
from trilane.lab.experiment.toml_lines import lines

HARD = '''\
# a comment with [brackets] = and "quotes"
a = 1 # and one behind
"b c" = "x # no comment"
'd"e' = \'\'\'
[not.a.table]
f = 2
\'\'\'
g.h . "i" = """\\
  "quoted" \\""" still
[[no]]
"""
list = [ # of
  1, [2,
  3], { x = 1, y.z = [4] }, # all sorts
  "]", # a bracket
]
when = 2020-02-29 00:00:00Z

[ t . u ]
v = {w = "}", k = 5}
[[t.x]]
y = 1
[[t.x]]
y = 2
[t.x.z]
deep = true
[[t.x.n]]
m = 3
last = 0x1F'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("a",), 2),
        (("b c",), 3),
        (('d"e',), 4),
        (("g",), 8),
        (("g", "h", "i"), 8),
        (("list",), 12),
        (("list", 0), 13),
        (("list", 1, 0), 13),
        (("list", 1, 1), 14),
        (("list", 2, "y", "z", 0), 14),
        (("list", 3), 15),
        (("when",), 17),
        (("t", "u"), 19),
        (("t", "u", "v", "k"), 20),
        (("t", "x", 0, "y"), 22),
        (("t", "x", 1), 23),
        (("t", "x", 1, "y"), 24),
        (("t", "x", 1, "z", "deep"), 26),
        (("t", "x", 1, "n", 0, "m"), 28),
        (("t", "x", 1, "n", 0, "last"), 29),
    ],
)
def test_hard_places(key: Key, line: int) -> None:
    tomllib.loads(HARD)
    assert lines(HARD)[key] == line


@pytest.mark.parametrize(
    "text",
    [TEXT, HARD, *[path.read_text() for path in sorted((ROOT / "experiments").glob("*.toml"))]],
)
def test_every_key_has_a_line_and_no_other_has(text: str) -> None:
    assert set(lines(text)) == set(keys(tomllib.loads(text), ()))


Value: TypeAlias = "bool | int | str | list[Value] | dict[str, Value]"
NAMES = st.text('ab-_]#=" é', min_size=1, max_size=4)
SCALARS = st.booleans() | st.integers() | st.text("ab#[]{}=,\"'\\\n é", max_size=8)
VALUES: st.SearchStrategy[Value] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
PAIRS = st.dictionaries(NAMES, VALUES, max_size=3)
# What may stand between the parts of an array and between lines.
GAPS = st.lists(st.sampled_from(["", " ", "\n", " # ], }\n\n", "\t"]), min_size=1, max_size=5)


@given(PAIRS, st.dictionaries(st.sampled_from("xyz"), PAIRS | st.lists(PAIRS, min_size=1)), GAPS)
def test_keys_of_any_document_are_found_where_they_were_written(
    root: dict[str, Value],
    tables: dict[str, dict[str, Value] | list[dict[str, Value]]],
    gaps: list[str],
) -> None:
    document = Document(gaps)
    document.pairs((), root)
    # A name for itself is a table's; in quotes it cannot meet a key of the root.
    named = {f"table {name}": table for name, table in tables.items()}
    for name, table in named.items():
        document.table(name, table)
    assert tomllib.loads(document.text) == {**root, **named}
    assert lines(document.text) == document.lines


class Document:
    """Writes TOML and keeps the line on which each key and item begins."""

    def __init__(self, gaps: list[str]) -> None:
        self.text = ""
        self.lines: dict[Key, int] = {}
        self._gaps: Iterator[str] = cycle(gaps)

    def table(self, name: str, table: dict[str, Value] | list[dict[str, Value]]) -> None:
        if isinstance(table, dict):
            self._begin((name,))
            self.text += f"[{json.dumps(name)}]\n"
            self.pairs((name,), table)
            return
        for place, item in enumerate(table):
            self.lines.setdefault((name,), self._line())
            self._begin((name, place))
            self.text += f"[[{json.dumps(name)}]]\n"
            self.pairs((name, place), item)

    def pairs(self, key: Key, pairs: dict[str, Value]) -> None:
        for name, value in pairs.items():
            self._pair((*key, name), name, value)
            self.text += next(self._gaps).rstrip("\n") + "\n"

    def _pair(self, key: Key, name: str, value: Value) -> None:
        self._begin(key)
        self.text += f"{json.dumps(name, ensure_ascii=False)} = "
        self._value(key, value)

    def _value(self, key: Key, value: Value) -> None:
        if isinstance(value, list):
            self.text += "["
            for place, item in enumerate(value):
                self.text += next(self._gaps)
                self._begin((*key, place))
                self._value((*key, place), item)
                self.text += next(self._gaps) + ","
            self.text += next(self._gaps) + "]"
        elif isinstance(value, dict):
            self.text += "{"
            for place, (name, item) in enumerate(value.items()):
                self.text += ", " if place else " "
                self._pair((*key, name), name, item)
            self.text += " }"
        else:
            self.text += json.dumps(value, ensure_ascii=False)

    def _begin(self, key: Key) -> None:
        self.lines[key] = self._line()

    def _line(self) -> int:
        return self.text.count("\n") + 1


def keys(value: object, key: Key) -> list[Key]:
    """Every way into a document."""
    found = [key] if key else []
    if isinstance(value, dict):
        found += [way for name, item in value.items() for way in keys(item, (*key, name))]
    elif isinstance(value, list):
        found += [way for place, item in enumerate(value) for way in keys(item, (*key, place))]
    return found
