"""Runs that look at their results and end once these decide."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec import structs

from synthetic import races
from synthetic.records import altered
from trilane.lab.analysis import familywise, looks, paired, stats
from trilane.lab.experiment.form import Expect
from trilane.lab.model.comparison import Comparison, Look, Ratio

THREE = {"h1": 1.0, "h2": 1.5, "h3": 0.6}


@cache
def plan() -> list[Look]:
    """Of the race of `compared`; finding its bounds takes half a second, mostly of imports."""
    return looks.planned(30)


def compared(factors: dict[str, float], blocks: int, **changes: Any) -> Comparison:
    """A race of at most thirty blocks, of which so many were made."""
    race = races.race(factors, blocks=30, looks=plan(), **changes)
    upto = [sample for sample in race.samples if sample.block < blocks]
    return paired.compare(races.race(factors, blocks=30, looks=plan(), **changes, samples=upto))


def test_looks_lie_apart_and_the_last_is_after_all_blocks() -> None:
    assert [look.blocks for look in plan()] == [10, 14, 20, 30]
    assert [look.blocks for look in looks.planned(40)] == [10, 14, 20, 27, 40]
    # So few blocks are looked at once, as if their number were fixed.
    assert looks.planned(12) == [Look(blocks=12, alpha=stats.ALPHA)]


@pytest.mark.parametrize("most", [6, 10, 13, 18, 30, 60, 100, 1000, 1_000_000])
def test_the_shares_of_all_looks_are_at_most_five_per_cent(most: int) -> None:
    planned = looks.planned(most)
    assert planned[-1].blocks == most
    assert 0.049 < sum(look.alpha for look in planned) <= stats.ALPHA
    assert planned == sorted(planned, key=lambda look: (look.blocks, look.alpha))
    # None of them is a look that could claim nothing.
    if len(planned) > 1:
        assert all(familywise.smallest_p(look.blocks) <= look.alpha for look in planned)


def test_a_run_ends_at_the_first_look_at_which_all_is_decided() -> None:
    made = compared(THREE, 10)
    assert (made.plan.blocks, made.plan.blocks_done, made.plan.ended_at) == (30, 10, 1)
    assert (made.plan.wanted, len(made.plan.order)) == (10, 10)
    assert looks.said(made) == (
        "decided at the first of four looks, after 10 of at most 30 blocks; intervals 99.3 %"
    )


def test_no_difference_decides_as_well() -> None:
    made = compared({"h1": 1.0, "h2": 1.5, "h3": 1.5}, 10)
    assert {row.finding for row in made.ranking.pairs} == {"higher", "no_difference"}
    assert made.plan.ended_at == 1


def test_what_is_undecided_goes_on() -> None:
    made = compared({"h1": 1.0, "h2": 1.03}, 14, noise=0.05)
    assert made.ranking.pairs[0].finding == "undecided"
    assert (made.plan.ended_at, made.plan.wanted) == (None, 30)
    assert looks.said(made) == (
        "not decided at the second of four looks, after 14 of at most 30 blocks; intervals 99.1 %"
    )
    more = made.ranking.pairs[0].more_blocks
    assert more
    assert f"; some {more:,} more block" in made.verdict


def test_between_two_looks_the_one_to_come_judges_and_ends_nothing() -> None:
    made = compared(THREE, 17, interrupted=True)
    assert (made.plan.ended_at, made.plan.level) == (None, 1 - plan()[2].alpha)
    assert str(looks.said(made)).startswith("not decided before the third of four looks, after 17")


def test_an_arm_that_cannot_be_judged_does_not_keep_it_going() -> None:
    race = races.race(THREE, blocks=30, looks=plan())
    samples = [sample for sample in race.samples if sample.block < 10]
    lost = next(number for number, sample in enumerate(samples) if sample.arm == "h3")
    samples[lost] = structs.replace(samples[lost], run=None, problem="it died")
    made = paired.compare(races.race(THREE, blocks=30, looks=plan(), samples=samples))
    assert {row.finding for row in made.ranking.pairs} == {"higher", "invalid"}
    assert made.plan.ended_at == 1
    assert str(looks.said(made)).endswith(
        "after 10 of at most 30 blocks, as more of them cannot decide what is open; intervals "
        "99.3 %"
    )


def test_what_the_runs_do_not_tell_does_not_keep_it_going() -> None:
    made = compared(THREE, 10)
    untold = [Ratio(measure=row.measure, arm=row.arm, to=row.to) for row in made.ranking.pairs]
    ranking = structs.replace(made.ranking, pairs=untold)
    assert looks.ended(plan(), structs.replace(made, ranking=ranking)) == 1


def test_a_question_that_was_announced_is_decided_too() -> None:
    factors = {"h1": 1.0, "h2": 1.5, "h3": 1.54}
    announced = [("arm against arm", [("h3", "h2")])]
    open_ = compared(factors, 10, noise=0.03, announced=announced)
    assert open_.announced[0].pairs[0].finding == "undecided"
    # Were all but the announced pair decided, it would still go on.
    ranking = structs.replace(open_.ranking, pairs=[])
    assert looks.ended(plan(), structs.replace(open_, ranking=ranking)) is None


def test_a_look_is_judged_by_its_share() -> None:
    fixed = paired.compare(races.race({"h1": 1.0, "h2": 1.04}, blocks=10, noise=0.02))
    looked = paired.compare(
        races.race({"h1": 1.0, "h2": 1.04}, blocks=10, noise=0.02, looks=plan())
    )
    [before], [now] = fixed.ranking.pairs, looked.ranking.pairs
    scale = stats.ALPHA / plan()[0].alpha
    assert now.p == before.p
    assert now.p_holm == pytest.approx(min(1.0, (before.p_holm or 0) * scale))
    assert now.p_tost == pytest.approx(min(1.0, (before.p_tost or 0) * scale))
    assert now.low is not None
    assert now.high is not None
    assert now.low < (before.low or 0) < (before.high or 0) < now.high
    for name, summary in looked.arms[0].summary.items():
        assert (summary.low or 0) <= (fixed.arms[0].summary[name].low or 0)
    assert looked.noise_floor["requests_per_s"] != fixed.noise_floor["requests_per_s"]


def test_a_fixed_plan_is_told_as_before(comparison_schema: Draft202012Validator) -> None:
    fixed = paired.compare(races.race(THREE))
    assert looks.said(fixed) is None
    assert fixed.plan.level == 0.95
    assert not {"looks", "ended_at"} & set(msgspec.to_builtins(fixed)["plan"])
    made = json.loads(msgspec.json.encode(compared(THREE, 10)))
    assert {"looks", "ended_at"} <= set(made["plan"])
    assert made["plan"]["level"] == 0.9933
    assert [error.message for error in comparison_schema.iter_errors(made)] == []


def test_one_look_is_told_in_the_singular() -> None:
    made = paired.compare(races.race(THREE, blocks=8, looks=looks.planned(8)))
    assert looks.said(made) == (
        "decided at the only look, after 8 of at most 8 blocks; intervals 95 %"
    )
    many = altered(made, {"plan.looks": [Look(blocks=8 + n, alpha=0.001) for n in range(11)]})
    assert "of 11 looks" in str(looks.said(many))


def test_what_is_planned_is_announced() -> None:
    assert looks.announced(plan()) == (
        "ends once it is decided: looks after 10, 14, 20 and at most 30 blocks"
    )
    assert looks.announced(looks.planned(8)) == (
        "ends once it is decided: looks after at most 8 blocks"
    )


BUDGETS = looks.planned(30, budgets=True)


def budgeted(*budgets: Expect, blocks: int = 10, **changes: Any) -> Comparison:
    """A race of which no look decides the ranking, with budgets; so many blocks were made."""
    factors = {"h1": 1.0, "h2": 1.025}
    race = races.race(factors, blocks=30, noise=0.03, looks=BUDGETS, budgets=budgets, **changes)
    upto = [sample for sample in race.samples if sample.block < blocks]
    return paired.compare(dataclasses.replace(race, samples=upto))


def test_a_run_with_budgets_ends_once_each_is_met_or_breached() -> None:
    met = Expect.forbid("requests_per_s", "h2", "h1", 0.8, above=False)
    breached = Expect.forbid("p50", "h1", "h2", 0.8, above=True)
    open_ = Expect.forbid("requests_per_s", "h2", "h1", 1.025, above=True)
    made = budgeted(met, breached)
    assert made.ranking.pairs[0].finding == "undecided"
    assert made.plan.ended_at == 1
    assert looks.said(made) == (
        "ended at the first of four looks, after 10 of at most 30 blocks: more of them decide "
        "nothing about a budget; intervals 99.3 %, of budgets 99.4 %"
    )
    going_on = budgeted(met, open_, blocks=14)
    assert going_on.plan.ended_at is None
    assert str(looks.said(going_on)).startswith(
        "not every budget is decided at the second of four looks, after 14"
    )
    assert looks.announced(BUDGETS).startswith("ends once its budgets are decided: looks after 10")


def test_a_budget_that_no_block_can_decide_keeps_nothing_going() -> None:
    untold = Expect.forbid("capacity_per_s", "h2", "h1", 0.8, above=False)
    gone = Expect.forbid("requests_per_s", "h3", "h1", 0.8, above=False)
    assert budgeted(untold, gone).plan.ended_at == 1
