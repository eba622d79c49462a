"""From the runs of all blocks to one `trilane.comparison/1` (docs/comparison.schema.json)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from msgspec import structs

from trilane.lab.analysis import (
    answering,
    bodies,
    family,
    ledger,
    looks,
    spending,
    stats,
    verdict,
)
from trilane.lab.analysis.family import Case
from trilane.lab.analysis.stats import Floats
from trilane.lab.experiment.form import Answer, Expect
from trilane.lab.model.arm import Arm
from trilane.lab.model.comparison import (
    SCHEMA,
    AbsentArm,
    Announced,
    BlockPlan,
    Comparison,
    Floor,
    JudgedArm,
    Look,
    Ranking,
    Ratio,
    Summary,
)
from trilane.lab.model.measures import BY_NAME, RACE, RATE, Beside, Measure
from trilane.lab.model.record import Unit, Verdict
from trilane.lab.model.run import Run
from trilane.lab.model.sample import Sample
from trilane.lab.model.sent_by import SentBy
from trilane.lab.model.validity import Reason, RunValidity, Validity

# More arms than this are compared with the baseline only.
_MAX_RANKED = 4
# Share of all CPUs that other programs may take before a run is suspect.
_OTHERS_BUSY = 0.05


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that was asked and seen: the input of `compare`."""

    question: str
    url: str
    command: str
    arms: Sequence[Arm]
    baseline: str
    samples: Sequence[Sample]
    blocks: int
    seed: int
    margin: float
    duration_s: float | None
    """Measured window of a run; None when `count` ends it."""
    warmup_s: float
    started_at: str
    machine: Mapping[str, Any]
    server: Mapping[str, Any] | None = None
    """Our own server's facts; None when the target is somebody else's."""
    sent_by: Mapping[str, SentBy] = field(default_factory=dict)
    """By arm: the congestion control of its server; arms without a server are not in it."""
    absent: Sequence[tuple[Arm, str]] = field(default_factory=list)
    """Arms that the target does not serve, and why."""
    interrupted: bool = False
    order: Sequence[Sequence[str]] = field(default_factory=list)
    count: int | None = None
    """Requests of a run; None when `duration_s` ends it."""
    measures: Sequence[Measure] = RACE
    rank: Measure = RATE
    """The measure that decides."""
    announced: Sequence[tuple[str, Sequence[tuple[str, str]]]] = field(default_factory=tuple)
    """Questions beside the comparisons with the baseline: the name of each, and its pairs."""
    looks: Sequence[Look] = ()
    """When the results are looked at, to end once they decide; none where `blocks` are fixed."""
    bodies_differ: bool = False
    """Arms that read different bodies are compared all the same: that was asked for."""
    budgets: Sequence[Expect] = ()
    """Gates that are questions of their own (`spending`), which a run until it is decided decides.
    """
    answer: Answer | None = None
    """What of all this answers the question."""


def compare(observed: Observed) -> Comparison:
    """Judge what was observed."""
    table = Table(observed)
    rank, baseline = observed.rank, observed.baseline
    invalid = {arm.name: table.problems(arm.name) for arm in observed.arms}
    judged = table.family(_judged_pairs(observed))
    shown = {measure.name for measure in observed.measures}
    ratios = [row for row in judged if row.to == baseline and row.measure in shown]
    # The same rows: what names the winner and what the table shows never contradict each other.
    ranked = len(observed.arms) <= _MAX_RANKED
    pairs = [row for row in judged if row.measure == rank.name] if ranked else []
    different = table.different()
    in_flight = {arm.in_flight for arm in observed.arms}
    numbers = Comparison(
        schema=SCHEMA,
        question=observed.question,
        url=observed.url,
        command=observed.command,
        started_at=observed.started_at,
        interrupted=observed.interrupted,
        baseline=baseline,
        measures=[measure.shown for measure in observed.measures],
        plan=BlockPlan(
            blocks=observed.blocks,
            blocks_done=table.blocks,
            seed=observed.seed,
            order=[list(block) for block in observed.order],
            duration_s=observed.duration_s,
            count=observed.count,
            warmup_s=observed.warmup_s,
            margin=observed.margin,
            in_flight=in_flight.pop() if len(in_flight) == 1 else None,
            looks=list(observed.looks),
            level=round(1 - table.alpha, 6),
        ),
        arms=[_arm(observed, table, arm, invalid[arm.name]) for arm in observed.arms],
        absent=[
            AbsentArm(name=arm.name, version=arm.version, reason=reason)
            for arm, reason in observed.absent
        ],
        ratios=ratios,
        noise_floor={measure.name: table.floor(measure) for measure in observed.measures},
        ranking=Ranking(
            measure=rank.name,
            winner=verdict.winner([arm.name for arm in observed.arms], pairs, rank.better),
            pairs=pairs,
        ),
        ledger=ledger.build(observed),
        # Families of their own: these questions were asked before anything was measured.
        announced=[
            Announced(name=name, pairs=[r for r in table.family(asked) if r.measure in shown])
            for name, asked in observed.announced
        ],
        validity=Validity.of([]),
        verdict="",
    )
    # What follows from the numbers.
    found = [table.budget(row) for row in observed.budgets]
    # What cannot be judged, because an arm is invalid or tells nothing, more blocks do not mend.
    met = [judged.met for judged in found if judged is not None]
    numbers = structs.replace(numbers, plan=_ended(numbers, met))
    believed = structs.replace(
        numbers, validity=verdict.validity(numbers, different, table.odd_runs())
    )
    answer = answering.answer(believed, different, observed.answer)
    return structs.replace(believed, answer=answer, verdict=answer.line)


