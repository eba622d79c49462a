"""Statistics of latencies that a file tells one by one, or as quantiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trilane.lab.model.traffic import QUANTILES, Statistics, enough


def told(count: int, values: Mapping[str, float | None], unit_s: float = 1.0) -> Statistics:
    """Statistics from those that a tool tells, by the names of `Statistics`, in units of `unit_s`.

    A quantile is left out where `count` samples are too few for it.
    """
    seconds = {name: None if (v := values.get(name)) is None else v * unit_s for name in _NAMES}
    for name, q in QUANTILES.items():
        if not enough(count, q):
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
