"""Numbers for people: a unit on every one, three significant digits, no false precision."""

from __future__ import annotations

from collections.abc import Iterable

from trilane.lab.model.documents import Json
from trilane.quantity import swept_text

NONE = "–"
# Unit of a measure in JSON -> the scales people read it in, largest first.
_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "us": ((1.0, "µs"),),
    "ns": ((1.0, "ns"),),
    "B": ((1e6, "MB"), (1e3, "kB"), (1.0, "B")),
    "1/s": ((1.0, "/s"),),
    "%": ((1.0, "%"),),
    "1": ((1.0, ""),),
}
# The unit of a scale that is used only from so many of the smaller unit on: 1,432 B, but 14.3 kB.
_FROM = {"MB": 10e6, "kB": 10e3}
_FIVE_DIGITS = 10_000


def scale(values: Iterable[float | None], unit: str) -> tuple[float, str]:
    """One scale for a whole column: the largest in which every value is at least 1.

    A column that spans so much that its largest value would take five digits gets the next larger
    scale: 0.302 s beside 14.0 s, not 302 ms beside 14,012 ms.
    """
    known = [abs(value) for value in values if value]
    choices = _SCALES.get(unit, ((1.0, unit),))
    smallest, largest = min(known, default=1.0), max(known, default=1.0)
    place = next(
        (
            place
            for place, (factor, name) in enumerate(choices)
            if smallest >= _FROM.get(name, factor)
        ),
        len(choices) - 1,
    )
    if place and unit == "s" and largest / choices[place][0] >= _FIVE_DIGITS:
        place -= 1
    return choices[place]


def number(value: float | None) -> str:
    """Three significant digits, thousands grouped."""
    if value is None:
        return NONE
    size = abs(value)
    # By what it is rounded to: 9.996 is 10.0, not 10.00.
    decimals = (
        0 if size >= 99.95 or not size else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3
    )
    return f"{value:,.{decimals}f}"


def quantity(value: float | None, unit: str) -> str:
    """A number with its unit."""
    if value is None:
        return NONE
    factor, name = scale([value], unit)
    return f"{number(value / factor)} {name}".rstrip()


def headed(label: str, unit: str) -> str:
    """A label with its unit, once."""
    return label if not unit or unit == "/s" else f"{label} ({unit})"


def interval(low: float | None, high: float | None) -> str:
    """The ends of an interval."""
    return NONE if low is None or high is None else f"{number(low)}–{number(high)}"


def ratio(centre: float | None, low: float | None, high: float | None) -> str:
    """A ratio with its interval."""
    if centre is None:
        return NONE
    if low is None or high is None:
        return f"{times(centre)}×"
    return f"{times(centre)}× ({times(low)}–{times(high)})"


def p_value(value: float) -> str:
    """A p value with three decimals; none is zero."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def times(value: float) -> str:
    """A ratio: two decimals, more below 0.1 and fewer from 100 on, so that none reads as zero."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 0.1 or value <= 0:
        return f"{value:.2f}"
    return f"{value:.3f}" if value >= 0.01 else f"{value:.2g}"


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


def swept(value: float | str, key: str, unit: str | None) -> str:
    """A value of a sweep with its unit: `1,000 requests`, `20 ms`, `10.0 MB`."""
    if key == "body_bytes" and not isinstance(value, str):
        return quantity(value, "B")
    return swept_text(value, key, unit)


def capital(words: str) -> str:
    """The words with a capital at the start, but for names such as p99."""
    return words if words[1:2].isdigit() else words[:1].upper() + words[1:]


def machine(facts: Json) -> str:
    """A machine in one line: processor, CPUs, kernel; no names, no paths."""
    parts = [
        facts.get("cpu"),
        counted(facts["cpus_usable"], "CPU") if facts.get("cpus_usable") else None,
        facts.get("kernel"),
        "load by a cluster" if facts.get("cluster") else None,
    ]
    return ", ".join(str(part) for part in parts if part)


def listed(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *rest, last = list(words) or [""]
    return f"{', '.join(rest)} and {last}" if rest else last
