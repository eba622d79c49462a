"""Latency distributions from the histogram blobs of runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from hdrh.histogram import HdrHistogram

from trilane.lab.measures import Json

# Evenly spaced on the scale of 1 / (1 - q), where tails are readable.
_POINTS = 64
_DECADES = 4
# METHOD: a quantile needs at least 10 / (1 - q) samples.
_SAMPLES = 10


@dataclass(frozen=True, slots=True)
class Band:
    """One quantile over the runs of an arm, in seconds."""

    q: float
    median: float
    low: float
    high: float


def decode(run: Json) -> HdrHistogram | None:
    """Histogram of a run's response times (open model) or service times (closed model)."""
    latency = run["latency"]
    kept = latency["response"] if run["plan"]["model"] == "open" else latency["service"]
    if not kept or not kept.get("hdr") or not kept["count"]:
        return None
    return HdrHistogram.decode(kept["hdr"])


def quantile_bands(runs: Sequence[Json]) -> list[Band]:
    """Quantiles over runs; percentiles are never averaged: each run gives one number."""
    histograms = [histogram for run in runs if (histogram := decode(run)) is not None]
    if not histograms:
        return []
    fewest = min(histogram.get_total_count() for histogram in histograms)
    quantiles = [1 - 10 ** (-_DECADES * step / _POINTS) for step in range(_POINTS + 1)]
    percentiles = [100 * q for q in quantiles if fewest * (1 - q) >= _SAMPLES]
    if not percentiles:
        return []
    found = [histogram.get_percentile_to_value_dict(percentiles) for histogram in histograms]
    bands = []
    for percentile in percentiles:
        values = [values[percentile] * SECONDS_PER_UNIT for values in found]
        bands.append(Band(percentile / 100, statistics.median(values), min(values), max(values)))
    return bands


SECONDS_PER_UNIT = 1e-9
"""The engine records nanoseconds."""