def _ended(numbers: Comparison, budgets: Sequence[bool | None]) -> BlockPlan:
    """The plan, with the look that ended it."""
    ended_at = looks.ended(numbers.plan.looks, numbers, budgets)
    plan = structs.replace(numbers.plan, ended_at=ended_at)
    # Of a run that looks the time may have been over before all blocks were made.
    made = plan.blocks_done if plan.looks and not numbers.interrupted else plan.wanted
    return structs.replace(plan, order=plan.order[:made])


def _judged_pairs(observed: Observed) -> list[tuple[str, str]]:
    """The pairs that are judged, as one family with all measures.

    Naming one winner of a few takes every pair, not only those with the baseline. Pairs grow with
    the square of the arms, and with them what a pair must show: so of many arms each is compared
    with the baseline only, and no winner is named.
    """
    baseline = observed.baseline
    if len(observed.arms) > _MAX_RANKED:
        return [(arm.name, baseline) for arm in observed.arms if arm.name != baseline]
    return [
        (second.name, first.name) if second.name != baseline else (first.name, second.name)
        for first, second in combinations(observed.arms, 2)
    ]


class Table:
    """The values of all complete blocks, by arm and slot."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._cells = {(s.arm, s.block, s.slot): s for s in observed.samples}
        # An interrupted block has not met every arm with the same machine: it is left out.
        self._complete = [
            block
            for block in range(observed.blocks)
            if all(
                (arm.name, block, slot) in self._cells
                for arm in observed.arms
                for slot in range(self._planned(arm.name, block))
            )
        ]
        differ = bodies.differ_in_status if observed.bodies_differ else bodies.differ
        self._groups = bodies.groups(observed.arms, self._runs(), differ)
        self.alpha = looks.alpha(observed.looks, self.blocks)
        """Chance of a false claim that the table may take; its intervals have the level 1 less."""

    @property
    def blocks(self) -> int:
        """Complete blocks."""
        return len(self._complete)

    def samples(self, arm: str) -> list[Sample]:
        """The arm's runs in complete blocks."""
        return [s for s in self._observed.samples if s.arm == arm and s.block in self._complete]

    def problems(self, arm: str) -> list[Reason]:
        """Why the arm must not be ranked; empty when it may."""
        return _reasons(self.samples(arm), "invalid")

    def comparable(self, arm: str, other: str) -> bool:
        """Whether both may be ranked, and were given the same responses."""
        together = any({arm, other} <= {one.name for one in group} for group in self._groups)
        return together and not self.problems(arm) and not self.problems(other)

    def different(self) -> Reason | None:
        """Which arms were given different responses; None where none are known to have been."""
        return bodies.reason(self._groups, self._runs())

    def odd_runs(self) -> list[Reason]:
        """Which runs were given another body than most others of their arms."""
        observed = self._observed
        alone = [[arm] for arm in observed.arms]
        return bodies.odd_runs(alone if observed.bodies_differ else self._groups, self._runs())

    def values(self, arm: str, measure: Measure) -> Floats:
        """One value per block; two runs of one block are joined by their geometric mean."""
        first = self._slot(arm, 0, measure)
        second = self._slot(arm, 1, measure)
        return np.where(np.isnan(second), first, np.sqrt(first * second))

    def repeated(self, arms: Sequence[str], measure: Measure) -> Floats:
        """Log-ratios of the second to the first run of these arms, of the blocks with both."""
        slots = [[self._slot(arm, slot, measure) for slot in (1, 0)] for arm in arms]
        return stats.known(np.concatenate([stats.log_ratios(*pair) for pair in slots]))

    def floor(self, measure: Measure) -> Floor | None:
        """Ratio of a second run to the first of the same arm and block (A/A), over all arms.

        None where fewer than two blocks have both.
        """
        repeated = self.repeated([arm.name for arm in self._observed.arms], measure)
        interval = stats.bootstrap(
            repeated, stats.hodges_lehmann, self._observed.seed, alpha=self.alpha
        )
        if interval is None:
            return None
        ratios = stats.exponential(interval)
        return Floor(ratio=ratios.centre, low=ratios.low, high=ratios.high)

    def family(self, pairs: Sequence[tuple[str, str]]) -> list[Ratio]:
        """One row per measure and (arm, other) pair, measure by measure, adjusted together.

        A measure that is never ranked claims nothing: its rows are a family of their own.
        """
        observed = self._observed
        measures = list(dict.fromkeys([*observed.measures, observed.rank]))
        keys = [(measure, arm, to) for measure in measures for arm, to in pairs]
        rows: dict[tuple[Measure, str, str], Ratio] = {}
        alone = all(arm.is_alone for arm in observed.arms)
        for shared in (False, True):
            together = [key for key in keys if (key[0].shared and not alone) is shared]
            judged = family.judge(
                [self._case(*key) for key in together],
                margin=observed.margin,
                seed=observed.seed,
                alpha=self.alpha,
            )
            rows.update(zip(together, judged, strict=True))
        return [
            structs.replace(rows[key], finding=key[0].ranked(rows[key].finding, alone=alone))
            for key in keys
        ]

    def budget(self, row: Expect) -> spending.Judged | None:
        """What the blocks say of a gate; None where an arm is not here, is invalid or untold."""
        names = {arm.name for arm in self._observed.arms}
        if not {row.arm, row.to} <= names or not self.comparable(row.arm, row.to):
            return None
        measure = BY_NAME[row.measure]
        return spending.judge(
            stats.log_ratios(self.values(row.arm, measure), self.values(row.to, measure)),
            row.low,
            row.high,
            seed=self._observed.seed,
            side=looks.side(self._observed.looks, self.blocks),
            aa=stats.centre(self.repeated((row.arm, row.to), measure)),
        )

    def _case(self, measure: Measure, arm: str, to: str) -> Case:
        return Case(
            Ratio(measure=measure.name, arm=arm, to=to),
            stats.log_ratios(self.values(arm, measure), self.values(to, measure)),
            repeated=self.repeated((arm, to), measure),
            valid=self.comparable(arm, to),
            decides=measure is self._observed.rank,
        )

    def _planned(self, arm: str, block: int) -> int:
        """How many runs of the arm the block was to have."""
        order = self._observed.order
        return max(1, list(order[block]).count(arm)) if block < len(order) else 1

    def _runs(self) -> dict[str, list[Run]]:
        return {
            arm.name: [s.run for s in self.samples(arm.name) if s.run is not None]
            for arm in self._observed.arms
        }

    def _slot(self, arm: str, slot: int, measure: Measure) -> Floats:
        return np.array(
            [
                value(cell, measure) if (cell := self._cells.get((arm, block, slot))) else np.nan
                for block in self._complete
            ],
            dtype=np.float64,
        )


