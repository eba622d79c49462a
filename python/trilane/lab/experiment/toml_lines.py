"""The line on which each key of a TOML document stands.

`tomllib` gives the values, without positions (CPython issue 115516 was closed without them), and
`tomlkit` has none either. So this walks over a text that `tomllib` has already accepted: it need
not validate, only know where a value ends.
"""

from __future__ import annotations

import json
import re

from trilane.lab.experiment.bad_experiment import Key

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}\n#]+")


def lines(text: str) -> dict[Key, int]:
    """Line, from 1, of every table, key and array item of a valid TOML document."""
    return _Walk(text).document()


class _Walk:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._found: dict[Key, int] = {}
        # How many tables each array of tables has so far.
        self._tables: dict[Key, int] = {}

    def document(self) -> dict[Key, int]:
        table: Key = ()
        self._skip()
        while self._place < len(self._text):
            if self._text[self._place] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip()
        return self._found

    def _header(self) -> Key:
        line = self._line()
        brackets = 2 if self._text.startswith("[[", self._place) else 1
        self._place += brackets
        names = self._names()
        self._skip()
        self._place += brackets
        table: Key = ()
        for depth, name in enumerate(names, start=1):
            table = (*table, name)
            if brackets == 2 and depth == len(names):
                self._found.setdefault(table, line)
                self._tables[table] = self._tables.get(table, 0) + 1
            if table in self._tables:
                table = (*table, self._tables[table] - 1)
            self._found.setdefault(table, line)
        return table

    def _pair(self, table: Key) -> None:
        line = self._line()
        names = self._names()
        for depth in range(1, len(names) + 1):
            self._found.setdefault((*table, *names[:depth]), line)
        self._skip()
        self._place += 1  # the equals sign
        self._value((*table, *names))

    def _names(self) -> list[str]:
        names = []
        while True:
            self._skip()
            names.append(self._name())
            self._skip()
            if self._text[self._place] != ".":
                return names
            self._place += 1

    def _name(self) -> str:
        quoted = _STRING.match(self._text, self._place)
        if quoted is None:
            bare = _BARE.match(self._text, self._place)
            name = bare[0] if bare else ""
            self._place += len(name)
            return name
        self._place = quoted.end()
        # A basic string of one line is also JSON, but for \U escapes, which no key here needs.
        return json.loads(quoted[0]) if quoted[0][0] == '"' else quoted[0][1:-1]

    def _value(self, key: Key) -> None:
        self._skip()
        opening = self._text[self._place]
        if opening == "[":
            self._place += 1
            self._items(key)
        elif opening == "{":
            self._place += 1
            while not self._closed("}"):
                self._pair(key)
        else:
            pattern = _STRING if opening in "\"'" else _SCALAR
            found = pattern.match(self._text, self._place)
            self._place = found.end() if found else len(self._text)

    def _items(self, key: Key) -> None:
        index = 0
        while not self._closed("]"):
            self._found[*key, index] = self._line()
            self._value((*key, index))
            index += 1

    def _closed(self, bracket: str) -> bool:
        """Skip a comma; whether the array or table ends here."""
        self._skip()
        if self._text.startswith(",", self._place):
            self._place += 1
            self._skip()
        if self._text.startswith(bracket, self._place):
            self._place += 1
            return True
        return self._place >= len(self._text)

    def _skip(self) -> None:
        blank = _BLANK.match(self._text, self._place)
        self._place = blank.end() if blank else self._place

    def _line(self) -> int:
        return self._text.count("\n", 0, self._place) + 1
