"""From the finished runs of an experiment to its result, `trilane.lab/1`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

import numpy as np
from msgspec import UNSET, UnsetType, structs

from trilane.lab.analysis import (
    answering,
    because,
    crossing,
    headline,
    looks,
    paired,
    stats,
    verdict,
)
from trilane.lab.analysis.paired import Observed
from trilane.lab.analysis.stats import Floats
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.experiment.form import Answer as Asked
from trilane.lab.experiment.form import Expect, Form, Published, Sweep
from trilane.lab.model import lab as model
from trilane.lab.model.answer import Answer, Confidence
from trilane.lab.model.comparison import Comparison, Ratio
from trilane.lab.model.lab import (
    SCHEMA,
    Crossing,
    ExpectedRatio,
    LabResult,
    OurRatio,
    Post,
    PostRatio,
    PublishedRatio,
    Question,
    Skipped,
    SweepKey,
    Swept,
    skipped_in,
)
from trilane.lab.model.measures import BY_NAME, Measure
from trilane.lab.model.record import SweepValue, Verdict
from trilane.lab.model.validity import Validity
from trilane.lab.storage import store
from trilane.quantity import swept_text


@dataclass(frozen=True, slots=True)
class Point:
    """One value of the sweep, or the only point."""

    value: SweepValue | None
    form: Form
    observed: Observed


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything the result is made of."""

    experiment: Experiment
    form: Form
    quick: bool
    points: Sequence[Point]
    command: str
    replay: str
    started_at: str
    seed: int
    machine: Mapping[str, Any]
    interrupted: bool
    skipped: Sequence[tuple[str, str]] = field(default_factory=tuple)
    """Arms that could not run here, and why."""
    unmeasured: Sequence[Expect] = ()
    """Gates about arms that could not run here."""
    benchstat: str | UnsetType | None = UNSET
    """What benchstat makes of benchmarks; unset where there are none."""


def result(found: Findings) -> LabResult:
    """Judge an experiment."""
    judged = [(point, paired.compare(point.observed)) for point in found.points]
    experiment, form, sweep = found.experiment, found.form, found.form.sweep
    crossings = _crossings(found.form, judged, found.seed)
    budgets = [_budget(row, point) for point, _ in judged for row in point.observed.budgets]
    points = [(_at(point, sweep), made) for point, made in judged]
    answer = _answer(form.answer, form.baseline, points, sweep, crossings, budgets)
    return LabResult(
        schema=SCHEMA,
        experiment=Question.of_race(experiment.question, judged[0][1].url)
        if experiment.race
        else Question(
            name=experiment.name,
            title=experiment.title,
            form=form.name,
            note=form.note,
            question=experiment.question,
            hypothesis=experiment.hypothesis,
            confounders=list(experiment.confounders),
            source=None if experiment.source is None else Post(**asdict(experiment.source)),
            quick=found.quick,
            altered=list(form.altered),
            shortened=list(form.shortened),
        ),
        command=found.command,
        replay=found.replay,
        started_at=found.started_at,
        finished_at=store.now(),
        interrupted=found.interrupted,
        seed=found.seed,
        machine=dict(found.machine),
        sweep=None
        if sweep is None
        else Swept(key=cast("SweepKey", sweep.key), unit=sweep.unit, values=list(sweep.values)),
        points=[model.Point(value=point.value, comparison=made) for point, made in judged],
        crossings=crossings,
        published=[
            _published(row, point, made) for point, made in judged for row in point.form.published
        ],
        expect=[
            *budgets,
            *(
                _expected(row, point.value, _ratio(point, made, row.measure, row.arm, row.to))
                for point, made in judged
                for row in point.form.expect
                if row not in point.observed.budgets
            ),
            *(_expected(row, row.at, None) for row in found.unmeasured),
        ],
        skipped=skipped_in(judged[0][1])
        if experiment.race
        else [Skipped(arm=arm, reason=reason) for arm, reason in found.skipped],
        validity=Validity.of(
            [
                structs.replace(reason, text=f"{_at(point, sweep)}{reason.text}")
                for point, made in judged
                for reason in made.validity.reasons
            ]
        ),
        verdict=answer.line,
        answer=answer,
        benchstat=found.benchstat,
    )


