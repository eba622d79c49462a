"""Times, rates, counts and shares as people write them: 500ms, 2.5k, 5%."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

SECONDS: Mapping[str, float] = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
THOUSANDS: Mapping[str, float] = {"": 1.0, "k": 1e3, "m": 1e6}
SIZES: Mapping[str, float] = {"": 1.0, "k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40}
SHARES: Mapping[str, float] = {"": 1.0, "%": 0.01}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z%]*)", re.ASCII)
_FASTEST = 1e9


def number(text: str, units: Mapping[str, float]) -> float | None:
    """A number with one of these units, in that of 1; None for anything else."""
    match = _NUMBER.fullmatch(text)
    if match is None or match[2] not in units:
        return None
    value = float(match[1]) * units[match[2]]
    # 2.3 * 0.001 is not 0.0023: round what multiplication adds.
    return round(value, 12) if math.isfinite(value) else None


def seconds(text: str) -> float | None:
    """Seconds of `500us`, `20ms`, `2s`, `1.5m` or `1h`; None for anything else."""
    return number(text, SECONDS)


def per_second(text: str) -> float | None:
    """Requests per second of `50`, `2.5k` or `1m`; None for anything else, and for 0."""
    value = number(text, THOUSANDS)
    return value if value is not None and 0 < value <= _FASTEST else None


def value_text(value: float | str) -> str:
    """A value of a sweep without its unit: `30,000,000`, `0.5`, or the text that it is."""
    if isinstance(value, str):
        return value
    # :g would write 30,000,000 as 3e+07.
    return f"{value:,.0f}" if value == int(value) else f"{value:,.10g}"


def time_text(value: float) -> str:
    """Seconds as people write them: `40 ms`, `2 s`; 0 is `none`."""
    if value == 0:
        return "none"
    if value < 1e-3:
        return f"{value * 1e6:g} us"
    return f"{value * 1e3:g} ms" if value < 1 else f"{value:g} s"


def time_left(seconds: float) -> str:
    """A length of time in its two largest units: `3 h 05 min`, `1 min 36 s`, `12 s`."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def swept_text(value: float | str, key: str, unit: str | None) -> str:
    """A value of the sweep `key` with its unit (`1,000 requests`, `40 ms`), or the text it is."""
    if key == "rtt" and not isinstance(value, str):
        return time_text(value) if value else "0 ms"
    called = unit or ""
    if value == 1 and called.partition(" ")[0] == "requests":
        called = called.replace("requests", "request", 1)
    return f"{value_text(value)} {called}".rstrip()
