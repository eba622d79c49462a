"""A search for the highest rate that holds, as the run that stands for it."""

from __future__ import annotations

from msgspec.structs import replace

from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.model.run import Run
from trilane.lab.model.search import Search
from trilane.lab.model.validity import Reason, RunValidity

# What the search judges instead: by its goals, and whether the rate could be sent by what was.
_OF_GOALS = frozenset({"failed", "few_for_p99", "late", "queued", "unsent"})


def run_of(search: Search) -> Run:
    """The last run at the highest rate that held, with what the search found.

    Where it held at none, the last run at the lowest that was tried; without an answer the run is
    invalid, so that no other arm is ranked by it.

    Raises:
        RunFailed: there was no run.
    """
    capacity = search.capacity
    rate = capacity.high_per_s if capacity.low_per_s is None else capacity.low_per_s
    at = [trial.run for trial in search.trials if trial.rate_per_s == rate]
    runs = at or [trial.run for trial in search.trials]
    if not runs:
        raise RunFailed("the search ended without a run")
    run = runs[-1]
    reasons = [reason for reason in run.validity.reasons if reason.code not in _OF_GOALS]
    if capacity.per_s is None:
        reasons.append(Reason(code="no_capacity", verdict="invalid", text=capacity.answer()))
    return replace(run, capacity=capacity, validity=RunValidity.of(reasons, run.validity.bound))
