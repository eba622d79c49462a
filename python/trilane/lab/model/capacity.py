"""The highest rate that holds, as a search found it, in brief."""

from __future__ import annotations

import math
from collections import Counter

from trilane.lab.model.record import Amount, Positive, Record, Share


def _goal(why: str) -> str:
    """What a run missed, without how far it was from it."""
    if why.endswith(_NOT_SENT):
        return "the rate could not be sent"
    return why.partition(" is not true")[0]


# After a rate, which is another in each run.
_NOT_SENT = "were all that could be sent"


class Tried(Record, frozen=True, omit_defaults=False):
    """One run of a search, in brief."""

    rate_per_s: Amount
    """Requests per second that were asked for."""
    reached_per_s: Amount
    """Ok requests per second."""
    p50: Amount | None
    """Median of the latency from when requests were due, seconds."""
    p99: Amount | None
    """Its 99th percentile, seconds; null where too few samples allow none."""
    failed_share: Share
    """Failed requests among those that ended."""
    held: bool
    """Whether everything held that was asked for."""
    why: list[str]
    """What did not; empty where all did."""
    client_bound: bool
    """Whether it was the client that could not send as many."""


class Capacity(Record, frozen=True, omit_defaults=False):
    """What a search found."""

    goals: list[str]
    """What had to hold, such as `p99<10ms`."""
    low_per_s: Amount | None
    """The highest rate at which all runs held, requests per second; null where it did at none."""
    high_per_s: Amount | None
    """The lowest rate above it at which none did; null where all that were tried held."""
    repeats: Positive
    """Runs at each of the two rates."""
    lowest_per_s: Amount
    """Lower rates were not tried, requests per second."""
    interrupted: bool
    """Whether it was ended early; there is no answer then."""
    tried: list[Tried]
    """Every run, in order."""

    @property
    def per_s(self) -> float | None:
        """The highest rate that holds: the middle of the interval, on a scale of ratios.

        None where an end of it is not known, or it was the client that ended the search.
        """
        if self.interrupted or self.low_per_s is None or self.high_per_s is None:
            return None
        if self.client_bound:
            return None
        return math.sqrt(self.low_per_s * self.high_per_s)

    @property
    def client_bound(self) -> bool:
        """Whether above the lower end it was the client that did not keep up."""
        return any(run.client_bound for run in self.at(self.high_per_s))

    def at(self, rate_per_s: float | None) -> list[Tried]:
        """The runs at a rate."""
        return [run for run in self.tried if run.rate_per_s == rate_per_s]

    @property
    def broke(self) -> list[str]:
        """What did not hold at the upper end, the most frequent first, without its numbers."""
        told = Counter(_goal(why) for run in self.at(self.high_per_s) for why in run.why)
        return [goal for goal, _ in told.most_common()]

    def answer(self) -> str:
        """What was found, in a sentence without its full stop."""
        low, high = self.low_per_s, self.high_per_s
        if self.interrupted:
            return "interrupted: the search did not come to an answer"
        if low is not None and high is not None and self.client_bound:
            return (
                f"it holds at {_rate(low)} requests/s, and above it was this client that could not "
                "send more"
            )
        if low is not None and high is not None:
            return (
                f"the highest rate that holds lies between {_rate(low)} and {_rate(high)} "
                f"requests/s (95 % interval: {self.repeats} of {self.repeats} runs held at the "
                f"lower, none of {self.repeats} at the higher)"
            )
        if low is not None:
            return f"it holds at every rate that was tried, up to {_rate(low)} requests/s"
        tried = min((run.rate_per_s for run in self.tried), default=self.lowest_per_s)
        return f"it holds at no rate that was tried, down to {_rate(tried)} requests/s"


def _rate(per_s: float) -> str:
    return f"{per_s:,.1f}".removesuffix(".0")
