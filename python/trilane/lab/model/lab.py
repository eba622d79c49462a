"""The result of an experiment, `trilane.lab/1` (docs/lab.schema.json)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType, structs

from trilane.lab.model.answer import Answer
from trilane.lab.model.arm import TITLES, ArmName
from trilane.lab.model.comparison import Comparison, Finding, Pair
from trilane.lab.model.manifest import RACE
from trilane.lab.model.profile import Profiles
from trilane.lab.model.record import Count, PositiveAmount, Record, Share, SweepValue, Time
from trilane.lab.model.sample import Sample
from trilane.lab.model.validity import Validity

SCHEMA: Literal["trilane.lab/1"] = "trilane.lab/1"
SweepKey: TypeAlias = Literal["count", "in_flight", "body_bytes", "rtt", "network"]


class Post(Record, frozen=True):
    """The post whose measurement an experiment repeats."""

    title: str
    """Title."""
    author: str
    """Author."""
    date: str
    """Date."""
    claim: str
    """What it claimed."""


class Question(Record, frozen=True):
    """What an experiment asked."""

    name: str
    """Name of the experiment: that of its file, or `race`."""
    title: str
    """Name for people."""
    form: str | None
    """`published`, `fair` or another; null for a race."""
    note: str | None
    """What the form does."""
    question: str
    """The question."""
    hypothesis: str | None
    """What was expected."""
    confounders: list[str]
    """What differed besides in the published form."""
    source: Post | None
    """The post."""
    quick: bool
    """Whether `--quick` cut the experiment down."""
    altered: list[str] = msgspec.field(default_factory=list)
    """What was asked otherwise than the form says, such as `300 requests instead of 3,000`: then
    `published` is empty; absent where nothing was.
    """
    shortened: list[str] = msgspec.field(default_factory=list)
    """What `--quick` made shorter, such as `1 s instead of 20 s`; absent where nothing was."""

    @classmethod
    def of_race(cls, question: str, url: str) -> Question:
        """What a race of this URL asked."""
        return cls(
            name=RACE,
            title=url or question,
            form=None,
            note=None,
            question=question,
            hypothesis=None,
            confounders=[],
            source=None,
            quick=False,
        )


class Swept(Record, frozen=True):
    """What was varied."""

    key: SweepKey
    """The quantity."""
    unit: str
    """Unit of the values."""
    values: list[SweepValue]
    """Its values."""


class Point(Record, frozen=True):
    """One value of the sweep, or the only one."""

    value: SweepValue | None
    """Value of the sweep; null without one."""
    comparison: Comparison
    """What was found there."""


class Crossing(Record, frozen=True):
    """Where one arm overtakes another."""

    measure: str
    """The measure in which it does."""
    arm: ArmName
    """The arm whose ratio to the other is meant."""
    to: ArmName
    """The other."""
    at: float | None
    """Value of the sweep at which the ratio passes 1; null where it does not, once."""
    low: float | None
    """Lower end of its interval, whose level is `level`; null where it is not sure."""
    high: float | None
    """Upper end."""
    unit: str
    """Unit of the three."""
    text: str
    """The finding for people."""
    level: Share = 0.95
    """Level of the interval: the highest of the points that it rests on, which may have ended at
    different looks; absent where it is 0.95.
    """


class PostRatio(Record, frozen=True):
    """The post's numbers."""

    arm: float
    """Of the arm."""
    to: float
    """Of the other."""
    ratio: float
    """Their ratio."""
    where: str
    """Where in the post."""


class OurRatio(Record, frozen=True):
    """Our ratio of the same two arms, within blocks."""

    ratio: PositiveAmount
    """Ratio of the arm to the other."""
    low: float
    """Lower end of its interval, whose level is that of the plan of its point."""
    high: float
    """Upper end."""
    finding: Finding
    """What may be said."""


class PublishedRatio(Pair, frozen=True):
    """The post's ratio beside ours."""

    at: SweepValue | None
    """Value of the sweep."""
    published: PostRatio
    """The post's numbers."""
    ours: OurRatio | None
    """Ours; null where it was not measured."""


class ExpectedRatio(Pair, frozen=True):
    """A gate of the experiment's file."""

    at: SweepValue | None
    """Value of the sweep."""
    low: float
    """Least ratio that is promised."""
    high: float
    """Largest."""
    ratio: float | None
    """Ours."""
    met: bool | None
    """True where the whole interval lies within, false where it lies outside; null where it does
    neither, or nothing was measured.
    """
    interval: tuple[float, float] | None = None
    """The lower and the upper end of our ratio's interval, whose level is that of the plan of its
    point, or `level`; null where nothing was measured.
    """
    level: Share | None = None
    """Of a budget: level of the interval, each end of which may miss with half of the rest; absent
    for other gates.
    """
    p: Share | None = None
    """Of a budget: exact signed-rank p, one-sided, of the answer that the interval gives; it is not
    given where p is more than half of 1 - `level`. Absent for other gates.
    """

    @property
    def breached(self) -> bool:
        """Whether the gate makes a command fail: also where nothing was measured for it."""
        return self.met is False or self.ratio is None

    @property
    def limit(self) -> float:
        """The end that counts where there is one alone."""
        return self.low if math.isinf(self.high) else self.high

    def against(self, baseline: str) -> ExpectedRatio:
        """As it was asked: what may not fall is kept as the inverse, which may not rise.

        Then nothing limits it above.
        """
        if self.arm != baseline or self.low > 0:
            return self
        ends = None if self.interval is None else (1 / self.interval[1], 1 / self.interval[0])
        return structs.replace(
            self,
            arm=self.to,
            to=self.arm,
            low=1 / self.high,
            high=math.inf,
            ratio=None if self.ratio is None else 1 / self.ratio,
            interval=ends,
        )


