"""Times as experiment files write them."""

from __future__ import annotations

import math
import re

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h)", re.ASCII)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float | None:
    """Seconds of `500us`, `20ms`, `2s`, `1.5m` or `1h`; None for anything else."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    value = float(match[1]) * _SECONDS[match[2]]
    # 2.3 * 0.001 is not 0.0023: round what multiplication adds.
    return round(value, 12) if math.isfinite(value) else None


def time_text(value: float) -> str:
    """Seconds as people write them: `40 ms`, `2 s`; 0 is `none`."""
    if value == 0:
        return "none"
    if value < 1e-3:
        return f"{value * 1e6:g} us"
    return f"{value * 1e3:g} ms" if value < 1 else f"{value:g} s"
