"""Numbers for people: a unit on every one, three significant digits, no false precision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

NONE = "–"
# Unit of a measure in JSON -> the scales people read it in, largest first.
_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "us": ((1.0, "µs"),),
    "B": ((1.0, "B"),),
    "1/s": ((1.0, "/s"),),
}


def scale(values: Iterable[float | None], unit: str) -> tuple[float, str]:
    """One scale for a whole column: the largest in which every value is at least 1."""
    known = [abs(value) for value in values if value]
    choices = _SCALES.get(unit, ((1.0, unit),))
    smallest = min(known, default=1.0)
    return next((choice for choice in choices if smallest >= choice[0]), choices[-1])


def number(value: float | None) -> str:
    """Three significant digits, thousands grouped."""
    if value is None:
        return NONE
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:,.{decimals}f}"


def quantity(value: float | None, unit: str) -> str:
    """A number with its unit."""
    if value is None:
        return NONE
    factor, name = scale([value], unit)
    return f"{number(value / factor)} {name}"


def ratio(row: Mapping[str, Any]) -> str:
    """A ratio with its interval."""
    if row["ratio"] is None:
        return NONE
    return f"{row['ratio']:.2f}× ({row['low']:.2f}–{row['high']:.2f})"


def percent(value: float | None) -> str:
    """A share as a percentage."""
    return NONE if value is None else f"{100 * value:.0f} %"


def counted(count: int, noun: str) -> str:
    """A count with its noun in the right number."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """A length of time the way the flags take it."""
    for factor, unit in ((60.0, "m"), (1.0, "s"), (1e-3, "ms")):
        if seconds >= factor and abs(seconds / factor - round(seconds / factor)) < 1e-9:
            return f"{round(seconds / factor)}{unit}"
    return f"{seconds:g}s"