class Skipped(Record, frozen=True):
    """An arm that could not run here."""

    arm: ArmName
    """The arm."""
    reason: str
    """Why it could not run."""


def skipped_in(comparison: Comparison) -> list[Skipped]:
    """The arms that the target of a race does not serve, by their titles."""
    return [
        Skipped(arm=TITLES.get(gone.version, gone.name), reason=gone.reason)
        for gone in comparison.absent
    ]


class LabResult(Record, frozen=True):
    """The result of an experiment.

    One comparison per point of its sweep, the crossings between points, and the post's ratios
    beside ours.
    """

    schema: Literal["trilane.lab/1"]
    """Name and version of this format."""
    experiment: Question
    """What was asked."""
    command: str
    """What to type to do it again."""
    replay: str
    """What to type to make just these runs again."""
    started_at: Time
    """UTC."""
    finished_at: Time | None
    """UTC; null where it is not known."""
    interrupted: bool
    """Whether some runs were not made."""
    seed: Count
    """Seed of the order and of the bootstrap."""
    machine: dict[str, Any]
    """Facts about the machine."""
    sweep: Swept | None
    """What was varied."""
    points: Annotated[list[Point], Meta(min_length=1)]
    """One comparison per value."""
    crossings: list[Crossing]
    """Where one arm overtakes another."""
    published: list[PublishedRatio]
    """The post's ratios beside ours."""
    expect: list[ExpectedRatio]
    """Gates of the file."""
    skipped: list[Skipped]
    """Arms that could not run here."""
    validity: Validity
    """The worst of all points; with a sweep, each reason begins with its point."""
    verdict: str
    """The answer in one line: how far it may be believed, unless valid, and its headline."""
    answer: Answer | None = None
    """The answer; absent in results of before."""
    benchstat: str | UnsetType | None = UNSET
    """What benchstat makes of the benchmarks' results, as text; absent where there are none, null
    where the tool did not run.
    """
    profiles: Profiles | UnsetType = UNSET
    """Where the processor time of both ends went; absent where nobody asked for it."""

    @classmethod
    def of_race(cls, comparison: Comparison) -> LabResult:
        """What a race of a version before found, which kept its comparison alone."""
        # The strategy was called by the model, the server by its maker; sessions were not told.
        comparison = comparison.with_arms(
            lambda arm: structs.replace(
                arm, strategy="load", session=True, server="embedded" if arm.server else None
            )
        )
        return cls(
            schema=SCHEMA,
            experiment=Question.of_race(comparison.question, comparison.url),
            command=comparison.command,
            replay=comparison.command,
            started_at=comparison.started_at,
            finished_at=None,
            interrupted=comparison.interrupted,
            seed=comparison.plan.seed,
            machine=comparison.ledger.machine,
            sweep=None,
            points=[Point(value=None, comparison=comparison)],
            crossings=[],
            published=[],
            expect=[],
            skipped=skipped_in(comparison),
            validity=comparison.validity,
            verdict=comparison.verdict,
            answer=comparison.answer,
        )

    def frame(self) -> dict[str, list[Any]]:
        """One row per point, arm and measure, as columns by name: what `trilane report` calls CSV.

        `pandas.DataFrame`, `polars.DataFrame` and `pyarrow.table` all take it; Trilane needs none
        of them. The units are those of the JSON (s, us, B, %, 1), and are in a column.
        """
        from trilane.report import tables  # noqa: PLC0415 - reports are made of results

        return tables.columns(self)

    def __repr__(self) -> str:
        form = f", form {self.experiment.form}" if self.experiment.form else ""
        return f"<LabResult of {self.experiment.name}{form}: {self.verdict}>"

    def _repr_html_(self) -> str:
        """What Jupyter shows: the verdict, the post's ratios beside ours, and the numbers."""
        from trilane.report import html  # noqa: PLC0415 - charts and vl-convert only when shown

        return html.fragment(self)

    @property
    def said(self) -> Answer:
        """The answer; of a result of before, its sentence."""
        return self.answer or Answer.of_sentence(self.verdict, self.validity)

    @property
    def race(self) -> Comparison | None:
        """The one comparison of a race; None for an experiment, and for a race with a sweep."""
        if self.experiment.form is not None or self.sweep is not None:
            return None
        return self.points[0].comparison

    def with_comparisons(self, change: Callable[[Comparison], Comparison]) -> LabResult:
        """The result with the comparison of each point changed."""
        points = [
            structs.replace(point, comparison=change(point.comparison)) for point in self.points
        ]
        return structs.replace(self, points=points)

    def with_samples(self, change: Callable[[Sample], Sample]) -> LabResult:
        """The result with each sample of each point changed."""
        return self.with_comparisons(lambda comparison: comparison.with_samples(change))