def answered(result: LabResult) -> LabResult:
    """A result of a version without answers, with the one that its comparisons give.

    Its form is not known any more: the headline is about all arms.
    """
    if result.answer is not None:
        return result
    made = result.with_comparisons(_answered)
    points = [(_where(each.value, made.sweep), each.comparison) for each in made.points]
    budgets = [row for row in made.expect if row.level is not None]
    answer = _answer(None, points[0][1].baseline, points, made.sweep, made.crossings, budgets)
    return structs.replace(made, answer=answer)


def _answered(comparison: Comparison) -> Comparison:
    unlike = (each for each in comparison.validity.reasons if each.code in headline.UNLIKE)
    different = next((each for each in unlike if each.verdict == "invalid"), None)
    return structs.replace(comparison, answer=answering.answer(comparison, different))


def _answer(
    asked: Asked | None,
    baseline: str,
    points: Sequence[tuple[str, Comparison]],
    sweep: Sweep | Swept | None,
    crossings: Sequence[Crossing],
    budgets: Sequence[ExpectedRatio],
) -> Answer:
    """The answer of all points; what decides whether a command fails comes first."""
    made = points[0][1].said
    if len(points) > 1:
        what = "networks" if sweep is not None and sweep.key == "network" else "values"
        made = _over_points(asked, baseline, points, what, crossings)
    if not budgets:
        return made
    sentences = budget_sentences(budgets, baseline)
    return structs.replace(
        made,
        headline=_first_budget(budgets, sentences),
        details=[*(sentences if len(sentences) > 1 else ()), made.headline, *made.details],
    )


def _over_points(
    asked: Asked | None,
    baseline: str,
    points: Sequence[tuple[str, Comparison]],
    what: str,
    crossings: Sequence[Crossing],
) -> Answer:
    """The answer over a sweep: a crossing that was found, else at how many points who leads."""
    made = [comparison for _, comparison in points]
    said = headline.over_points(asked, baseline, made, what)
    crossed = [crossing.headline(row, made[0]) for row in crossings if row.low is not None]
    verdicts = {each.said.confidence.verdict for each in made}
    judged: Verdict = "valid" if verdicts == {"valid"} else "suspect"
    return Answer(
        headline=headline.fitting(*crossed[:1], said),
        because=because.over_points(points),
        confidence=Confidence(
            verdict="invalid" if verdicts == {"invalid"} else judged,
            doubts=answering.over_points(points),
        ),
        figures=answering.figures_over(asked, baseline, points),
        details=headline.points_by_finding(asked, baseline, points),
    )


def budget_sentences(rows: Sequence[ExpectedRatio], baseline: str) -> list[str]:
    """What came of budgets against `baseline`, the breached ones first: each as a sentence."""
    return [_budget_sentence(row.against(baseline)) for row in _worst_first(rows)]


def _worst_first(rows: Sequence[ExpectedRatio]) -> list[ExpectedRatio]:
    order: list[bool | None] = [False, None, True]
    return sorted(rows, key=lambda row: order.index(row.met))


def _first_budget(rows: Sequence[ExpectedRatio], sentences: Sequence[str]) -> str:
    """All budgets where they fit, else how many fared as the worst, and that one."""
    worst = _worst_first(rows)[0].met
    alike = sum(row.met == worst for row in rows)
    one = sentences[0].removeprefix("Budget ")
    return headline.fitting(
        " ".join(sentences), f"{alike} of {len(rows)} budgets {one}", sentences[0]
    )


def _budget_sentence(row: ExpectedRatio) -> str:
    label = BY_NAME[row.measure].label
    if row.ratio is None:
        return f"Budget not measured: {label}."
    word = {True: "met", False: "breached", None: "undecided"}[row.met]
    low, high = row.interval or (row.ratio, row.ratio)
    return (
        f"Budget {word}: {label} {_change(row.ratio)} ({_change(low)} to {_change(high)}), "
        f"allowed {_change(row.limit)}."
    )


def _change(ratio: float) -> str:
    """A ratio as what it changes: `+72 %`."""
    percent = 100 * (ratio - 1)
    return f"{percent:+.0f} %" if abs(percent) >= 10 else f"{percent:+.2g} %"


