"""Made-up runs as records, and records changed in some places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from synthetic import runs
from trilane.lab.analysis.paired import Observed
from trilane.lab.model.record import Record
from trilane.lab.model.run import Run
from trilane.lab.model.sample import Sample, ServerCost
from trilane.lab.model.validity import Reason, RunValidity

SomeRecord = TypeVar("SomeRecord", bound=Record)


def run(*arguments: Any, **numbers: Any) -> Run:
    """The record of `runs.run`."""
    return msgspec.convert(runs.run(*arguments, **numbers), Run)


def validity(*texts: str, verdict: str = "suspect") -> RunValidity:
    """Of a run against which these reasons speak."""
    reasons = [runs.reason(text, verdict) for text in texts]
    return RunValidity.of(msgspec.convert(reasons, list[Reason]), "server_or_network")


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
    """The record with other members; `arms.2.load.bound` is one of a part of the third arm."""
    for path, value in changes.items():
        record = _with(record, path, value)
    return record


def _with(whole: Any, path: str, value: object) -> Any:
    if not path:
        return value
    name, _, rest = path.partition(".")
    if isinstance(whole, list):
        place = int(name)
        return [*whole[:place], _with(whole[place], rest, value), *whole[place + 1 :]]
    return structs.replace(whole, **{name: _with(getattr(whole, name), rest, value)})


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
