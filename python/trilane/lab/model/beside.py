"""Single runs of load generators side by side, `trilane.beside/1` (docs/beside.schema.json)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

from msgspec import Meta, field

from trilane.lab.model.answer import Answer
from trilane.lab.model.comparison import Shown
from trilane.lab.model.record import Amount, Count, Record, Text
from trilane.lab.model.traffic import Statistics
from trilane.lab.model.validity import MOST_FAILED, Reason, Validity

SCHEMA: Literal["trilane.beside/1"] = "trilane.beside/1"
OtherTool: TypeAlias = Literal["h2load", "oha", "k6", "vegeta"]
OTHER_TOOLS: tuple[OtherTool, ...] = get_args(OtherTool)


class Answers(Record, frozen=True, omit_defaults=False):
    """Accounts of the requests, as far as they are told."""

    ok: Count
    """Complete responses with an accepted status: 200 to 399 where the tool tells the codes."""
    failed: Count
    """Requests that ended otherwise, those with another status included."""
    unfinished: Count | None
    """In flight when the run ended; null where the tool does not tell."""
    status: dict[str, Count]
    """Responses by status code, or by class such as 2xx where the tool tells no more; empty where
    it tells neither.
    """
    errors: dict[str, Count | None]
    """Requests that failed without a response, by what the tool calls it; null where it does not
    count them.
    """

    @property
    def ended(self) -> int:
        """Requests that ended while the run lasted."""
        return self.ok + self.failed

    def reasons(self) -> list[Reason]:
        """What speaks against the run, by the same rules as in runs of our own (METHOD §5)."""
        if self.ok == 0:
            return [Reason(code="nothing_ok", verdict="invalid", text="no request was ok")]
        share = self.failed / self.ended
        if share <= MOST_FAILED:
            return []
        return [
            Reason(
                code="failed",
                verdict="invalid",
                text=f"{100 * share:.3g} % of the requests failed",
                numbers={"failed_share": share},
            )
        ]


# Those of `lab.model.measures` that other tools may tell.
_COMPARED = frozenset({"requests_per_s", "mean_s", "p50", "p90", "p99", "p99_9"})


class OwnRate(Record, frozen=True):
    """The rate that a tool prints as its result."""

    per_s: Amount
    """Requests per second."""
    counts: Text
    """What it counts."""


class Told(Record, frozen=True, omit_defaults=False):
    """One run, as far as its load generator tells of it."""

    file: str
    """Where it was read."""
    tool: Literal["trilane"] | OtherTool
    """The load generator."""
    tool_version: str | None
    """Its version; null where the file does not say it."""
    format: str
    """Which of its outputs the file holds."""
    target: str | None
    """URL asked for; null where the file does not say it."""
    duration_s: Amount
    """The time that the rate is over, seconds."""
    requests: Answers
    """Accounts of the requests."""
    requests_per_s: Amount
    """Ok requests divided by the duration: the same for every tool."""
    own_rate: OwnRate | None
    """What the tool prints as its rate; null where it prints none."""
    latency: Statistics | None
    """Latency, seconds; null where the file tells none."""
    latency_runs: Text
    """From when to when it runs, and of which requests."""
    bytes_received: Count | None
    """Bytes received; null where they are not told."""
    bytes_are: str | None
    """What they are: bodies, or all payload."""
    client_cpu_us_per_request: Amount | None = None
    """CPU of the client per ok request, microseconds; null where the tool does not measure it."""
    server_cpu_us_per_request: Amount | None = None
    """CPU of the server per ok request, microseconds; likewise."""
    unsaid: list[Text] = field(default_factory=list)
    """What the file does not tell, of what a comparison should know."""

    def value(self, name: str) -> float | None:
        """One of `MEASURES` by its name; None where it is not told."""
        if name == "requests_per_s":
            return self.requests_per_s
        if name in {"client_cpu_us_per_request", "server_cpu_us_per_request"}:
            cost: float | None = getattr(self, name)
            return cost
        if self.latency is None:
            return None
        value: float | None = getattr(self.latency, name.removesuffix("_s"))
        return value

    def tells(self, name: str) -> bool:
        """Whether it tells one of the measures of comparisons, by the measure's name."""
        return name in _COMPARED and self.value(name) is not None

    @property
    def judged(self) -> Validity:
        """Whether it may be believed, as far as its accounts tell."""
        return Validity.of(self.requests.reasons())


class Beside(Record, frozen=True):
    """Single runs set side by side (`trilane compare --format json` of other tools' files).

    Nothing is claimed: single runs have no spread, so no interval can be told.
    """

    schema: Literal["trilane.beside/1"]
    """Name and version of this format."""
    command: str
    """What was typed."""
    measures: Annotated[list[Shown], Meta(min_length=1)]
    """What is shown, in this order; latencies are members of `latency`."""
    a: Annotated[list[Told], Meta(min_length=1)]
    """The runs of A."""
    b: Annotated[list[Told], Meta(min_length=1)]
    """The runs of B."""
    validity: Validity
    """Whether the runs may be believed; a reason begins with the file."""
    verdict: str
    """The answer in one line: how far it may be believed, unless valid, and its headline."""
    answer: Answer
    """Why no winner is named, and what would name one."""
