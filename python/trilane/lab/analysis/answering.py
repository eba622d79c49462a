"""From a judged comparison to its answer: headline, cause, confidence and figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from trilane.lab.analysis import because, headline, verdict
from trilane.lab.experiment import form
from trilane.lab.model.answer import Answer, Confidence, Doubt, Figure
from trilane.lab.model.comparison import Comparison, JudgedArm, Ratio
from trilane.lab.model.measures import BY_NAME
from trilane.lab.model.record import Verdict
from trilane.lab.model.validity import Reason

_FIGURES = 5


def answer(
    comparison: Comparison, different: Reason | None, asked: form.Answer | None = None
) -> Answer:
    """The answer of one comparison, whose validity is known; `different` as for it."""
    pair = leading(comparison, asked)
    return Answer(
        headline=headline.of_comparison(comparison, different, asked),
        because=because.because(comparison, pair),
        confidence=confidence(comparison),
        figures=figures(comparison, pair),
    )


def leading(comparison: Comparison, asked: form.Answer | None) -> Ratio | None:
    """The pair that the headline is about: the one asked for, else the winner and the baseline.

    None where the headline is about many pairs or none.
    """
    rank = comparison.ranking
    if asked is not None and len(comparison.arms) > headline.PAIR:
        rows = verdict.rows(comparison)
        return None if asked.pair is None else verdict.row_of(rows, rank.measure, *asked.pair)
    if rank.winner is None:
        pairs = rank.pairs
        return pairs[0] if len(pairs) == 1 else None
    baseline = comparison.baseline
    others = [arm.name for arm in comparison.arms if arm.name != rank.winner]
    to = baseline if baseline in others else others[0]
    return verdict.row_of(rank.pairs, rank.measure, rank.winner, to)


def confidence(comparison: Comparison) -> Confidence:
    """How far the headline may be believed: what speaks against it, once for all arms."""
    judged: Verdict = comparison.validity.verdict
    if judged == "invalid" and verdict.claims(comparison):
        # What was found is about the other arms.
        judged = "suspect"
    return Confidence(verdict=judged, doubts=_grouped(comparison))


def _grouped(comparison: Comparison) -> list[Doubt]:
    """What speaks against the comparison, and then what does against arms, each kind once."""
    measure = comparison.ranking.measure
    found: dict[str, tuple[Reason, list[str]]] = {}
    of_arms: set[str] = set()
    for arm in comparison.arms:
        for reason in arm.validity.reasons:
            of_arms.add(f"{arm.title}: {reason.text}")
            if verdict.concerns(reason, measure, arm.load):
                found.setdefault(reason.code, (reason, []))[1].append(arm.title)
    doubts = [_doubt(r, r.text) for r in comparison.validity.reasons if r.text not in of_arms]
    doubts += [
        _doubt(reason, f"{arms[0]}: {reason.text}{_alike(arms[1:])}")
        for reason, arms in found.values()
    ]
    return sorted(doubts, key=lambda doubt: doubt.verdict != "invalid")


def _doubt(reason: Reason, text: str) -> Doubt:
    return Doubt(code=reason.code, verdict=reason.verdict, text=text, advice=reason.advice)


def _alike(arms: Sequence[str]) -> str:
    if not arms:
        return ""
    return (
        f"; {headline.joined(arms)} alike" if len(arms) <= 2 else f"; {len(arms)} more arms alike"
    )


def over_points(points: Iterable[tuple[str, Comparison]]) -> list[Doubt]:
    """The doubts of all points of a sweep, each kind once; `points` with what stands before it."""
    found: dict[str, list[Doubt]] = {}
    for at, comparison in points:
        for doubt in comparison.said.confidence.doubts:
            named = structs.replace(doubt, text=f"{at}{doubt.text}")
            found.setdefault(doubt.code, []).append(named)
    doubts = [
        structs.replace(same[0], text=f"{same[0].text}; alike at {_more(len(same) - 1)}")
        if len(same) > 1
        else same[0]
        for same in found.values()
    ]
    return sorted(doubts, key=lambda doubt: doubt.verdict != "invalid")


def _more(points: int) -> str:
    return "1 more point" if points == 1 else f"{points} more points"


def figures_over(
    asked: form.Answer | None, baseline: str, points: Sequence[tuple[str, Comparison]]
) -> list[Figure]:
    """The ratio of the counted pair at the first points of a sweep."""
    measured = [each for each in points if each[1].plan.blocks_done]
    pair = measured and headline.counted_pair(asked, baseline, [made for _, made in measured])
    if not pair:
        return []
    return [
        structs.replace(figure, label=f"{figure.label} {at.removesuffix(': ')}")
        for at, made in measured[:_FIGURES]
        if (row := headline.row_at(made, pair)) is not None and row.ratio is not None
        for figure in (_ratio(row, headline.names(made.arms)),)
    ]


def figures(comparison: Comparison, pair: Ratio | None) -> list[Figure]:
    """What each of the best arms reached on the measure that decides, and the ratio of the pair."""
    measure = BY_NAME[comparison.ranking.measure]
    called = headline.names(comparison.arms)
    sign = -1 if measure.better == "higher" else 1

    def value(arm: JudgedArm) -> float | None:
        found = arm.summary.get(measure.name)
        return None if found is None else found.median

    known = [arm for arm in comparison.arms if value(arm) is not None]
    best = sorted(known, key=lambda arm: sign * (value(arm) or 0.0))
    ratio = [] if pair is None or pair.ratio is None else [_ratio(pair, called)]
    return [
        Figure(
            label=called[arm.name],
            measure=measure.name,
            value=found.median or 0.0,
            low=found.low,
            high=found.high,
            unit=measure.unit,
        )
        for arm in best[: _FIGURES - len(ratio)]
        for found in (arm.summary[measure.name],)
    ] + ratio


def _ratio(row: Ratio, called: dict[str, str]) -> Figure:
    return Figure(
        label=f"{called[row.arm]} ÷ {called[row.to]}",
        measure=row.measure,
        value=row.ratio or 0.0,
        low=row.low,
        high=row.high,
        unit="1",
    )
