"""Times and rates as experiment files write them."""

from __future__ import annotations

import math
import re

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h)", re.ASCII)
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([km]?)", re.ASCII)
_TIMES = {"": 1.0, "k": 1e3, "m": 1e6}
_FASTEST = 1e9
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float | None:
    """Seconds of `500us`, `20ms`, `2s`, `1.5m` or `1h`; None for anything else."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    value = float(match[1]) * _SECONDS[match[2]]
    # 2.3 * 0.001 is not 0.0023: round what multiplication adds.
    return round(value, 12) if math.isfinite(value) else None


def per_second(text: str) -> float | None:
    """Requests per second of `50`, `2.5k` or `1m`; None for anything else, and for 0."""
    match = _RATE.fullmatch(text)
    value = 0.0 if match is None else round(float(match[1]) * _TIMES[match[2]], 12)
    return value if 0 < value <= _FASTEST else None


def time_text(value: float) -> str:
    """Seconds as people write them: `40 ms`, `2 s`; 0 is `none`."""
    if value == 0:
        return "none"
    if value < 1e-3:
        return f"{value * 1e6:g} us"
    return f"{value * 1e3:g} ms" if value < 1 else f"{value:g} s"
