"""Made-up runs as records, and records changed in some places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from synthetic import runs
from trilane.lab.analysis.comparison import Observed
from trilane.lab.model.record import Record
from trilane.lab.model.run import Reason, Run, Validity
from trilane.lab.model.sample import Sample, ServerCost

SomeRecord = TypeVar("SomeRecord", bound=Record)


def run(*arguments: Any, **numbers: Any) -> Run:
    """The record of `runs.run`."""
    return msgspec.convert(runs.run(*arguments, **numbers), Run)


def validity(*texts: str, verdict: str = "suspect") -> Validity:
    """Of a run against which these reasons speak."""
    reasons = [runs.reason(text, verdict) for text in texts]
    return Validity.of(msgspec.convert(reasons, list[Reason]), "server_or_network")


def server(cpu_us_per_request: float | None = 9.0, busy: float | None = 0.6) -> ServerCost:
    """What a server spent on a run of a hundred thousand requests."""
    return ServerCost(
        cpu_s=0.9,
        requests=100_000,
        cpu_us_per_request=cpu_us_per_request,
        busy=busy,
        others_busy=0.01,
    )


def altered(record: SomeRecord, changes: Mapping[str, object]) -> SomeRecord:
    """The record with other members; `latency.service.p99` is one of a part of a part."""
    for path, value in changes.items():
        name, _, rest = path.partition(".")
        if rest:
            value = altered(getattr(record, name), {rest: value})  # noqa: PLW2901 - of the part
        record = structs.replace(record, **{name: value})
    return record


def with_runs(observed: Observed, change: Callable[[Sample], Mapping[str, object]]) -> Observed:
    """What was observed, with these changes to the run of each sample."""
    return replace(
        observed,
        samples=[
            sample
            if sample.run is None
            else structs.replace(sample, run=altered(sample.run, change(sample)))
            for sample in observed.samples
        ],
    )
