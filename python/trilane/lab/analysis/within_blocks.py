"""Two arms of one run as a `trilane.contrast/1`: what `trilane ab` tells as JSON.

`compare_runs` sets two runs side by side that met the machine at different times. Here both sides
ran in the same blocks: the numbers are those of the run's own comparison, and nothing is judged
anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trilane.lab.model.comparison import Comparison, JudgedArm, Ratio
from trilane.lab.model.contrast import (
    SCHEMA,
    Budget,
    BudgetVerdict,
    Contrast,
    ContrastSide,
    OneSided,
    SharedArm,
    Shift,
    Source,
)
from trilane.lab.model.documents import machine_id
from trilane.lab.model.lab import ExpectedRatio, LabResult
from trilane.lab.model.measures import BY_NAME

ARM: Final = "program"
"""What the one arm is called that both sides have."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Which arm is A, which is B, and what is known of them."""

    a: str
    b: str
    labels: Mapping[str, str]
    """What was typed, by arm."""
    revisions: Mapping[str, str]
    """Commits, by arm."""
    budgets: Sequence[str]
    """What was typed for each gate of the result, in their order."""


def contrast(result: LabResult, folder: Path, sides: Sides) -> Contrast:
    """B against A; `folder` is that of the run.

    Raises:
        ValueError: the result has more than one point, or not these two arms.
    """
    (point,) = result.points
    made = point.comparison
    arms = {arm.name: arm for arm in made.arms}
    if not {sides.a, sides.b} <= arms.keys():
        raise ValueError(f"the run has no arms {sides.a} and {sides.b}, only {', '.join(arms)}")
    source = Source(
        name=folder.name,
        path=str(folder),
        kind="lab",
        started_at=result.started_at,
        experiment=result.experiment.name,
        form=result.experiment.form,
        status="interrupted" if result.interrupted else "complete",
        blocks=made.plan.blocks_done,
        machine=machine_id(result.machine),
    )
    return Contrast(
        schema=SCHEMA,
        command=result.command,
        a=_side(sides, sides.a, source),
        b=_side(sides, sides.b, source),
        unit="block",
        margin=made.plan.margin,
        control=None,
        measures=made.measures,
        rank=made.ranking.measure,
        arms=[SharedArm(name=ARM, title=result.experiment.title)],
        only=OneSided(a=[], b=[]),
        ratios=[
            _shift(made, row, arms[sides.a], arms[sides.b])
            for row in made.ratios
            if (row.arm, row.to) == (sides.b, sides.a)
        ],
        differences=[],
        validity=result.validity,
        gates=[],
        verdict=result.verdict,
        answer=result.answer,
        paired=True,
        plan=made.plan,
        budgets=[
            _budget(text, row, sides, made)
            for text, row in zip(sides.budgets, result.expect, strict=True)
        ],
        interrupted=result.interrupted,
    )


def _side(sides: Sides, name: str, source: Source) -> ContrastSide:
    return ContrastSide(
        label=sides.labels[name],
        sources=[source],
        machine=source.machine,
        revision=sides.revisions[name],
    )


def _shift(made: Comparison, row: Ratio, a: JudgedArm, b: JudgedArm) -> Shift:
    return Shift(
        measure=row.measure,
        point=None,
        arm=ARM,
        a=a.summary[row.measure],
        b=b.summary[row.measure],
        a_values=row.blocks,
        b_values=row.blocks,
        noise_floor=made.noise_floor.get(row.measure),
        ratio=row.ratio,
        low=row.low,
        high=row.high,
        p=row.p,
        p_holm=row.p_holm,
        p_tost=row.p_tost,
        finding=row.finding,
    )


def _budget(text: str, kept: ExpectedRatio, sides: Sides, made: Comparison) -> Budget:
    """The gate as it was typed."""
    row = kept.against(sides.a)
    verdict: BudgetVerdict = "breached" if row.breached else "met" if row.met else "undecided"
    return Budget(
        text=text,
        measure=row.measure,
        above=BY_NAME[row.measure].better == "lower",
        limit=row.limit,
        ratio=row.ratio,
        interval=row.interval,
        level=made.plan.level if row.level is None else row.level,
        p=row.p,
        verdict=verdict,
    )
