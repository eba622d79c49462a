"""What the rule of `family` claims where the truth is known: simulated races, judged as real ones.

    make research ARGS='comparisons [--tables N] [--seed N] [--recorded RUN …]'

prints five tables. The first tells how often a race claims a difference that is not there, in its
whole table and in the measure that decides, and how often it finds one that is, in the measure that
decides and in another; the second tells the same of "no difference". Beside what is found stands
what the test alone finds: the signed-rank test with Holm's correction over the pairs of the
measure, without interval and veto. The third is of races that end once they are decided (`looks`),
the fourth of what `trilane compare` claims about two races of the same arms (`unpaired`), the fifth
of what `trilane ab` says of a budget (`spending`).
`README.md` beside this file has a print and what it means (METHOD §3).

The noise is that of a model, or of the runs of races that were kept, each named as `trilane report`
takes it; `--keep` writes that into a file, which `--recorded` takes as well.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from research.comparisons import budgets, recorded_noise
from research.comparisons.noise import MODELS, Noise, recorded
from research.comparisons.races import races
from research.comparisons.recorded_noise import Recorded
from trilane.lab.analysis import familywise, looks, stats, unpaired
from trilane.lab.analysis.stats import Floats
from trilane.lab.model.comparison import Look
from trilane.lab.storage import journal, store
from trilane.lab.storage.runs import BadRun

Claims: TypeAlias = NDArray[np.bool_]
"""Whether something is claimed, a row for each measure and a column for each pair."""

RESAMPLES = 499
MARGIN = 0.05
# Of the measures of a race (`measures.RACE`).
DECIDING, CPU = 0, 3


@dataclass(frozen=True, slots=True)
class Judged:
    """What one race claims, by the whole rule and by the test alone."""

    different: Claims
    different_alone: Claims
    equal: Claims
    equal_alone: Claims


@dataclass(frozen=True, slots=True)
class Rates:
    """What was claimed, as shares of all simulated races, 0 to 1."""

    false_table: float
    """Any difference that is none, in any measure."""
    false_deciding: float
    """Any difference that is none, in the measure that decides."""
    found: float
    """Of the measures in which the second arm differs, those in which it does from the first."""
    found_alone: float
    """The share `found`, by the test alone."""
    equal_false_table: float
    """Any "no difference" of arms that differ, in any measure."""
    equal_false_deciding: float
    """Any "no difference" of arms that differ, in the measure that decides."""
    equal: float
    """"No difference" of the second arm and the first in the measure that decides."""
    equal_alone: float
    """The share `equal`, by the test alone."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What races claimed that ended once they were decided, as shares of all of them, 0 to 1."""

    blocks: float
    """Median of the blocks that it took: no share."""
    false_table: float
    """Any difference that is none, in any measure, at the look that ended the race."""
    equal_false_table: float
    """Any "no difference" of arms that differ, likewise."""
    decided: float
    """Every pair in the measure that decides, at the last look at the latest."""
    found: float
    """In the measure that decides what there is between the second arm and the first: a difference,
    or none.
    """
    found_fixed: float
    """The same, had the number of blocks been fixed at the most."""


SHAPES = ((3, 10), (3, 7), (2, 10))
"""Arms and blocks."""
UNTIL_DECIDED = ((3, 30),)
"""Arms and most blocks of races that end once they are decided."""


def simulate(
    noise: Noise,
    *,
    arms: int,
    blocks: int,
    tables: int,
    seed: int,
    effects: Mapping[int, float] | None = None,
) -> Rates:
    """Judge so many races in which the second arm lies by `effects` above the others.

    `effects` are shares by the number of the measure: 0.1 is 10 %. In no other measure do any arms
    differ.
    """
    pairs = list(combinations(range(arms), 2))
    counts = np.zeros(8)
    differs = _differing(noise.measures, pairs, effects or {})
    drawn = races(noise, arms, blocks, seed, effects or {})
    for number, (first, second) in zip(range(tables), drawn, strict=False):
        said = judged(first, second, pairs, number)
        false, equal = said.different & ~differs, said.equal & differs
        there = differs[:, 0]
        shares = (
            false.any(),
            false[DECIDING].any(),
            said.different[there, 0].mean() if there.any() else 0.0,
            said.different_alone[there, 0].mean() if there.any() else 0.0,
            equal.any(),
            equal[DECIDING].any(),
            said.equal[DECIDING, 0],
            said.equal_alone[DECIDING, 0],
        )
        counts += np.array(shares, dtype=np.float64)
    return Rates(*(float(share) for share in counts / tables))


