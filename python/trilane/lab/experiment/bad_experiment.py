"""What is wrong with an experiment, and where."""

from __future__ import annotations

from typing import TypeAlias

Key: TypeAlias = tuple[str | int, ...]


class BadKey(ValueError):
    """A key of a TOML file with a value that cannot be; the message names key and way out."""

    def __init__(self, problem: str, key: Key = (), where: str = "") -> None:
        """`key` leads to the value, such as ("forms", "fair", "arms", 2, "version")."""
        self.problem = problem
        self.key = key
        self.where = where
        """`file:line`, where it came from a file."""
        super().__init__(": ".join(part for part in (where, dotted(key), problem) if part))


class BadExperiment(BadKey):
    """An experiment that cannot be run; the message names file, line, key and the way out."""


def at_least(value: float | None, least: float, key: Key) -> None:
    """Refuse a number below the least; there may be none."""
    if value is not None and value < least:
        raise BadExperiment(f"must be at least {least:g}, not {value:g}", key)


def dotted(key: Key) -> str:
    """`forms.fair.arms[2].version` for a key."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text
