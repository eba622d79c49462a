"""One comparison, `trilane.comparison/1` (docs/comparison.schema.json)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, structs

from trilane.lab.model.answer import Answer
from trilane.lab.model.arm import Arm, ArmName
from trilane.lab.model.record import Amount, Count, Positive, Record, Share, Time, Unit, Version
from trilane.lab.model.sample import Sample
from trilane.lab.model.validity import Validity

SCHEMA: Literal["trilane.comparison/1"] = "trilane.comparison/1"
Better: TypeAlias = Literal["higher", "lower"]
Finding: TypeAlias = Literal[
    "higher", "lower", "no_difference", "undecided", "not_ranked", "invalid"
]
LoadBound: TypeAlias = Literal["client", "server", "client+server", "waiting", "elsewhere"]
Margin: TypeAlias = Annotated[float, Meta(gt=0, lt=1)]
Fact: TypeAlias = str | int | float | bool | None


_TURNED: dict[Finding, Finding] = {"higher": "lower", "lower": "higher"}


def _inverse(ratio: float | None) -> float | None:
    return None if ratio is None else 1 / ratio


class Shown(Record, frozen=True):
    """A measure as a result lists it."""

    name: str
    """Key of `summary` and `noise_floor`, and the `measure` of ratios."""
    label: str
    """Name for people."""
    unit: Unit
    """Unit of its values; 1 is a count."""
    better: Better
    """Which direction is better."""


class Look(Record, frozen=True):
    """A look at the results of a run that ends once it is decided, as planned beforehand."""

    blocks: Positive
    """After so many blocks."""
    alpha: Share
    """Chance of a false claim that the table of this look may take; all looks together take at
    most 0.05.
    """
    side: Share | None = None
    """Of a run that ends once its budgets are decided: chance of a wrong answer about a budget at
    this look, each end of a budget's interval by itself; all looks together take at most 0.025.
    Absent in other runs.
    """


class BlockPlan(Record, frozen=True):
    """What was to be done."""

    blocks: Positive
    """Blocks planned; with `looks` at most so many."""
    blocks_done: Count
    """Complete blocks: what the statistics rest on."""
    seed: Count
    """Seed of the order and of the bootstrap."""
    order: list[list[ArmName]]
    """Arms as they ran, block by block; an arm that ran twice stands twice. Blocks that were
    not made, since `ended_at` made them needless or the time was over, are not in it.
    """
    duration_s: float | None
    """Measured window of a run, seconds; null when `count` ends it."""
    count: Positive | None
    """Requests of a run; null when `duration_s` ends it."""
    warmup_s: Amount
    """Warm-up of a run, seconds."""
    margin: Margin
    """m: ratios from 1/(1+m) to 1+m count as no difference."""
    in_flight: Positive | None
    """Requests in flight in every arm; null when they differ."""
    looks: list[Look] = msgspec.field(default_factory=list)
    """When a run that ends once it is decided looks at its results; absent where the number of
    blocks was fixed.
    """
    ended_at: Positive | None = None
    """Number of the look, from 1, at which the run ended because no more blocks could decide
    anything in the measure that decides; absent where none ended it.
    """
    level: Share = 0.95
    """Level of all intervals of the comparison: 0.95, and with `looks` 1 - `alpha` of the look that
    they were judged at; absent in results of before, where it is 0.95.
    """

    @property
    def wanted(self) -> int:
        """Blocks that were to be made, those after `ended_at` left out."""
        return self.blocks if self.ended_at is None else self.looks[self.ended_at - 1].blocks


class Summary(Record, frozen=True):
    """One measure of one arm."""

    median: float | None
    """Median over blocks; two runs of one block are joined by their geometric mean."""
    low: float | None
    """Lower end of its bootstrap interval, whose level is that of the plan."""
    high: float | None
    """Upper end."""
    unit: Unit
    """Unit of the three."""


class ArmLoad(Record, frozen=True):
    """How busy both ends were."""

    bound: LoadBound
    """What set the rate: saturated ends; `waiting`: neither of them; `elsewhere`: not the client,
    the server's CPU is unknown.
    """
    client_busy: Amount | None
    """Busiest client thread, median over runs, 0 to 1."""
    server_busy: Share | None
    """Server likewise; null when it is not ours."""


class JudgedArm(Arm, frozen=True, kw_only=True, omit_defaults=False):
    """An arm that ran, and what it reached."""

    library_version: str | None
    """Version of the client library."""
    samples: list[Sample]
    """Its runs in complete blocks, as they were placed."""
    summary: dict[str, Summary]
    """What the arm reached, by name of the measure."""
    validity: Validity
    """Whether this may be believed; each reason is told once, with how many runs gave it."""
    load: ArmLoad
    """How busy both ends were."""


class AbsentArm(Record, frozen=True):
    """An arm that the target does not serve."""

    name: ArmName
    """Name of the arm."""
    version: Version
    """HTTP version."""
    reason: str
    """Why it did not run."""


class Pair(Record, frozen=True):
    """Two arms, and the measure on which they are compared."""

    measure: str
    """What was compared."""
    arm: ArmName
    """The arm that is divided."""
    to: ArmName
    """The arm it is divided by."""


class Ratio(Pair, frozen=True, omit_defaults=False):
    """Two arms compared on one measure, within blocks."""

    ratio: float | None = None
    """Hodges-Lehmann centre of the ratios within blocks; null below two blocks with both values."""
    low: float | None = None
    """Lower end of its interval, whose level is that of the plan."""
    high: float | None = None
    """Upper end of the interval."""
    p: float | None = None
    """Exact Wilcoxon signed-rank, two-sided, of this comparison and these blocks alone."""
    p_holm: float | None = None
    """Adjusted over the family: all ranked measures of every pair of up to four arms, else of each
    arm with the baseline; by flips of the signs of whole blocks, step-down (Westfall and Young),
    four fifths of the chance of a false claim being the deciding measure's. Never below `p`. At one
    of several looks multiplied by 0.05 / `alpha` of the look, at most 1. The key has the name of
    Holm's correction, which it was before.
    """
    p_tost: float | None = None
    """Two one-sided tests against the margin, adjusted likewise over both of all comparisons, and
    for several looks.
    """
    finding: Finding = "undecided"
    """`higher`, `lower`: the interval excludes 1, the adjusted p is at most 0.05 and the ratio lies
    farther from 1 than `aa`; `no_difference`: two one-sided tests place the ratio within the
    margin, and the interval lies there; `undecided`: neither; `not_ranked`: the measure counts what
    other programs do, too; `invalid`: a run of either arm is invalid.
    """
    blocks: Count = 0
    """Blocks with both values."""
    aa: float | None = None
    """Centre of the ratios of these two arms to themselves, second run to first in a block; null
    below four such blocks.
    """
    vetoed: bool = False
    """Test and interval show a difference, but the ratio is no farther from 1 than `aa`:
    undecided.
    """
    more_blocks: Positive | None = None
    """About how many more blocks would show a difference or that there is none, were they like
    these; null unless undecided for want of blocks.
    """

    def turned(self) -> Ratio:
        """The second arm compared with the first."""
        return structs.replace(
            self,
            arm=self.to,
            to=self.arm,
            ratio=_inverse(self.ratio),
            low=_inverse(self.high),
            high=_inverse(self.low),
            finding=_TURNED.get(self.finding, self.finding),
        )


class Floor(Record, frozen=True):
    """Ratio of the second run of an arm to its first in the same block (A/A)."""

    ratio: float
    """Centre."""
    low: float
    """Lower end of its interval, whose level is that of the plan."""
    high: float
    """Upper end."""


class Ranking(Record, frozen=True):
    """Which arm won."""

    measure: str
    """What the winner is judged by."""
    winner: ArmName | None
    """The arm that beats every other one; null when none does."""
    pairs: list[Ratio]
    """Every pair of up to four arms, as they were judged for `ratios`."""


class Announced(Record, frozen=True):
    """A question that was asked before anything was measured; its answers are one family."""

    name: str
    """A comparison by factor, such as `version within client`, or `arm against arm`."""
    pairs: list[Ratio]
    """Its pairs on every measure, adjusted together and with nothing else."""


BUILD = "client build profile"
"""Name of the fact by which build of ours the requests were made."""


class LedgerRow(Record, frozen=True):
    """One fact."""

    name: str
    """What it is a fact of."""
    equal: bool
    """Whether it is the same in every arm."""
    values: dict[str, Fact]
    """By arm."""


class Ledger(Record, frozen=True):
    """Facts that must be equal, or be printed because they are not."""

    rows: list[LedgerRow]
    """One for each fact of the arms."""
    machine: dict[str, Any]
    """CPU, kernel, interpreter, pinning."""
    server: dict[str, Any]
    """Facts about the server that we started; with several servers, of each by its name."""


class Comparison(Record, frozen=True):
    """The result of a comparison.

    Arms that ran in interleaved blocks, what each reached, and what may be claimed.
    """

    schema: Literal["trilane.comparison/1"]
    """Name and version of this format."""
    question: str
    """What was asked."""
    url: str
    """Target."""
    command: str
    """What to type to do it again, order and resampling included."""
    started_at: Time
    """UTC."""
    interrupted: bool
    """Ctrl-C ended it; complete blocks are reported."""
    baseline: ArmName
    """The arm that ratios refer to."""
    measures: Annotated[list[Shown], Meta(min_length=1)]
    """What was compared, in the order shown."""
    plan: BlockPlan
    """What was to be done."""
    arms: Annotated[list[JudgedArm], Meta(min_length=1)]
    """The arms that ran."""
    absent: list[AbsentArm]
    """Arms that the target does not serve."""
    ratios: list[Ratio]
    """Every arm against the baseline, on every measure."""
    noise_floor: dict[str, Floor | None]
    """What arms differ from themselves, by name of the measure, over all arms; null when unknown.
    It forbids no claim, `aa` of a ratio does.
    """
    ranking: Ranking
    """Which arm won."""
    ledger: Ledger
    """Facts that must be equal, or be printed because they are not."""
    validity: Validity
    """Whether this may be believed; a reason against an arm begins with its title."""
    verdict: str
    """The answer in one line: how far it may be believed, unless valid, and its headline."""
    announced: list[Announced] = msgspec.field(default_factory=list)
    """What was asked for beside the comparisons with the baseline; absent where nothing was."""
    answer: Answer | None = None
    """The answer; absent in results of before."""

    @property
    def said(self) -> Answer:
        """The answer; of a result of before, its sentence."""
        return self.answer or Answer.of_sentence(self.verdict, self.validity)

    def with_arms(self, change: Callable[[JudgedArm], JudgedArm]) -> Comparison:
        """The comparison with each arm changed."""
        return structs.replace(self, arms=[change(arm) for arm in self.arms])

    def with_samples(self, change: Callable[[Sample], Sample]) -> Comparison:
        """The comparison with each sample changed."""
        return self.with_arms(
            lambda arm: structs.replace(arm, samples=[change(sample) for sample in arm.samples])
        )
