"""The result of a search for the highest rate that holds, `trilane.search/1`."""

from __future__ import annotations

from typing import Literal

from trilane.lab.model.answer import Answer
from trilane.lab.model.capacity import Capacity, Tried
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

    @property
    def brief(self) -> Tried:
        """The run without all that it is not judged by."""
        requests, latency = self.run.requests, self.run.latency
        known = latency.response or latency.service
        ended = requests.ok + requests.failed
        return Tried(
            rate_per_s=self.rate_per_s,
            reached_per_s=self.run.rate.requests_per_s,
            p50=None if known is None else known.p50,
            p99=None if known is None else known.p99,
            failed_share=requests.failed / ended if ended else 0.0,
            held=self.held,
            why=list(self.why),
            client_bound=self.client_bound,
        )


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
    answer: Answer | None = None
    """What was found, and how far to believe it; absent in results of a version before."""

    @property
    def capacity(self) -> Capacity:
        """What was found, in brief."""
        return Capacity(
            goals=self.goals,
            low_per_s=self.low_per_s,
            high_per_s=self.high_per_s,
            repeats=self.repeats,
            lowest_per_s=self.lowest_per_s,
            interrupted=self.interrupted,
            tried=[trial.brief for trial in self.trials],
        )
