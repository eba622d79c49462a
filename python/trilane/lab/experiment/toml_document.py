"""A TOML document as a typed value: what does not fit is told with its key and its line.

The types are `msgspec.Struct`s, and msgspec decides what fits. Its message names neither the key
of a mapping nor the value, so where something does not fit, the smallest part that does not is
looked for here and told in the words of TOML.
"""

from __future__ import annotations

import difflib
import operator
import re
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from types import NoneType, UnionType
from typing import Annotated, Any, NoReturn, TypeAlias, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from trilane.lab.experiment import toml_lines
from trilane.lab.experiment.bad_experiment import BadKey, Key
from trilane.lab.experiment.words import meant
from trilane.lab.experiment.written import Written

_T = TypeVar("_T")

Text: TypeAlias = Annotated[str, Meta(pattern=r"\S")]
"""A text that is not blank."""

_AT = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
# What TOML calls the types that may stand in one place.
_CALLED: dict[frozenset[Any], str] = {
    frozenset({str}): "text",
    frozenset({bool}): "true or false",
    frozenset({int}): "a whole number",
    frozenset({int, float}): "a number",
    frozenset({int, str}): "a whole number, or a time such as 1s",
    frozenset({int, float, str}): "a number, or a time such as 40ms",
}


class UnreadableToml(ValueError):
    """A file that is not TOML; the message says why."""

    def __init__(self, problem: str, line: int) -> None:
        """`line` counts from 1."""
        self.problem = problem
        self.line = line
        super().__init__(problem)


