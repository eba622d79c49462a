"""Whether a run, or a comparison of runs, may be believed, and what speaks against it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from trilane.lab.model.record import Record, Text, Verdict

Bound: TypeAlias = Literal["client", "server", "server_or_network"]
ReasonCode: TypeAlias = Literal[
    # The engine's and the lab's.
    "nothing_ok",
    "failed",
    "accounts",
    "others_busy",
    # The engine's.
    "outage",
    "given_up",
    "worker_lost",
    "interrupted",
    "streams_allowed",
    "late",
    "queued",
    "unsent",
    "worker_busy",
    "stood_still",
    "datagrams_dropped",
    "steal",
    "early_responses",
    "few_connections",
    "redirects",
    "exhausted",
    "broken_connections",
    "cold_start",
    "drift",
    "few_for_p99",
    # The lab's.
    "version",
    "bodies",
    "network",
    "no_result",
    "no_capacity",
    "short_turns",
    # The lab's, against a comparison.
    "different_bodies",
    "different_statuses",
    "differs_from_itself",
    # The lab's, against a contrast of two runs.
    "incomplete",
    "different_machines",
    "unknown_machine",
    "different_workload",
    "unknown_workload",
]


MOST_FAILED = 0.001
"""A larger share of requests that failed makes a run invalid (METHOD §5)."""


class Reason(Record, frozen=True):
    """One thing that speaks against a run, or a comparison of runs."""

    code: ReasonCode
    """What it is, for programs."""
    verdict: Literal["suspect", "invalid"]
    """How much it weighs."""
    text: Text
    """One sentence for people."""
    advice: str = ""
    """What to do about it; empty where nothing helps."""
    numbers: dict[str, float] = msgspec.field(default_factory=dict)
    """The numbers in `text`, by name; each name says its unit."""


class Validity(Record, frozen=True):
    """Whether numbers may be believed."""

    verdict: Verdict
    """The worst of the reasons."""
    reasons: list[Reason]
    """The worst first; empty when valid."""

    @classmethod
    def of(cls, reasons: Sequence[Reason]) -> Validity:
        """The verdict that follows from reasons."""
        worst = sorted(reasons, key=lambda reason: reason.verdict != "invalid")
        return Validity(verdict=worst[0].verdict if worst else "valid", reasons=worst)


class RunValidity(Validity, frozen=True):
    """Whether the numbers of a run may be believed."""

    bound: Bound | None
    """What limited the rate, as far as the client can tell: `server` where one on the client's
    machine left no processor idle, in the closed model; null for a client under test, whose own
    speed is the subject.
    """

    @classmethod
    def of(cls, reasons: Sequence[Reason], bound: Bound | None = None) -> RunValidity:
        """The verdict that follows from reasons."""
        told = Validity.of(reasons)
        return RunValidity(verdict=told.verdict, reasons=told.reasons, bound=bound)
