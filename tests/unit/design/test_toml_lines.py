"""On which line of a TOML document each key stands."""

from __future__ import annotations

import tomllib

import pytest

from repository import ROOT
from synthetic.experiments import TEXT
from trilane.lab.design.bad_experiment import Key
from trilane.lab.design.toml_lines import lines

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


def keys(value: object, key: Key) -> list[Key]:
    """Every way into a document."""
    found = [key] if key else []
    if isinstance(value, dict):
        found += [way for name, item in value.items() for way in keys(item, (*key, name))]
    elif isinstance(value, list):
        found += [way for place, item in enumerate(value) for way in keys(item, (*key, place))]
    return found
