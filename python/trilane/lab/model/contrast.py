"""Two runs set side by side, `trilane.contrast/1` (docs/contrast.schema.json)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field

from trilane.lab.model.answer import Answer
from trilane.lab.model.arm import ArmName
from trilane.lab.model.beside import OtherTool
from trilane.lab.model.comparison import (
    BlockPlan,
    Fact,
    Finding,
    Floor,
    Margin,
    Shown,
    Summary,
)
from trilane.lab.model.manifest import Kind, Status
from trilane.lab.model.record import Count, PositiveAmount, Record, Share, SweepValue, Time
from trilane.lab.model.validity import Validity

SCHEMA: Literal["trilane.contrast/1"] = "trilane.contrast/1"
ValueUnit: TypeAlias = Literal["block", "run", "file"]
Scope: TypeAlias = Literal["workload", "machine", "software"]
BudgetVerdict: TypeAlias = Literal["met", "undecided", "breached"]


class Source(Record, frozen=True):
    """A run folder, or a file of `trilane load` or of another load generator."""

    name: str
    """Name of the folder or file."""
    path: str
    """Where it is."""
    kind: Kind | Literal["load"] | OtherTool
    """What made it."""
    started_at: Time | None
    """UTC."""
    experiment: str | None = None
    """Name of the experiment; `race` for a race."""
    form: str | None = None
    """Form of the experiment."""
    quick: bool = False
    """Made with --quick."""
    status: Status | None = None
    """How far the run is."""
    blocks: Count | None = None
    """Complete blocks, of the point that has fewest."""
    machine: str | None = None
    """Machine id."""


class ContrastSide(Record, frozen=True):
    """A, or B."""

    label: str
    """What was typed."""
    sources: Annotated[list[Source], Meta(min_length=1)]
    """The runs."""
    machine: str | None
    """Machine id: a hash of CPU model, usable CPUs and the kernel's major version; null when
    unknown or more than one.
    """
    revision: str | None = None
    """Commit that was measured, in hexadecimal digits; absent where none is known."""


class SharedArm(Record, frozen=True):
    """An arm of both sides."""

    name: ArmName
    """Name."""
    title: str
    """Name for people."""


class OneSided(Record, frozen=True):
    """Arms of one side alone, those of a sweep with their point."""

    a: list[str]
    """Of A."""
    b: list[str]
    """Of B."""


class Shift(Record, frozen=True, omit_defaults=False):
    """B against A: one measure of one arm at one point."""

    measure: str
    """Name of a measure."""
    point: SweepValue | None
    """Value of the sweep; null without one."""
    arm: ArmName
    """Name of the arm."""
    a: Summary
    """What A reached; its unit is 1 with a control."""
    b: Summary
    """What B reached."""
    a_values: Count
    """Values of A."""
    b_values: Count
    """Values of B."""
    noise_floor: Floor | None
    """Of the A/A intervals of the two runs that whose centre is farther from 1; null when
    unknown.
    """
    ratio: float | None = None
    """B / A: Hodges-Lehmann shift of the logarithms; null below two values on a side. Where the
    sides are `paired`, the centre of the ratios within blocks.
    """
    low: float | None = None
    """Lower end of its 95 % interval: bootstrap of both sides, widened for small samples; where the
    sides are `paired`, of the level of the plan.
    """
    high: float | None = None
    """Upper end."""
    p: float | None = None
    """Exact Mann-Whitney, two-sided; where the sides are `paired`, exact Wilcoxon signed-rank."""
    p_holm: float | None = None
    """Adjusted by Holm over the arms and points of the measure; where the sides are `paired`, as
    in `trilane.comparison/1`.
    """
    p_tost: float | None = None
    """Two one-sided tests against the margin, adjusted likewise."""
    finding: Finding = "undecided"
    """`higher`, `lower`: the interval excludes 1, the adjusted p is at most 0.05 and the ratio lies
    farther from 1 than the centre of the noise floor; `no_difference`: two one-sided tests place it
    within the margin, and the interval lies there; `undecided`: neither, no difference is shown;
    `not_ranked`: the measure counts what other programs do, too; `invalid`: a run of either side is
    invalid, or the two were given different responses.
    """


class Difference(Record, frozen=True):
    """A fact that A and B do not share."""

    scope: Scope
    """What it is a fact of; another workload is another question, refused without --force."""
    name: str
    """Name of the fact."""
    arms: Annotated[list[ArmName], Meta(min_length=1)]
    """Arms that it holds for."""
    a: Fact
    """In A."""
    b: Fact
    """In B."""


class GateRow(Record, frozen=True):
    """A gate at one arm and point."""

    arm: ArmName
    """Name of the arm."""
    point: SweepValue | None
    """Value of the sweep."""
    limit: float
    """Limit of the ratio B / A."""
    p_holm: float | None
    """One-sided Mann-Whitney against the limit, adjusted by Holm over all rows of all gates; null
    when a run is invalid.
    """
    breached: bool
    """The interval lies beyond the limit, p_holm is at most 0.05 and the ratio is farther from the
    limit than the centre of the noise floor is from 1; or the values are too few ever to show it.
    """
    reason: str
    """Why, with the numbers."""


class JudgedGate(Record, frozen=True):
    """One --fail-if."""

    text: str
    """The expression."""
    breached: bool
    """Whether any row is."""
    rows: list[GateRow]
    """Where it looked."""


class Budget(Record, frozen=True):
    """One --budget of `trilane ab`: how far B may be from A."""

    text: str
    """As it was typed."""
    measure: str
    """Name of the measure."""
    above: bool
    """Whether it is breached above the limit; below it otherwise."""
    limit: PositiveAmount
    """Limit of the ratio B / A."""
    ratio: float | None
    """B / A within blocks; null where nothing was measured for it."""
    interval: tuple[float, float] | None
    """Lower and upper end of the ratio's interval; null where nothing was measured."""
    level: Share
    """Level of the interval."""
    p: float | None
    """Exact signed-rank test against the limit, one-sided, of what is claimed; null where nothing
    was measured.
    """
    verdict: BudgetVerdict
    """`met`: the whole interval lies within the limit and `p` is no larger than one side of it;
    `breached`: likewise beyond, and farther than A/A is from 1, or nothing was measured;
    `undecided`: neither.
    """