def simulate_until_decided(
    noise: Noise,
    *,
    arms: int,
    most: int,
    tables: int,
    seed: int,
    effects: Mapping[int, float] | None = None,
) -> Ended:
    """The same of races that look at their results, as `looks` plans it for `most` blocks."""
    pairs = list(combinations(range(arms), 2))
    planned = looks.planned(most)
    differs = _differing(noise.measures, pairs, effects or {})
    counts, taken = np.zeros(5), []
    drawn = races(noise, arms, most, seed, effects or {})
    for number, (first, second) in zip(range(tables), drawn, strict=False):
        blocks, said = _until_decided(first, second, pairs, number, planned)
        taken.append(blocks)
        fixed = judged(first, second, pairs, number)
        counts += np.array(
            (
                (said.different & ~differs).any(),
                (said.equal & differs).any(),
                (said.different | said.equal)[DECIDING].all(),
                *(
                    (each.different if differs[DECIDING, 0] else each.equal)[DECIDING, 0]
                    for each in (said, fixed)
                ),
            ),
            dtype=np.float64,
        )
    shares = (float(share) for share in counts / tables)
    return Ended(float(np.median(taken)), *shares)


def _until_decided(
    first: Floats,
    second: Floats,
    pairs: Sequence[tuple[int, int]],
    seed: int,
    planned: Sequence[Look],
) -> tuple[int, Judged]:
    """Blocks of the look that decides a race, or else of the last, and what is claimed there."""
    for look in planned:
        upto = slice(look.blocks)
        said = judged(first[:, upto], second[:, upto], pairs, seed, look.alpha)
        if (said.different | said.equal)[DECIDING].all():
            break
    return look.blocks, said


def simulate_compared(
    noise: Noise,
    *,
    arms: int,
    most: int,
    early: tuple[bool, bool],
    tables: int,
    seed: int,
    effects: Mapping[int, float] | None = None,
) -> float:
    """Compare so many pairs of races; the share of pairs with a claim about the deciding measure.

    Each is false, as an arm is the same in both races. `early` says of each race of a pair whether
    it ends once it is decided; else it makes `most` blocks.
    """
    pairs = list(combinations(range(arms), 2))
    planned = looks.planned(most)
    claimed = 0
    drawn = races(noise, arms, most, seed, effects or {})
    for number in range(tables):
        sides = []
        for ends in early:
            first, second = next(drawn)
            blocks = _until_decided(first, second, pairs, number, planned)[0] if ends else most
            values = np.where(np.isnan(second), first, (first + second) / 2)
            sides.append(values[:, :blocks, DECIDING])
        found = unpaired.compare(
            list(zip(*sides, strict=True)),
            floors=[None] * arms,
            margin=MARGIN,
            seed=number,
            valid=[True] * arms,
            resamples=RESAMPLES,
        )
        claimed += any(one is not None and one.finding in {"higher", "lower"} for one in found)
    return claimed / tables


def _differing(
    measures: int, pairs: Sequence[tuple[int, int]], effects: Mapping[int, float]
) -> Claims:
    """What there is to claim: the second arm differs from the others by `effects`."""
    differs = np.zeros((measures, len(pairs)), dtype=np.bool_)
    differs[list(effects)] = [1 in pair for pair in pairs]
    return differs


