"""Statistics of latencies that a file tells one by one, or as quantiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trilane.lab.model.traffic import Statistics

QUANTILES: Mapping[str, float] = {
    "p50": 0.5,
    "p75": 0.75,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "p99_9": 0.999,
    "p99_99": 0.9999,
}
# METHOD §2: a quantile needs at least 10 / (1 - q) samples.
_BEYOND = 10


def told(count: int, values: Mapping[str, float | None], unit_s: float = 1.0) -> Statistics:
    """Statistics from those that a tool tells, by the names of `Statistics`, in units of `unit_s`.

    A quantile is left out where `count` samples are too few for it.
    """
    seconds = {name: None if (v := values.get(name)) is None else v * unit_s for name in _NAMES}
    for name, q in QUANTILES.items():
        # 0.9 and its like are no binary fractions.
        if name != "p50" and count * (1 - q) < _BEYOND - 1e-6:
            seconds[name] = None
    return Statistics(count=count, **seconds)


def measured(latencies: Sequence[float], unit_s: float) -> Statistics:
    """Statistics of single latencies, in units of `unit_s`: each quantile is one of them."""
    values = np.sort(np.asarray(latencies, dtype=np.float64))
    count = len(values)
    if count == 0:
        return told(0, {})
    places = {name: max(0, int(np.ceil(q * count - 1e-9)) - 1) for name, q in QUANTILES.items()}
    return told(
        count,
        {
            "min": float(values[0]),
            "mean": float(np.mean(values)),
            "stdev": float(np.std(values)),
            "max": float(values[-1]),
            **{name: float(values[place]) for name, place in places.items()},
        },
        unit_s,
    )


_NAMES = ("min", "mean", "stdev", *QUANTILES, "max")
