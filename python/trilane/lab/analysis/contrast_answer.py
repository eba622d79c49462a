"""The answer of two runs side by side: what B changed in the measure that decides."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import structs

from trilane.lab.analysis import stats, unpaired
from trilane.lab.analysis.headline import fitting, joined, multiple, number
from trilane.lab.analysis.verdict import CLAIMS
from trilane.lab.model.answer import Answer, Confidence, Doubt, Figure
from trilane.lab.model.contrast import Contrast, Shift
from trilane.lab.model.record import Verdict

_FIGURES = 5


def answered(contrast: Contrast) -> Contrast:
    """The contrast with its answer; gates that are breached come first."""
    answer = Answer(
        headline=_headline(contrast),
        because=[],
        confidence=Confidence(
            verdict=_believed(contrast),
            doubts=[
                Doubt(code=each.code, verdict=each.verdict, text=each.text, advice=each.advice)
                for each in contrast.validity.reasons
            ],
        ),
        figures=_figures(contrast),
    )
    return structs.replace(contrast, answer=answer, verdict=answer.line)


def _believed(contrast: Contrast) -> Verdict:
    """How far to believe the headline: what was found is not about the arms that ran invalid."""
    rows = [row for row in contrast.ratios if row.measure == contrast.rank]
    judged: Verdict = contrast.validity.verdict
    found = any(row.finding in CLAIMS for row in rows)
    return "suspect" if judged == "invalid" and found else judged


def interval(row: Shift) -> str:
    """A ratio with its interval, for a sentence."""
    if row.ratio is None:
        return "unknown"
    return f"{row.ratio:.2f}× (95 % interval {row.low:.2f}–{row.high:.2f})"


def _headline(contrast: Contrast) -> str:
    breached = [gate.text for gate in contrast.gates if gate.breached]
    if breached:
        more = f" and {len(breached) - 1} more" if len(breached) > 1 else ""
        return f"Gate breached: {breached[0]}{more}."
    rows = [row for row in contrast.ratios if row.measure == contrast.rank]
    if len(rows) == 1:
        return _one(contrast, rows[0])
    label = contrast.ranked.label
    differing = [row for row in rows if row.finding in ("higher", "lower")]
    if differing:
        most = max(differing, key=lambda row: abs(math.log(row.ratio or 1.0)))
        count = f"{len(differing)} of {len(rows)} arms differ in {label}"
        return fitting(
            f"{count}, most {_name(contrast, most)}: {_times(most)} in B.", f"{count} in B."
        )
    same = sum(row.finding == "no_difference" for row in rows)
    broken = [_name(contrast, row) for row in rows if row.finding == "invalid"]
    equal = f"; {same} are within {100 * contrast.margin:g} %" if same else ""
    invalid = f"; {joined(broken)} ran invalid" if broken else ""
    none = f"No difference between A and B was shown in {label} of {len(rows)} arms"
    return fitting(f"{none}{equal}{invalid}{_too_few(contrast, rows)}.", f"{none}{invalid}.")


def _one(contrast: Contrast, row: Shift) -> str:
    label, name = contrast.ranked.label, _name(contrast, row)
    if row.finding in ("higher", "lower"):
        word = "better" if row.finding == contrast.ranked.better else "worse"
        return f"B is {word} than A in {label} of {name}: {_times(row)}."
    span = "" if row.low is None else f" ({number(row.low)}–{number(row.high or 0.0)}×)"
    if row.finding == "no_difference":
        within = f"{100 * contrast.margin:g} %"
        return f"No difference: A and B are within {within} in {label} of {name}{span}."
    if row.finding == "invalid":
        return f"A and B cannot be compared: {name} ran invalid."
    none = f"No difference between A and B was shown in {label}"
    few = _too_few(contrast, [row])
    return fitting(f"{none} of {name}{span}{few}.", f"{none}{span}{few}.", f"{none}{few}.")


def _times(row: Shift) -> str:
    return f"{multiple(row.ratio or 0.0)} ({number(row.low or 0.0)}–{number(row.high or 0.0)})"


def _name(contrast: Contrast, row: Shift) -> str:
    title = contrast.titles[row.arm]
    return title if row.point is None else f"{title} at {row.point}"


def _too_few(contrast: Contrast, rows: Sequence[Shift]) -> str:
    """Whether the number of values alone forbids to show anything."""
    open_rows = [row for row in rows if row.finding == "undecided"]
    if not open_rows:
        return ""
    family = sum(row.measure == contrast.rank for row in contrast.ratios)
    needed = unpaired.values_needed(family)
    if all(
        unpaired.smallest_p(row.a_values, row.b_values) * family > stats.ALPHA for row in open_rows
    ):
        return f"; it takes {needed} {contrast.unit}s on each side"
    return ""


def _figures(contrast: Contrast) -> list[Figure]:
    rows = [row for row in contrast.ratios if row.measure == contrast.rank and row.ratio]
    return [
        Figure(
            label=f"B ÷ A, {_name(contrast, row)}",
            measure=row.measure,
            value=row.ratio or 0.0,
            low=row.low,
            high=row.high,
            unit="1",
        )
        for row in rows[:_FIGURES]
    ]
