"""Looks at the results of a run that ends once it is decided, and what each of them may claim.

Looking several times, and stopping where the result pleases, claims too much. So the looks, and
the share of the 5 % of each, are fixed by the most blocks, before anything is measured: at a look
the whole table is judged as if 5 % were the share of this look. What is claimed in the end was
claimed at one of the looks, so that whole tables hold a false claim in at most the sum of the
shares, whatever the noise, the correlation of the looks, and the reason to stop (METHOD §3).

The looks lie a factor of `GROWTH` apart. A later one gets more of the 5 %, in proportion to its
blocks: where all looks are needed little is lost, and the first still sees what is large.

A run with budgets may end once these are decided instead. They are questions of their own, and what
each look may spend on them is planned by `spending`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from trilane.lab.analysis import familywise, spending
from trilane.lab.analysis.stats import ALPHA
from trilane.lab.model.comparison import Comparison, Finding, Look, Ratio

FIRST = 10
"""Blocks at the first look."""
GROWTH = 1.4
# The last look stands for one that would come so shortly before it.
_LEAST_GROWTH = 1.2
# Shares are rounded down to so much, for numbers that can be read.
_STEP = 1e-4
_DECISIVE: frozenset[Finding] = frozenset({"higher", "lower", "no_difference"})
_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth"),
    *("sixth", "seventh", "eighth", "ninth", "tenth"),
)
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def planned(most: int, *, budgets: bool = False) -> list[Look]:
    """The looks of a run of at most `most` blocks, the last of them at `most`.

    With `budgets` it ends once these are decided, and each look has a share for them besides.
    """
    if not budgets:
        places = _places(most, familywise.smallest_p, _shares)
        return [
            Look(blocks=blocks, alpha=share)
            for blocks, share in zip(places, _shares(places), strict=True)
        ]
    places = _places(most, spending.smallest_p, spending.levels)
    return [
        Look(blocks=blocks, alpha=share, side=round(side, 6))
        for blocks, share, side in zip(
            places, _shares(places), spending.levels(places), strict=True
        )
    ]


def _places(
    most: int,
    smallest_p: Callable[[int], float],
    shares: Callable[[Sequence[int]], list[float]],
) -> list[int]:
    """After how many blocks the looks are."""
    places: list[int] = []
    place = float(FIRST)
    while round(place) * _LEAST_GROWTH < most:
        places.append(round(place))
        place *= GROWTH
    places.append(most)
    # A look that could claim nothing, even where all blocks agree, would waste its share.
    while len(places) > 1 and smallest_p(places[0]) > shares(places)[0]:
        del places[0]
    return places


def _shares(places: Sequence[int]) -> list[float]:
    whole = sum(places)
    # What rounding takes stays unused: the shares never add up to more than 5 %.
    return [round(math.floor(ALPHA * each / whole / _STEP + 1e-9) * _STEP, 6) for each in places]


def reached(looks: Sequence[Look], blocks: int) -> int | None:
    """Number, from 0, of the look that results of so many blocks are judged at; None without looks.

    Between two looks, where Ctrl-C ended the run, it is the one that was to come.
    """
    return next((number for number, look in enumerate(looks) if blocks <= look.blocks), None)


def alpha(looks: Sequence[Look], blocks: int) -> float:
    """The chance of a false claim that a table of so many blocks may take."""
    number = reached(looks, blocks)
    return ALPHA if number is None else looks[number].alpha


def side(looks: Sequence[Look], blocks: int) -> float:
    """The chance of a wrong answer about a budget that so many blocks may take."""
    number = reached(looks, blocks)
    told = None if number is None else looks[number].side
    return spending.SIDE if told is None else told


def ended(
    looks: Sequence[Look], made: Comparison, budgets: Sequence[bool | None] = ()
) -> int | None:
    """Number, from 1, of the look at which a run with these results ends; None where it goes on.

    It ends where no comparison of the measure that decides is left that more blocks could decide;
    a run that decides about budgets where none of `budgets` is None: neither met nor breached.
    """
    blocks = made.plan.blocks_done
    number = reached(looks, blocks)
    if number is None or looks[number].blocks != blocks:
        return None
    open_ = _open(made) if looks[number].side is None else None in budgets
    return None if open_ else number + 1


def _open(made: Comparison) -> bool:
    """Whether more blocks could decide a comparison that is undecided.

    Not where a run of an arm is invalid, which later ones do not mend, nor where the runs do not
    tell the measure.
    """
    return any(row.finding == "undecided" and row.ratio is not None for row in _deciding(made))


def _deciding(made: Comparison) -> list[Ratio]:
    """The comparisons of the measure that decides."""
    announced = [row for question in made.announced for row in question.pairs]
    rows = [*made.ranking.pairs, *made.ratios, *announced]
    return [row for row in rows if row.measure == made.ranking.measure]


def percent(level: float) -> str:
    """The level of an interval for people: 95 %, or 99.3 %."""
    return f"{100 * level:.3g} %"


def announced(looks: Sequence[Look]) -> str:
    """What is planned, for people, before anything is measured."""
    *before, last = (look.blocks for look in looks)
    places = f"{', '.join(map(str, before))} and at most {last}" if before else f"at most {last}"
    what = "it is" if looks[0].side is None else "its budgets are"
    return f"ends once {what} decided: looks after {places} blocks"


def said(made: Comparison) -> str | None:
    """How a run that looks at its results ended, for people; None for one with a fixed plan."""
    plan = made.plan
    number = reached(plan.looks, plan.blocks_done)
    if number is None:
        return None
    count = len(plan.looks)
    nth = f"the {_word(_ORDINALS, number + 1)} of {_word(_NUMBERS, count)} looks"
    where = f"{nth if count > 1 else 'the only look'}, after {plan.blocks_done} of at most "
    where += f"{plan.blocks} blocks"
    side = plan.looks[number].side
    before = plan.blocks_done < plan.looks[number].blocks
    if plan.ended_at is None:
        what = "not decided" if side is None else "not every budget is decided"
        how = f"{what} {'before' if before else 'at'} {where}"
    elif side is not None:
        how = f"ended at {where}: more of them decide nothing about a budget"
    elif all(row.finding in _DECISIVE for row in _deciding(made)):
        how = f"decided at {where}"
    else:
        how = f"ended at {where}, as more of them cannot decide what is open"
    again = {sample.block for arm in made.arms for sample in arm.samples if sample.again}
    redone = f"{len(again)} of {plan.blocks_done} blocks were disturbed and made again"
    levels = f"intervals {percent(plan.level)}"
    levels += "" if side is None else f", of budgets {percent(1 - 2 * side)}"
    return "; ".join([how, *([redone] if again else []), levels])


def _word(words: Sequence[str], number: int) -> str:
    return words[number - 1] if number <= len(words) else str(number)