def judged(
    first: Floats,
    second: Floats,
    pairs: Sequence[tuple[int, int]],
    seed: int,
    alpha: float = stats.ALPHA,
) -> Judged:
    """What is claimed of each measure and pair, by the whole rule and by the test alone.

    The rule is that of `family.judge`, which says what `alpha` is; an interval is only drawn where
    the test is significant, and from fewer resamples, because drawing them would take most of the
    time.
    """
    shape = (first.shape[2], len(pairs))
    values = np.where(np.isnan(second), first, (first + second) / 2)
    repeated = second - first
    ratios = np.column_stack(
        [
            values[b, :, measure] - values[a, :, measure]
            for measure in range(shape[0])
            for a, b in pairs
        ]
    )
    shares = familywise.weights(np.repeat(np.arange(shape[0]) == DECIDING, len(pairs)).tolist())
    alone = np.array([stats.signed_rank(column, "two-sided") for column in ratios.T])
    alone_equal = np.array([stats.equivalence(column, MARGIN) for column in ratios.T])
    different = np.maximum(alone, familywise.different(ratios, shares, seed)).reshape(shape)
    equal = np.maximum(alone_equal, familywise.equal(ratios, shares, MARGIN, seed)).reshape(shape)
    claims, none = np.zeros((2, *shape), dtype=np.bool_)
    for measure, place in np.argwhere((different <= alpha) | (equal <= alpha)).tolist():
        samples = ratios[:, measure * len(pairs) + place]
        interval = stats.bootstrap(samples, stats.hodges_lehmann, seed, RESAMPLES, alpha=alpha)
        aa = stats.centre(stats.known(repeated[list(pairs[place]), :, measure].ravel()))
        if interval is None:
            continue
        # One p for each: at a look they are compared with its alpha, and not with 0.05.
        p, tost = (float(each[measure, place] > alpha) for each in (different, equal))
        finding = stats.judge(stats.exponential(interval), p, tost, aa, MARGIN)
        claims[measure, place] = finding in {"higher", "lower"}
        none[measure, place] = finding == "no_difference"
    return Judged(
        different=claims,
        different_alone=_holm(alone.reshape(shape), alpha),
        equal=none,
        equal_alone=_holm(alone_equal.reshape(shape), alpha),
    )


def _holm(p_values: Floats, alpha: float) -> Claims:
    """What the test claims with Holm's correction over the pairs of each measure."""
    return np.array([stats.holm(row.tolist()) for row in p_values]) <= alpha


_DIFFERENT = (
    *("false: table", "false: deciding", "false: one differs"),
    *("5 %", "alone", "10 %", "alone", "CPU 10 %", "alone"),
)
_EQUAL = ("false: table", "false: deciding", "equal", "alone")
_COMPARED = (
    *("none: fixed", "one decided", "both decided"),
    *("10 %: fixed", "one decided", "both decided"),
)
_UNTIL_DECIDED = (
    *("false: table", "false: one differs", "false: equal"),
    *(name for effect in ("none", "5 %", "10 %") for name in (effect, "blocks", "fixed")),
)


def report(
    noises: Sequence[Noise], shapes: Sequence[tuple[int, int]], tables: int, seed: int
) -> Iterator[str]:
    """The lines of the first two tables that the command prints, as Markdown.

    `shapes` are arms and blocks.
    """
    equal = list(_head(_EQUAL))
    yield from _head(_DIFFERENT)
    for noise in noises:
        for arms, blocks in shapes:
            run = partial(simulate, noise, arms=arms, blocks=blocks, tables=tables, seed=seed)
            measures = range(noise.measures)
            none, five, ten = run(), run(effects={DECIDING: 0.05}), run(effects={DECIDING: 0.1})
            cpu = run(effects={CPU: 0.1}) if CPU in measures else None
            apart = run(effects=dict.fromkeys(measures, MARGIN))
            row = f"| {noise.name} | {arms} | {blocks} |"
            shares = [
                *(none.false_table, none.false_deciding, ten.false_table),
                *(five.found, five.found_alone, ten.found, ten.found_alone),
                *((cpu.found, cpu.found_alone) if cpu else (None, None)),
            ]
            yield f"{row} {_cells(shares)} |"
            shares = [apart.equal_false_table, apart.equal_false_deciding]
            equal.append(f"{row} {_cells([*shares, none.equal, none.equal_alone])} |")
    yield from ("", *equal)


