"""The result of a search for the highest rate that holds, `trilane.search/1`."""

from __future__ import annotations

from typing import Literal

from trilane.lab.model.record import Amount, Positive, Record
from trilane.lab.model.run import Run

SCHEMA = "trilane.search/1"


class Trial(Record, frozen=True):
    """One run at a rate."""

    rate_per_s: Amount
    """Requests per second that were asked for."""
    held: bool
    """Whether everything held that was asked for."""
    why: list[str]
    """What did not; empty where all did."""
    client_bound: bool
    """Whether it was the client that could not send as many."""
    run: Run
    """The whole result."""


class Search(Record, frozen=True):
    """The highest rate at which a server keeps what is asked of it."""

    schema: Literal["trilane.search/1"]
    """Name and version of this format."""
    goals: list[str]
    """What had to hold, such as `p99<10ms`."""
    low_per_s: Amount | None
    """The highest rate at which all runs held, requests per second; null where it did at none."""
    high_per_s: Amount | None
    """The lowest rate above it at which none did; null where all that were tried held. The two are
    a 95 % interval for the rate at which half of the runs hold.
    """
    repeats: Positive
    """Runs at each of the two rates."""
    lowest_per_s: Amount
    """Lower rates were not tried: a run of theirs has too few responses, requests per second."""
    interrupted: bool
    """Whether the user ended it early; there is no answer then."""
    trials: list[Trial]
    """Every run, in order."""