@dataclass(frozen=True)
class Document:
    """A TOML document and where its keys stand."""

    text: str
    values: dict[str, Any]

    @classmethod
    def parse(cls, content: bytes) -> Document:
        """The document in the content of a file; UnreadableToml where there is none."""
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise UnreadableToml("is not UTF-8", line) from None
        try:
            return cls(text, tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            at = _AT.search(str(error))
            line = int(at[1]) if at and at[1] else text.count("\n") + 1
            problem = _AT.sub("", str(error))
            raise UnreadableToml(f"is not TOML: {problem[:1].lower()}{problem[1:]}", line) from None

    @cached_property
    def lines(self) -> dict[Key, int]:
        """Line, from 1, of every table, key and item."""
        return toml_lines.lines(self.text)

    def line(self, key: Key) -> int:
        """Line of the key, or of the nearest table around it that the file has."""
        while key and key not in self.lines:
            key = key[:-1]
        return self.lines.get(key, 1)

    def at(self, key: Key) -> Any:
        """What stands at the key; None where nothing does."""
        value: Any = self.values
        for part in key:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return None
        return value


def convert(values: Any, kind: type[_T], key: Key = ()) -> _T:
    """What `tomllib` gave, as a value of that type; BadKey tells the first thing that is wrong.

    `key` leads to the values in their document.
    """
    try:
        return msgspec.convert(values, kind, dec_hook=_read)
    except msgspec.ValidationError:
        _refuse(values, kind, key)


def told(value: Any) -> str:
    """A value of TOML as the file has it, for a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    return "a list" if isinstance(value, list) else repr(value)


def _read(kind: type[Any], value: Any) -> Any:
    """A value of a type that msgspec does not know."""
    if not issubclass(kind, Written) or not isinstance(value, str):
        raise TypeError(f"{kind.__name__} is written as text")
    return kind.read(value)


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind, dec_hook=_read)
    except msgspec.ValidationError:
        return False
    return True


def _refuse(value: Any, kind: Any, key: Key) -> NoReturn:
    """Raise what is wrong with a value that does not fit."""
    kind, notes = _bare(kind)
    for note in notes:
        if note.extra and "takes" in note.extra:
            raise BadKey(f"takes {note.extra['takes']}", key)
    members = _members(kind)
    lists = [each for each in members if get_origin(_bare(each)[0]) is tuple]
    if len(members) > 1 and lists:
        others = reduce(operator.or_, (each for each in members if each not in lists))
        _refuse(value, lists[0] if isinstance(value, list) else others, key)
    if len(members) == 1 and members[0] is not kind:
        _refuse(value, members[0], key)
    if isinstance(kind, type) and issubclass(kind, Struct):
        _refuse_table(value, kind, key)
    if get_origin(kind) is tuple:
        _refuse_list(value, get_args(kind)[0], key)
    if get_origin(kind) is dict:
        _refuse_mapping(value, get_args(kind)[1], key)
    _refuse_scalar(value, kind, notes, key)


def _refuse_table(value: Any, kind: type[Struct], key: Key) -> NoReturn:
    if not isinstance(value, dict):
        raise _no_table(key)
    fields = msgspec.structs.fields(kind)
    known = [field.encode_name for field in fields]
    for field in fields:
        name = field.encode_name
        if name not in value:
            if field.required:
                raise _missing(name, field.type, key, [each for each in value if each not in known])
        elif not _fits(value[name], field.type):
            _refuse(value[name], field.type, (*key, name))
    unknown = next(name for name in value if name not in known)
    raise BadKey(f"unknown key{meant(unknown, known)}", (*key, unknown))


def _missing(name: str, kind: Any, key: Key, unknown: Collection[str]) -> BadKey:
    # Most often it is there, but misspelt.
    for near in difflib.get_close_matches(name, unknown, 1, 0.8):
        return BadKey(f"unknown key: did you mean {name}?", (*key, near))
    kind = _bare(kind)[0]
    if isinstance(kind, type) and issubclass(kind, Struct):
        return BadKey(f"{name} is missing: add [{_header((*key, name))}]", key)
    value = "[…]" if get_origin(kind) is tuple else "…"
    return BadKey(f"{name} is missing: add {name} = {value}", key)


def _refuse_list(value: Any, item: Any, key: Key) -> NoReturn:
    bare = _bare(item)[0]
    if isinstance(bare, type) and issubclass(bare, Struct):
        if not _all(value, dict):
            raise BadKey(f"is a list of tables: write [[{_header(key)}]]", key)
    elif get_origin(bare) is tuple:
        if not _all(value, list):
            raise BadKey("takes a list of lists", key)
    elif not isinstance(value, list):
        raise BadKey(f"takes a list, not {told(value)}: put it in brackets", key)
    wrong = next(index for index, each in enumerate(value) if not _fits(each, item))
    _refuse(value[wrong], item, (*key, wrong))


def _refuse_mapping(value: Any, kind: Any, key: Key) -> NoReturn:
    if not isinstance(value, dict):
        raise _no_table(key)
    wrong = next(name for name in value if not _fits(value[name], kind))
    _refuse(value[wrong], kind, (*key, wrong))


def _refuse_scalar(value: Any, kind: Any, notes: Sequence[Meta], key: Key) -> NoReturn:
    if isinstance(kind, type) and issubclass(kind, Written):
        if not isinstance(value, str):
            raise BadKey(f"takes {kind.CALLED}, not {told(value)}", key)
        try:
            kind.read(value)
        except ValueError as error:
            raise BadKey(str(error), key) from None
    if not _fits(value, kind):
        called = _CALLED[frozenset(_bare(each)[0] for each in _members(kind))]
        raise BadKey(f"takes {called}, not {told(value)}", key)
    for note in notes:
        if note.ge is not None and value < note.ge:
            raise BadKey(f"must be at least {note.ge}, not {value}", key)
    raise BadKey("is empty", key)


def _bare(kind: Any) -> tuple[Any, Sequence[Meta]]:
    """A type without its notes, and the notes."""
    if get_origin(kind) is Annotated:
        return kind.__origin__, kind.__metadata__
    return kind, ()


def _members(kind: Any) -> list[Any]:
    """The types of a union; None, which TOML does not have, only says that a key may be missing."""
    if get_origin(kind) not in (Union, UnionType):
        return [kind]
    return [each for each in get_args(kind) if each is not NoneType]


def _all(value: Any, kind: type[Any]) -> bool:
    return isinstance(value, list) and all(isinstance(each, kind) for each in value)


def _no_table(key: Key) -> BadKey:
    return BadKey("is a table: put its keys under a header or in braces", key)


def _header(key: Key) -> str:
    return ".".join(part for part in key if isinstance(part, str))
