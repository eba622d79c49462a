"""Latency distributions from the histogram blobs of runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hdrh.histogram import HdrHistogram

from trilane.lab.model.measures import counted
from trilane.lab.model.run import Run
from trilane.lab.model.traffic import QUANTILES, Distribution, enough
from trilane.lab.storage.runs import BadRun

# Evenly spaced on the scale of 1 / (1 - q), where tails are readable.
_POINTS = 64
_DECADES = 4


@dataclass(frozen=True, slots=True)
class Band:
    """One quantile over the runs of an arm, in seconds."""

    q: float
    median: float
    low: float
    high: float
    exact: bool = True
    """From histograms; else from the few quantiles that a client reports."""


def decode(run: Run) -> HdrHistogram | None:
    """Histogram of a run's response times (open model) or service times (closed model)."""
    return _decoded(counted(run))


def _decoded(kept: Distribution | None) -> HdrHistogram | None:
    if kept is None or not kept.hdr or not kept.count:
        return None
    try:
        return HdrHistogram.decode(kept.hdr)
    except Exception as error:
        # It has exceptions of its own without a common class, and those of base64, zlib and ctypes.
        raise BadRun(f"a histogram of this run is damaged: {error!r}") from error


def curve(kept: Distribution | None) -> list[Band]:
    """Quantiles of one distribution of a run, whose bands have no width."""
    histogram = _decoded(kept)
    return [] if histogram is None else _bands([histogram])


def bands_of(runs: Sequence[Run]) -> list[Band]:
    """Quantiles of an arm: from histograms where runs have them, else as reported."""
    return quantile_bands(runs) or _reported(runs)


def quantile_bands(runs: Sequence[Run]) -> list[Band]:
    """Quantiles over runs; percentiles are never averaged: each run gives one number."""
    return _bands([histogram for run in runs if (histogram := decode(run)) is not None])


def _bands(histograms: Sequence[HdrHistogram]) -> list[Band]:
    if not histograms:
        return []
    fewest = min(histogram.get_total_count() for histogram in histograms)
    steps = {1 - 10 ** (-_DECADES * step / _POINTS) for step in range(1, _POINTS + 1)}
    quantiles = sorted(steps | {0.5})
    percentiles = [100 * q for q in quantiles if enough(fewest, q)]
    if not percentiles:
        return []
    found = [_at(histogram, percentiles) for histogram in histograms]
    bands = []
    for percentile, units in zip(percentiles, zip(*found, strict=True), strict=True):
        values = [value * SECONDS_PER_UNIT for value in units]
        bands.append(Band(percentile / 100, statistics.median(values), min(values), max(values)))
    return bands


def _at(histogram: HdrHistogram, percentiles: Sequence[float]) -> list[int]:
    """Values at these percentiles, as `get_value_at_percentile` tells one after a long walk."""
    totals = np.cumsum(np.array(histogram.counts))
    targets = [histogram.get_target_count_at_percentile(percentile) for percentile in percentiles]
    places = np.searchsorted(totals, targets).tolist()
    return [
        histogram.get_highest_equivalent_value(histogram.get_value_from_index(place))
        for place in places
    ]


def _reported(runs: Sequence[Run]) -> list[Band]:
    kept = [latency for run in runs if (latency := counted(run)) is not None]
    bands = []
    for name, q in QUANTILES.items():
        values = [value for latency in kept if (value := getattr(latency, name)) is not None]
        if values:
            bands.append(Band(q, statistics.median(values), min(values), max(values), exact=False))
    return bands


SECONDS_PER_UNIT = 1e-9
"""Histograms record nanoseconds."""
