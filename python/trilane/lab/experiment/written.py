"""Values that a TOML file writes as text with a form of its own: times, rates, header lines."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Self

from trilane.quantity import per_second, seconds

_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_HEADER = re.compile(rf"({_NAME}):(.*)", re.DOTALL)


class Written:
    """A value that is read from text."""

    CALLED: ClassVar[str]
    """What it is called where something else stands in its place."""
    SCHEMA: ClassVar[dict[str, Any]]
    """The text as JSON Schema."""

    @classmethod
    def read(cls, text: str) -> Self:
        """The value of the text; ValueError says how it is written."""
        raise NotImplementedError


class Time(Written, float):
    """Seconds, written with a unit: "40ms"."""

    CALLED = "a time with its unit, such as 500ms, 2s or 1m"
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "string",
        "pattern": r"^\d+(\.\d+)?\s*(us|ms|s|m|h)$",
        "examples": ["40ms", "2s", "1.5m"],
    }

    @classmethod
    def read(cls, text: str) -> Self:
        """Seconds of the text; ValueError where it is not a time."""
        found = seconds(text)
        if found is None:
            raise ValueError(f"{text!r} is not a time: write 500ms, 2s or 1m")
        return cls(found)


class Rate(Written, float):
    """Requests per second: "1k"."""

    CALLED = 'requests per second as text, such as "50", "2.5k" or "1m"'
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "string",
        "pattern": r"^\d+(\.\d+)?\s*[km]?$",
        "examples": ["50", "2.5k", "1m"],
    }

    @classmethod
    def read(cls, text: str) -> Self:
        """Requests per second of the text; ValueError where it is not a rate."""
        found = per_second(text)
        if found is None:
            raise ValueError(f"{text!r} is not a rate: write requests per second: 50, 2.5k or 1m")
        return cls(found)


class Header(Written, tuple[str, str]):
    """Name and value of a header field, written as one line: "accept: */*"."""

    __slots__ = ()
    CALLED = "text"
    SCHEMA: ClassVar[dict[str, Any]] = {"type": "string", "pattern": f"^{_NAME}:"}

    @classmethod
    def read(cls, text: str) -> Self:
        """Name and value of the line; ValueError where it is not a header field."""
        found = _HEADER.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not a header field: write 'name: value'")
        return cls((found[1], found[2].strip()))