def value(sample: Sample, measure: Measure) -> float:
    """The measure in a run; NaN where unknown."""
    read = (
        None
        if sample.run is None
        else measure.read(sample.run, Beside(sample.server, sample.network))
    )
    return float("nan") if read is None else read


def validity(sample: Sample) -> RunValidity:
    """Whether a run may be believed, by itself and by what else the machine did meanwhile."""
    if sample.run is None:
        text = sample.problem or "the run left no result"
        return RunValidity.of([Reason(code="no_result", verdict="invalid", text=text)])
    reasons = sample.run.validity.reasons
    server = sample.server
    if server is not None:
        # The lab knows which programs are its own: what the engine says of others counts those too.
        reasons = [reason for reason in reasons if reason.code != "others_busy"]
    if server is not None and server.others_busy > _OTHERS_BUSY:
        share = 100 * server.others_busy
        busy = Reason(
            code="others_busy",
            verdict="suspect",
            numbers={"busy_percent": share},
            text=f"other programs took {share:.0f} % of this machine's CPU",
            advice="stop other programs, or use a machine of your own",
        )
        reasons = [*reasons, busy]
    return RunValidity.of(reasons, sample.run.validity.bound)


def _reasons(samples: Sequence[Sample], of: Verdict) -> list[Reason]:
    """Why runs of an arm are not to be believed at all, or with care; empty where none is such."""
    judged = [validity(sample) for sample in samples]
    told = [reason for each in judged if each.verdict == of for reason in each.reasons]
    return verdict.merged(told, len(samples))


def _arm(observed: Observed, table: Table, arm: Arm, problems: list[Reason]) -> JudgedArm:
    samples = table.samples(arm.name)
    # A library is not replaced between runs, but could be.
    versions = {s.run.client.library_version for s in samples if s.run and s.run.client}
    return JudgedArm(
        **structs.asdict(arm),
        library_version=", ".join(sorted(filter(None, versions))) or None,
        samples=samples,
        summary={
            measure.name: summary(
                stats.known(table.values(arm.name, measure)),
                measure.unit,
                observed.seed,
                table.alpha,
            )
            for measure in observed.measures
        },
        validity=Validity.of(problems or _reasons(samples, "suspect")),
        load=verdict.bound([s for s in samples if s.run is not None]),
    )


def summary(values: Floats, unit: Unit, seed: int, alpha: float = stats.ALPHA) -> Summary:
    """The median of values that are known, with its interval of the level 1 - `alpha`."""
    interval = stats.bootstrap(values, stats.median, seed, alpha=alpha)
    return Summary(
        median=float(np.median(values)) if len(values) else None,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        unit=unit,
    )
