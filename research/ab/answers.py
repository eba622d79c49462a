"""The answers of `proof`: kept, counted, and set beside simulated ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
import numpy as np
import scipy

from research.comparisons import budgets
from research.comparisons.noise import Noise
from trilane.lab.analysis import stats

SCHEMA: Final = "trilane.ab-proof/1"
PASSES, CAUGHT = 0.98, 0.90
"""Shares that are promised."""
Kind: TypeAlias = Literal["unchanged", "costlier"]
UNCHANGED: Final = "unchanged"
COSTLIER: Final = "costlier"
_SIMULATED: Final = 400


class BadAnswers(ValueError):
    """The file holds no answers; the message says what to do."""


class Plan(msgspec.Struct, frozen=True):
    """The first line of the answers: what all of them have in common."""

    schema: Literal["trilane.ab-proof/1"]
    started_at: str
    budget: float
    planted: float
    blocks: int
    """At most so many."""
    window_s: float
    turns: int
    """Of the loop of the first revision."""
    costlier_turns: int
    loop: float
    """The part of the cost of a request that is the loop's, as it was measured."""


class Answer(msgspec.Struct, frozen=True):
    """One comparison."""

    kind: Kind
    met: bool | None
    """Whether the budget was met; None: undecided, or invalid where `ratio` is None as well."""
    ratio: float | None
    blocks: int
    took_s: float
    noise: list[float]
    """What the logarithms of CPU per request differ by, but for arm and block: one for each run."""

    @property
    def right(self) -> bool:
        """Whether the command would have ended as it should."""
        passes = self.met is not False and self.ratio is not None
        return passes if self.kind == UNCHANGED else self.met is False


def read(file: Path) -> tuple[Plan, list[Answer]] | None:
    """The plan and the answers that are there; None before there is a plan.

    Raises:
        BadAnswers: the file holds something else.
    """
    try:
        lines = file.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return None
    # A line that was being written when the machine stopped has no end.
    whole = [line for line in lines if line.endswith(b"\n")]
    if not whole:
        return None
    try:
        plan = msgspec.json.decode(whole[0], type=Plan)
        return plan, [msgspec.json.decode(line, type=Answer) for line in whole[1:]]
    except ValueError as error:
        raise BadAnswers(f"{file} holds no answers: {error}; begin anew with --new") from error


def report(plan: Plan, answers: Sequence[Answer]) -> list[str]:
    """What was found, and the same simulated, as lines."""
    noise = np.concatenate([np.array(answer.noise) for answer in answers])
    simulated = _simulated(plan, noise) if len(noise) else (None, None)
    asked = f"cpu {percent(plan.budget)}, runs of {plan.window_s:g} s, at most {plan.blocks} blocks"
    lines = [f"{asked}, until it is decided"]
    if len(noise):
        spread = 100 * float(noise.std())
        lines.append(f"CPU per request differs from run to run by {spread:.1f} % (one deviation)")
    kinds: tuple[tuple[Kind, str], ...] = (
        (UNCHANGED, "an unchanged revision passes"),
        (COSTLIER, f"{percent(plan.planted)} CPU is caught"),
    )
    for (kind, what), simulation in zip(kinds, simulated, strict=True):
        those = [answer for answer in answers if answer.kind == kind]
        if not those:
            continue
        right = sum(answer.right for answer in those)
        low, high = _interval(right, len(those))
        beside = "" if simulation is None else f"; simulated {100 * simulation:.1f} %"
        blocks = np.median([answer.blocks for answer in those])
        lines.append(
            f"{what}: {right} of {len(those)} times (95 % interval {100 * low:.1f}–{100 * high:.1f}"
            f" %{beside}), after {blocks:g} blocks in the median"
        )
        lines.append(_detail(those))
    return lines


def _detail(those: Sequence[Answer]) -> str:
    said = [("met", True), ("breached", False), ("undecided", None)]
    valid = [answer for answer in those if answer.ratio is not None]
    counts = [f"{sum(answer.met is met for answer in valid)} {name}" for name, met in said]
    invalid = len(those) - len(valid)
    counts += [f"{invalid} invalid"] if invalid else []
    logs = np.log([answer.ratio for answer in valid if answer.ratio])
    interval = stats.bootstrap(logs, stats.hodges_lehmann, 1)
    found = ""
    if interval is not None:
        ratio = stats.exponential(interval)
        ends = f"{percent(ratio.low - 1)} to {percent(ratio.high - 1)}"
        found = f"; measured in the middle: {percent(ratio.centre - 1)} (95 % interval {ends})"
    return f"  {', '.join(counts)}{found}"


def holds(answers: Sequence[Answer]) -> bool:
    """Whether both shares are at least what is promised."""
    shares = {
        kind: [answer.right for answer in answers if answer.kind == kind]
        for kind in (UNCHANGED, COSTLIER)
    }
    return all(
        bool(right) and sum(right) / len(right) >= least
        for right, least in zip(shares.values(), (PASSES, CAUGHT), strict=True)
    )


def _simulated(plan: Plan, noise: stats.Floats) -> tuple[float, float]:
    """The two shares in simulated comparisons, whose runs have the noise of the real ones."""
    drawn = Noise(
        "recorded", lambda chance, runs: noise[chance.integers(0, len(noise), runs)][:, None]
    )
    looks = budgets.planned(plan.blocks, until_decided=True)
    none, more = (
        budgets.simulate(
            drawn,
            effect=effect,
            budget=plan.budget,
            plan=looks,
            tables=_SIMULATED,
            seed=1,
            column=0,
        )
        for effect in (0.0, plan.planted)
    )
    return none.passes, more.breached


def _interval(hits: int, count: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a share."""
    low = scipy.special.betaincinv(hits, count - hits + 1, 0.025) if hits else 0.0
    high = scipy.special.betaincinv(hits + 1, count - hits, 0.975) if hits < count else 1.0
    return float(low), float(high)


def percent(share: float) -> str:
    """A change, with its sign."""
    return f"{100 * share:+.3g} %"
