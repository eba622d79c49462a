"""`compare --fail-if`: a condition on how B differs from A that makes the command fail.

An expression is `[ARM:]MEASURE OP LIMIT`, for example `p99>1.1`, `requests_per_s<-5%` or
`h2:elapsed_s>+10%`. It is about the ratio B / A: `1.1`, `1.1x` and `+10%` are the same limit. The
spelling is that of `trilane load --fail-if`, whose names `rate`, `cpu`, `mean` and `p99.9` are
understood; its limits are values with a unit, these are ratios.

A gate is breached when the data show that the ratio lies beyond its limit, not when the estimate
alone does. The whole 95 % interval must lie there; a one-sided Mann-Whitney test against the limit,
adjusted by Holm over everything that the gates of the command look at, must agree (p at most 0.05);
and the estimate must be farther from the limit than the centre of A/A is from 1. So noise does not
break a build, however many arms and gates it has. The reverse holds as well: a gate that the number
of values could never breach would be no gate, and counts as breached, with what is needed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from trilane.lab.analysis import stats, unpaired
from trilane.lab.analysis.compare_runs import Compared, Sample
from trilane.lab.analysis.contrast_answer import interval
from trilane.lab.model.contrast import GateRow, JudgedGate, Shift

_FORM = re.compile(r"(?:(?P<arm>.+):)?(?P<measure>[a-z0-9_.]+)(?P<op>[<>]=?)(?P<limit>.+)")
_RATIO = re.compile(r"(\d+(?:\.\d+)?|\.\d+)[x×]?")
_CHANGE = re.compile(r"([+-])(\d+(?:\.\d+)?|\.\d+)%")
# Measures that are times.
_TIME = re.compile(r"p\d+([._]\d+)?|min|mean|max|.*(?<!_per)_s")
# What `trilane load --fail-if` calls them.
_ALIASES = {
    "rate": "requests_per_s",
    "cpu": "client_cpu_us_per_request",
    "mean": "mean_s",
    "p99.9": "p99_9",
}


class BadGate(ValueError):
    """A text is not a gate, or is about something that was not compared; says what to type."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition on the ratio B / A."""

    text: str
    arm: str | None
    """None: every arm."""
    measure: str
    above: bool
    """Breached above the limit; below it otherwise."""
    limit: float
    """A ratio."""


@dataclass(frozen=True, slots=True)
class _Case:
    """One gate at one row."""

    gate: Gate
    row: Shift
    sample: Sample

    def p(self, seed: int) -> float:
        if min(len(self.sample.a), len(self.sample.b)) < 2:
            return 1.0
        return unpaired.beyond(
            self.sample.a, self.sample.b, self.gate.limit, above=self.gate.above, seed=seed
        )


def parse(text: str) -> Gate:
    """Parse `[ARM:]MEASURE>LIMIT` (also `<`, `>=`, `<=`)."""
    match = _FORM.fullmatch("".join(text.split()))
    if match is None:
        raise BadGate(_form(text, "it has no form MEASURE>LIMIT or MEASURE<LIMIT"))
    return Gate(
        text="".join(text.split()),
        arm=match["arm"],
        measure=_ALIASES.get(match["measure"], match["measure"]),
        # Nothing is exactly equal to a limit: `>=` means what `>` does.
        above=match["op"].startswith(">"),
        limit=_limit(text, match["measure"], match["limit"]),
    )


def judge(gates: Sequence[Gate], compared: Compared) -> list[JudgedGate]:
    """What each gate found."""
    cases = {gate: _cases(gate, compared) for gate in gates}
    judged = [case for each in cases.values() for case in each if case.sample.valid]
    p_values = stats.holm([case.p(compared.seed) for case in judged])
    adjusted = {id(case): p for case, p in zip(judged, p_values, strict=True)}
    found = []
    for gate, each in cases.items():
        rows = [_outcome(case, adjusted.get(id(case)), len(judged)) for case in each]
        breached = any(row.breached for row in rows)
        found.append(JudgedGate(text=gate.text, breached=breached, rows=rows))
    return found


