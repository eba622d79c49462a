"""What `trilane ab` says of a budget where the truth is known: simulated, judged as real ones are.

Base and head run in blocks, one of them twice in each; the budget is about the CPU per request of
the server, or of the client in races that tell no other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from research.comparisons.noise import Noise
from research.comparisons.races import races
from trilane.lab.analysis import looks, spending, stats
from trilane.lab.analysis.stats import Floats
from trilane.lab.model.comparison import Look

# Of the measures of a race (`measures.RACE`): server CPU, and where it is not told that of clients.
_CPU, _CLIENT_CPU = 4, 3
RESAMPLES = 499
BUDGETS = (0.03, 0.05)
"""How far head may be above base."""
PLANTED = 0.08
"""What head costs more than base where it is a regression."""
PLANS = ((10, False), (20, False), (30, True))
"""Most blocks, and whether the run ends once the budget is decided."""
_COLUMNS = (
    *("unchanged passes", "met", "blocks"),
    *(f"+{100 * PLANTED:g} % caught", "blocks", "at the budget: breached"),
)


@dataclass(frozen=True, slots=True)
class Answers:
    """What was said of a budget, as shares of all simulated comparisons, 0 to 1."""

    met: float
    breached: float
    blocks: float
    """Median of the blocks that it took: no share."""

    @property
    def passes(self) -> float:
        """How often the command ends with 0: an undecided budget lets a revision pass."""
        return 1 - self.breached


def simulate(
    noise: Noise,
    *,
    effect: float,
    budget: float,
    plan: Sequence[Look],
    tables: int,
    seed: int,
    column: int | None = None,
) -> Answers:
    """Judge so many comparisons in which head costs `effect` more, at each look of a plan.

    A plan with one look has a fixed number of blocks. `column` is the one of the noise that is
    judged; None: the CPU in that of a race.
    """
    if column is None:
        column = _CPU if noise.measures > _CPU else _CLIENT_CPU
    said: list[bool | None] = []
    taken: list[int] = []
    most = plan[-1].blocks
    drawn = races(noise, 2, most, seed, {column: effect})
    for number, (first, second) in zip(range(tables), drawn, strict=False):
        values = np.where(np.isnan(second), first, (first + second) / 2)[:, :, column]
        repeated = (second - first)[:, :, column]
        met = None
        for look in plan:
            upto = slice(look.blocks)
            ratios, side = values[1, upto] - values[0, upto], looks.side([look], look.blocks)
            # Drawing intervals would take most of the time: only where the test allows an answer.
            if _test(ratios, budget) > side:
                continue
            judged = spending.judge(
                ratios,
                0.0,
                1 + budget,
                seed=number,
                side=side,
                aa=stats.centre(stats.known(repeated[:, upto].ravel())),
                resamples=RESAMPLES,
            )
            met = None if judged is None else judged.met
            if met is not None:
                break
        said.append(met)
        taken.append(look.blocks)
    return Answers(
        met=said.count(True) / tables,
        breached=said.count(False) / tables,
        blocks=float(np.median(taken)),
    )


def _test(ratios: Floats, budget: float) -> float:
    """p of the answer that is the nearer one, "met" or "breached"."""
    beyond = ratios - math.log1p(budget)
    return min(stats.signed_rank(beyond, "less"), stats.signed_rank(beyond, "greater"))


def planned(most: int, *, until_decided: bool) -> list[Look]:
    """The looks of a run of at most `most` blocks; one where the number is fixed."""
    if until_decided:
        return looks.planned(most, budgets=True)
    return [Look(blocks=most, alpha=stats.ALPHA, side=spending.SIDE)]


def report(noises: Sequence[Noise], tables: int, seed: int) -> Iterator[str]:
    """The lines of the table of budgets, as Markdown; without CPU in the noise it has no rows."""
    yield f"| noise | budget | blocks | {' | '.join(_COLUMNS)} |"
    yield f"| --- |{' ---: |' * (2 + len(_COLUMNS))}"
    for noise in noises:
        if noise.measures <= _CLIENT_CPU:
            continue
        for budget in BUDGETS:
            for most, until_decided in PLANS:
                plan = planned(most, until_decided=until_decided)
                none, more, limit = (
                    simulate(
                        noise, effect=effect, budget=budget, plan=plan, tables=tables, seed=seed
                    )
                    for effect in (0.0, PLANTED, budget)
                )
                how = f"≤ {most}" if until_decided else f"{most}"
                cells = (
                    *(_share(none.passes), _share(none.met), f"{none.blocks:g}"),
                    *(_share(more.breached), f"{more.blocks:g}", _share(limit.breached)),
                )
                yield f"| {noise.name} | +{100 * budget:g} % | {how} | {' | '.join(cells)} |"


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"
