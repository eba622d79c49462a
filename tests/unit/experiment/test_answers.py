"""The headline of an experiment is the answer of its own question: FINDINGS T10."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, cast

import pytest

from synthetic.experiments import FORMS, sample, shipped
from synthetic.records import run
from trilane.lab import Answer, BadExperiment, Experiment
from trilane.lab.analysis import findings
from trilane.lab.analysis.findings import Findings, Point
from trilane.lab.analysis.paired import Observed
from trilane.lab.blocks import shuffled
from trilane.lab.experiment.form import Form
from trilane.lab.experiment.workload import ArmSpec
from trilane.lab.model.answer import MOST_WORDS
from trilane.lab.model.arm import Arm
from trilane.lab.model.lab import LabResult
from trilane.lab.model.measures import BY_NAME
from trilane.lab.model.record import Version
from trilane.lab.model.sample import Sample

Numbers: TypeAlias = Callable[[int, int], float]
"""Of the arm with this number in the form, in a block."""

# They ask what each arm is beside all others, or beside the one that everybody knows: what is
# compared besides is a side question.
MOST = 3
OF_ALL_ARMS = {
    ("cost", "fair"),
    ("strategies", "fair"),
    ("strategies", "published"),
    ("versions", "fair"),
    ("versions", "published"),
}


def steps(arm: int, _block: int) -> float:
    """Each arm has 1.2 times as much as the one before it."""
    return float(1.2**arm)


def judged(experiment: Experiment, form: Form, numbers: Numbers = steps) -> LabResult:
    """The form with made-up numbers."""
    return findings.result(
        Findings(
            experiment=experiment,
            form=form,
            quick=False,
            points=[Point(v, point, _seen(point, numbers)) for v, point in form.points()],
            command="trilane lab run trial",
            replay="trilane lab replay x",
            started_at="2026-11-20T10:00:00Z",
            seed=1,
            machine={},
            interrupted=False,
        )
    )


def _seen(form: Form, numbers: Numbers) -> Observed:
    chance = random.Random(7)
    arms = [arm.name for arm in form.arms]
    blocks = 6
    order = [
        [name for name, _ in shuffled(arms, block, chance, aa=False)] for block in range(blocks)
    ]
    # Whatever ranks is read from the rate, which is what this varies.
    rank = dataclasses.replace(
        BY_NAME[form.rank], read=lambda made, _: made.rate.requests_per_s, shared=False
    )
    return Observed(
        question="?",
        url="",
        command="",
        arms=[_arm(arm) for arm in form.arms],
        baseline=form.baseline,
        samples=[
            Sample(
                arm=name,
                block=block,
                slot=0,
                position=position,
                run=run(
                    "h1", rate=50_000 * numbers(arms.index(name), block) * chance.gauss(1, 0.002)
                ),
            )
            for block, names in enumerate(order)
            for position, name in enumerate(names)
        ],
        blocks=blocks,
        seed=1,
        margin=form.margin,
        duration_s=1.0,
        warmup_s=0.0,
        started_at="2026-11-20T10:00:00Z",
        machine={},
        order=order,
        measures=(rank,),
        rank=rank,
        announced=form.announced(),
        answer=form.answer,
    )


def _arm(arm: ArmSpec) -> Arm:
    return Arm(name=arm.name, title=arm.title, version=cast("Version", arm.version))


def few(form: Form) -> Form:
    """The form with no more arms than it takes to see which question comes first, at one value."""
    answer = form.answer
    assert answer is not None
    told = dict(form.points()[0][1].announced())
    pair = told[answer.compare][0] if isinstance(answer.compare, str) else answer.pair
    others = (form.baseline, *(arm.name for arm in form.arms))
    names = [*dict.fromkeys([*(pair or ()), *others])][:MOST]
    # In the order of the form: that decides which of two is divided by the other.
    made = form.only([arm.name for arm in form.arms if arm.name in names])
    made = dataclasses.replace(made, baseline=form.baseline)
    if made.sweep is not None:
        made = dataclasses.replace(
            made, sweep=dataclasses.replace(made.sweep, values=made.sweep.values[:1], crossings=())
        )
    return made


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_the_headline_answers_the_question_of_the_form(name: str, form: str) -> None:
    experiment = shipped(name)
    made = experiment.forms[form]
    assert made.quickened().answer == made.answer
    if made.answer is None:
        # Then no other question may hide behind that of all arms.
        several = len(made.arms) > 2 and (made.compare or made.pairs or made.published)
        assert not several or (name, form) in OF_ALL_ARMS
        return
    asked = judged(experiment, few(made)).said
    assert _names_the_pair(made, asked.headline), asked.headline


def _names_the_pair(form: Form, said: str) -> bool:
    """Whether the headline is about what the form asks, whose numbers all differ."""
    answer, rank = form.answer, BY_NAME[form.rank]
    assert answer is not None
    if answer.measure is not None:
        label = BY_NAME[answer.measure].label
        return said.lower().startswith(f"{label.lower()}: ")
    if isinstance(answer.compare, str):
        return " pairs differ, most " in said or _told(rank.label, said)
    titles = {arm.name: arm.title.split(", ") for arm in form.arms}
    assert answer.pair is not None
    arm, to = (titles[name] for name in answer.pair)
    telling = [part for part in (*arm, *to) if (part in arm) != (part in to)]
    return all(part in said for part in telling)


def _told(label: str, said: str) -> bool:
    return label in said and re.search(r": 1\.\d\d× ", said) is not None


WAYS: dict[str, Numbers] = {
    "different": steps,
    "equal": lambda _arm, _block: 1.0,
    "undecided": lambda arm, block: 1.0 + 0.1 * (arm % 3) * (-1) ** block,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "form"), FORMS)
def test_a_headline_has_at_most_twenty_words(name: str, form: str, way: str) -> None:
    experiment = shipped(name)
    said = judged(experiment, at_two_values(experiment.forms[form]), WAYS[way]).said
    assert 3 <= len(said.headline.split()) <= MOST_WORDS, said.headline
    # Two equal arms have no cause.
    assert way == "different" or said.because == []


def at_two_values(form: Form) -> Form:
    if form.sweep is None:
        return form
    sweep = dataclasses.replace(form.sweep, values=form.sweep.values[:2])
    return dataclasses.replace(form, sweep=sweep)


def first_request(numbers: Numbers) -> str:
    experiment = shipped("first-request")
    return judged(experiment, experiment.forms["published"], numbers).verdict


def test_what_both_arms_of_a_pair_are_is_said_once() -> None:
    assert re.fullmatch(
        r"bare: hyper, HTTP/2 is slower than http\.client, HTTP/1\.1: 1\.20× the elapsed time "
        r"\(1\.\d\d–1\.\d\d\)\.",
        first_request(steps),
    )


def test_no_difference_is_an_answer_too() -> None:
    said = first_request(lambda _arm, _block: 1.0)
    assert said.startswith(
        "bare: no difference: hyper, HTTP/2 and http.client, HTTP/1.1 are within 5 %"
    )


def test_what_is_undecided_says_so() -> None:
    said = first_request(lambda arm, block: 1.0 + 0.1 * arm * (-1) ** block)
    pair = "hyper, HTTP/2 and http.client, HTTP/1.1"
    assert said.startswith(f"bare: no difference between {pair} was shown")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("{}", "takes one of compare and measure"),
        ('{ compare = ["plain", "other"] }', r"compare\[1\]: 'other' is not an arm"),
        ('{ compare = ["plain", "plain"] }', "an arm is compared with itself"),
        ('{ compare = "version within client" }', "add it to compare"),
        ("{ compare = 3 }", "takes a pair of arms, such as .*, or a comparison by factor"),
        ('{ compare = ["plain"] }', r"takes a pair of arms, such as \["),
        ('{ measure = "p99" }', "is not among the measures of the form"),
    ],
)
def test_an_answer_that_nothing_can_give_is_refused(tmp_path: Path, answer: str, said: str) -> None:
    with pytest.raises(BadExperiment, match=said):
        sample(tmp_path, ('baseline = "plain"', f'baseline = "plain"\nanswer = {answer}'))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(measure="p99"), "of networks is a pair of arms"),
        (Answer(compare=("h3", "h1")), "is not among the pairs of the form"),
    ],
)
def test_the_answer_over_networks_is_one_of_the_maps(answer: Answer, said: str) -> None:
    matrix = shipped("network-matrix")
    form = dataclasses.replace(matrix.forms["small"], answer=answer)
    with pytest.raises(BadExperiment, match=said):
        dataclasses.replace(matrix, forms={"small": form})