class Contrast(Record, frozen=True):
    """Two runs set side by side (`trilane compare --format json`), or two revisions (`trilane ab`).

    How each arm of B differs from the same arm of A. The sides of `trilane ab` are one run, whose
    blocks hold both.
    """

    schema: Literal["trilane.contrast/1"]
    """Name and version of this format."""
    command: str
    """What was typed."""
    a: ContrastSide
    """What is compared with."""
    b: ContrastSide
    """What is compared."""
    unit: ValueUnit
    """What counts as one value: a block of the one run, the median of one of several runs, or one
    file of a load generator.
    """
    margin: Margin
    """m: ratios from 1/(1+m) to 1+m count as no difference."""
    control: str | None
    """Arm by whose value in the same block every value was divided."""
    measures: Annotated[list[Shown], Meta(min_length=1)]
    """What was compared, in the order shown."""
    rank: str
    """Name of the measure that the verdict is about."""
    arms: Annotated[list[SharedArm], Meta(min_length=1)]
    """Arms of both sides."""
    only: OneSided
    """Arms of one side alone."""
    ratios: Annotated[list[Shift], Meta(min_length=1)]
    """Every comparison."""
    differences: list[Difference]
    """Facts of the ledgers that A and B do not share."""
    validity: Validity
    """Whether this may be believed; a reason against an arm begins with side and title."""
    gates: list[JudgedGate]
    """The --fail-if expressions."""
    verdict: str
    """The answer in one line: how far it may be believed, unless valid, and its headline."""
    answer: Answer | None = None
    """The answer; absent in results of before."""
    paired: bool = False
    """Whether A and B ran in the same blocks: ratios are then those within blocks; absent where it
    is false.
    """
    plan: BlockPlan | None = None
    """What was to be done, in one run with both sides; absent elsewhere."""
    budgets: list[Budget] = field(default_factory=list)
    """The --budget expressions; absent where there were none."""
    interrupted: bool = False
    """Whether Ctrl-C ended it: complete blocks are reported; absent where it is false."""

    @property
    def said(self) -> Answer:
        """The answer; of a result of before, its sentence."""
        return self.answer or Answer.of_sentence(self.verdict, self.validity)

    @property
    def ranked(self) -> Shown:
        """The measure that the verdict is about."""
        return next(measure for measure in self.measures if measure.name == self.rank)

    @property
    def titles(self) -> dict[str, str]:
        """Names for people, by names of arms."""
        return {arm.name: arm.title for arm in self.arms}