def report_until_decided(
    noises: Sequence[Noise], shapes: Sequence[tuple[int, int]], tables: int, seed: int
) -> Iterator[str]:
    """The lines of the third table; `shapes` are arms and most blocks."""
    yield from _head(_UNTIL_DECIDED)
    for noise in noises:
        for arms, most in shapes:
            run = partial(
                simulate_until_decided, noise, arms=arms, most=most, tables=tables, seed=seed
            )
            effects = [run(), run(effects={DECIDING: 0.05}), run(effects={DECIDING: 0.1})]
            apart = run(effects=dict.fromkeys(range(noise.measures), MARGIN))
            cells = [_cells([effects[0].false_table, effects[2].false_table])]
            cells.append(_cells([apart.equal_false_table]))
            for each in effects:
                cells += [_cells([each.found]), f"{each.blocks:g}", _cells([each.found_fixed])]
            yield f"| {noise.name} | {arms} | {most} | {' | '.join(cells)} |"


def report_compared(
    noises: Sequence[Noise], shapes: Sequence[tuple[int, int]], tables: int, seed: int
) -> Iterator[str]:
    """The lines of the fourth table; `shapes` are arms and most blocks."""
    yield from _head(_COMPARED)
    for noise in noises:
        for arms, most in shapes:
            run = partial(simulate_compared, noise, arms=arms, most=most, tables=tables, seed=seed)
            shares = [
                run(early=early, effects=effects)
                for effects in ({}, {DECIDING: 0.1})
                for early in ((False, False), (True, False), (True, True))
            ]
            yield f"| {noise.name} | {arms} | {most} | {_cells(shares)} |"


def _head(columns: Sequence[str]) -> Iterator[str]:
    yield f"| noise | arms | blocks | {' | '.join(columns)} |"
    yield f"| --- |{' ---: |' * (2 + len(columns))}"


def _cells(shares: Sequence[float | None]) -> str:
    return " | ".join("–" if share is None else f"{100 * share:.1f} %" for share in shares)


def _recordings(names: Sequence[str]) -> list[Recorded]:
    """The noise of runs that were kept, and of files of `--keep`; raises BadRun."""
    found: list[Recorded] = []
    for name in names:
        path = Path(name)
        # A run may be named by one of its files as well.
        if path.is_file() and not (path.parent / journal.MANIFEST).is_file():
            found.append(recorded_noise.of_file(path))
        else:
            found += recorded_noise.of_run(name)
    return found


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    parser = argparse.ArgumentParser(prog="comparisons")
    parser.add_argument("--tables", type=int, default=1000, help="simulated races of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--recorded",
        nargs="*",
        default=[],
        metavar="RUN",
        help="races whose noise is drawn: runs that were kept, or files of --keep",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="write the noise of the first of them, and end"
    )
    asked = parser.parse_args(arguments)
    if asked.tables < 1:
        parser.error(f"--tables {asked.tables}: at least one race is simulated")
    try:
        recordings = _recordings(asked.recorded)
    except BadRun as error:
        parser.error(f"--recorded {error}")
    if asked.keep is not None:
        if not recordings:
            parser.error("--keep needs --recorded RUN")
        store.write_json(asked.keep, recordings[0])
        return 0
    drawn = [Noise(race.title, recorded(race)) for race in recordings] or MODELS
    lines = chain(
        report(drawn, SHAPES, asked.tables, asked.seed),
        [""],
        report_until_decided(drawn, UNTIL_DECIDED, asked.tables, asked.seed),
        [""],
        report_compared(drawn, UNTIL_DECIDED, asked.tables, asked.seed),
        [""],
        budgets.report(drawn, asked.tables, asked.seed),
    )
    for line in lines:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    return 0
