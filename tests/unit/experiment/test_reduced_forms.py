"""What is left of a form by `--quick` and by `-t`: an experiment that can be run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from synthetic.experiments import FORMS, sample, shipped
from trilane.lab import BadExperiment, Expect, Experiment, Quick
from trilane.lab.asked import Wanted, chosen, order
from trilane.lab.experiment.form import Form


def reduced(experiment: Experiment, form: str, quick: bool, arms: Sequence[str]) -> Form:
    """The form that would be run, checked as an experiment of its own, as its folder keeps it."""
    made = chosen(Wanted(experiment, form, quick=quick, arms=arms))
    alone = replace(experiment, forms={form: made})
    assert Experiment.from_dict(alone.to_dict()).forms == alone.forms
    return made


def choices(form: Form) -> Iterator[tuple[str, ...]]:
    """No arm named, the baseline alone, and it and each other."""
    yield ()
    yield (form.baseline,)
    for arm in form.arms:
        if arm.name != form.baseline:
            yield form.baseline, arm.name


@pytest.mark.parametrize("quick", [False, True], ids=["whole", "quick"])
@pytest.mark.parametrize(("name", "form"), FORMS)
def test_every_choice_of_arms_is_an_experiment(name: str, form: str, quick: bool) -> None:
    experiment = shipped(name)
    for arms in choices(experiment.forms[form]):
        made = reduced(experiment, form, quick, arms)
        assert arms == () or [arm.name for arm in made.arms] == list(arms)
        planned = order(made, seed=1)
        assert {entry.arm for entry in planned} == {arm.name for arm in made.arms}
        assert {entry.point for entry in planned} == set(range(len(made.points())))


def test_what_is_compared_goes_with_its_arms() -> None:
    made = reduced(Experiment.load("bookstore"), "fair", quick=True, arms=())
    assert made.compare == ("version within client",)
    alone = reduced(
        Experiment.load("bookstore"), "fair", False, ("requests-h1-serial", "requests-h1-threads")
    )
    assert alone.compare == ("strategy within client and version",)


def test_an_arm_runs_at_the_values_that_are_left() -> None:
    strategies = Experiment.load("strategies")
    made = reduced(strategies, "fair", quick=True, arms=())
    assert made.sweep is not None
    assert (made.sweep.values, made.sweep.crossings) == ((100,), ())
    assert {arm.at for arm in made.arms} == {None, (100,)}


def test_a_value_at_which_no_arm_is_left_goes() -> None:
    made = reduced(Experiment.load("strategies"), "published", quick=False, arms=("sync",))
    assert made.sweep is not None
    assert (made.sweep.values, made.baseline, made.altered) == ((100,), "sync", ())


def test_an_arm_that_was_named_is_kept_at_a_value_of_its_own() -> None:
    strategies = Experiment.load("strategies")
    made = reduced(strategies, "published", quick=True, arms=("sync", "sync_threads"))
    assert made.sweep is not None
    assert made.sweep.values == (100, 1000)
    assert [arm.at for arm in made.arms] == [(100,), (100, 1000)]
    assert made.altered == ()


def test_an_expectation_goes_where_its_arms_do_not_meet(tmp_path: Path) -> None:
    form = sample(tmp_path).forms["fair"]
    gates = (
        Expect("user_s", "some", "plain", 0.5, 1.5),
        Expect("user_s", "some", "plain", 0.5, 1.5, at=100),
        Expect("user_s", "engine", "plain", 0.5, 1.5, at=100),
        Expect("user_s", "engine", "plain", 0.5, 1.5),
    )
    whole = replace(form, expect=gates, pairs=(("some", "engine"),), quick=Quick(values=(10,)))
    quick = whole.quickened()
    assert (quick.expect, quick.pairs) == (gates[3:], ())
    assert whole.only(["plain", "engine"]).expect == gates[2:]
    assert whole.only(["some", "plain"]).expect == gates[:2]


def test_what_quick_leaves_out_of_a_form_with_fewer_arms_is_among_them(tmp_path: Path) -> None:
    experiment = sample(tmp_path)
    for names, left in ((["plain", "engine"], ("plain",)), (["engine", "some"], None)):
        form = experiment.forms["fair"].only(names)
        assert form.quick is not None
        assert form.quick.arms == left
        assert replace(experiment, forms={"fair": form}).forms["fair"] == form


def test_a_quick_form_without_arms_is_refused(tmp_path: Path) -> None:
    edits = (
        ("values = [5, 50]", "values = [10]"),
        (
            'arms = ["plain", "httpx-h2-serial"]',
            'arms = ["some"]',
        ),
    )
    said = r"forms\.fair\.quick\.values: none of the arms runs at any of them"
    with pytest.raises(BadExperiment, match=said):
        sample(tmp_path, *edits)