def _crossings(form: Form, judged: Sequence[tuple[Point, Comparison]], seed: int) -> list[Crossing]:
    sweep = form.sweep
    if sweep is None:
        return []
    measure = BY_NAME[form.rank]
    titles = {arm.name: arm.title for arm in form.arms}
    rows = []
    for arm, to in sweep.crossings:
        points = [
            crossing.At(
                float(point.value),
                _log_ratios(point.observed, arm, to, measure),
                looks.alpha(made.plan.looks, made.plan.blocks_done),
            )
            for point, made in judged
            if {arm, to} <= {one.name for one in made.arms} and point.value is not None
        ]
        at = crossing.find(points, seed)
        rows.append(
            Crossing(
                measure=measure.name,
                arm=arm,
                to=to,
                at=at.at,
                low=at.low,
                high=at.high,
                unit=sweep.unit,
                level=at.level,
                text=crossing.sentence(at, titles[arm], titles[to], sweep.unit, measure.label),
            )
        )
    return rows


def _log_ratios(observed: Observed, arm: str, to: str, measure: Measure) -> Floats:
    table = paired.Table(observed)
    if not table.comparable(arm, to):
        return np.empty(0)
    return stats.known(stats.log_ratios(table.values(arm, measure), table.values(to, measure)))


def _published(row: Published, point: Point, made: Comparison) -> PublishedRatio:
    """The post's ratio beside ours: never as absolute times (METHOD §6)."""
    return PublishedRatio(
        measure=row.measure,
        arm=row.arm,
        to=row.to,
        at=point.value,
        published=PostRatio(arm=row.values[0], to=row.values[1], ratio=row.ratio, where=row.where),
        ours=_ratio(point, made, row.measure, row.arm, row.to),
    )


def _expected(row: Expect, at: SweepValue | None, ours: OurRatio | None) -> ExpectedRatio:
    met = None
    if ours is not None and ours.finding != "invalid":
        # Met or breached only where the whole interval says so: noise decides nothing.
        if row.low <= ours.low and ours.high <= row.high:
            met = True
        elif ours.high < row.low or ours.low > row.high:
            met = False
    return ExpectedRatio(
        measure=row.measure,
        arm=row.arm,
        to=row.to,
        at=at,
        low=row.low,
        high=row.high,
        ratio=None if ours is None else ours.ratio,
        interval=None if ours is None else (ours.low, ours.high),
        met=met,
    )


def _budget(row: Expect, point: Point) -> ExpectedRatio:
    """A gate that is a question of its own: the answer that `spending` gives."""
    table = paired.Table(point.observed)
    judged = table.budget(row)
    interval = None if judged is None else judged.interval
    side = looks.side(point.observed.looks, table.blocks)
    return ExpectedRatio(
        measure=row.measure,
        arm=row.arm,
        to=row.to,
        at=point.value,
        low=row.low,
        high=row.high,
        ratio=None if interval is None else interval.centre,
        interval=None if interval is None else (interval.low, interval.high),
        met=None if judged is None else judged.met,
        level=round(1 - 2 * side, 6),
        p=None if judged is None else judged.p,
    )


def _ratio(point: Point, made: Comparison, measure: str, arm: str, to: str) -> OurRatio | None:
    """Ratio of two arms with its interval, computed anew where the comparison does not have it."""
    names = {one.name for one in point.observed.arms}
    if not {arm, to} <= names:
        return None
    found = _judged(made, measure, arm, to)
    if found is None:
        observed = replace(
            point.observed,
            arms=[one for one in point.observed.arms if one.name in (arm, to)],
            samples=[s for s in point.observed.samples if s.arm in (arm, to)],
            baseline=to,
            measures=(BY_NAME[measure],),
            rank=BY_NAME[measure],
            announced=(),
        )
        found = paired.compare(observed).ratios[0]
    if found.ratio is None or found.low is None or found.high is None:
        return None
    return OurRatio(ratio=found.ratio, low=found.low, high=found.high, finding=found.finding)


def _judged(made: Comparison, measure: str, arm: str, to: str) -> Ratio | None:
    """The row of a comparison, so that no claim is made twice with two results."""
    return verdict.row_of(verdict.rows(made), measure, arm, to)


def _at(point: Point, sweep: Sweep | None) -> str:
    return _where(point.value, sweep)


def _where(value: SweepValue | None, sweep: Sweep | Swept | None) -> str:
    if value is None or sweep is None:
        return ""
    return f"at {swept_text(value, sweep.key, sweep.unit)}: "