def _cases(gate: Gate, compared: Compared) -> list[_Case]:
    contrast = compared.contrast
    measures = [measure.name for measure in contrast.measures]
    if gate.measure not in measures:
        raise BadGate(_form(gate.text, f"{gate.measure!r} was not compared: {', '.join(measures)}"))
    arms = [arm.name for arm in contrast.arms]
    if gate.arm is not None and gate.arm not in arms:
        raise BadGate(_form(gate.text, f"{gate.arm!r} was not compared: {', '.join(arms)}"))
    found = [
        _Case(gate, row, sample)
        for row, sample in zip(contrast.ratios, compared.samples, strict=True)
        if row.measure == gate.measure and gate.arm in (None, row.arm)
    ]
    if not found:
        raise BadGate(
            _form(gate.text, f"{gate.arm} is the control or has no {gate.measure} in both runs")
        )
    return found


def _outcome(case: _Case, p_holm: float | None, family: int) -> GateRow:
    breached, reason = _breach(case, p_holm, family)
    return GateRow(
        arm=case.row.arm,
        point=case.row.point,
        limit=case.gate.limit,
        p_holm=p_holm,
        breached=breached,
        reason=reason,
    )


def _breach(case: _Case, p_holm: float | None, family: int) -> tuple[bool, str]:
    """Whether the gate is breached at the row, and why or why not."""
    gate, row = case.gate, case.row
    if p_holm is None:
        return False, "an invalid run is not judged"
    values = len(case.sample.a), len(case.sample.b)
    # One-sided, a p can be half as small.
    too_few = unpaired.smallest_p(*values) * family > 2 * stats.ALPHA
    if too_few or row.ratio is None or row.low is None or row.high is None:
        return True, (
            f"{values[0]} against {values[1]} values can never show it: "
            f"{unpaired.values_needed(family, 2 * stats.ALPHA)} on each side could"
        )
    side = "above" if gate.above else "below"
    whole = row.low > gate.limit if gate.above else row.high < gate.limit
    floor = row.noise_floor
    if whole and p_holm <= stats.ALPHA:
        if floor is not None and not stats.beyond(row.ratio / gate.limit, floor.ratio):
            return False, (
                f"{interval(row)} lies {side} {_x(gate)}, but not by more than "
                f"a second run of an arm differed from its first ({floor.ratio:.2f}×)"
            )
        return True, f"{interval(row)} lies {side} {_x(gate)}"
    estimate = row.ratio > gate.limit if gate.above else row.ratio < gate.limit
    shown = "shown to lie " if estimate else ""
    return False, f"{interval(row)} is not {shown}{side} {_x(gate)}"


def _x(gate: Gate) -> str:
    return f"{gate.limit:g}×"


def _limit(text: str, measure: str, limit: str) -> float:
    if limit.isdecimal() and _TIME.fullmatch(measure):
        raise BadGate(
            _form(
                text,
                f"{limit} may be a ratio or a time: type {limit}x for {limit} times the baseline; "
                f"a limit of {limit}ms or {limit}s is `trilane load --fail-if`'s",
            )
        )
    if ratio := _RATIO.fullmatch(limit):
        value = float(ratio[1])
    elif change := _CHANGE.fullmatch(limit):
        value = 1 + float(change[1] + change[2]) / 100
    else:
        raise BadGate(
            _form(
                text, f"{limit!r} is neither a ratio such as 1.1 nor a change such as +10% or -5%"
            )
        )
    if not (0 < value < math.inf):
        raise BadGate(_form(text, f"a ratio is larger than 0, {limit!r} is not"))
    return value


def _form(text: str, why: str) -> str:
    return (
        f"{text!r}: {why}: type for example --fail-if 'p99>1.1', 'requests_per_s<-5%' "
        "or 'h2:elapsed_s>+10%'"
    )
