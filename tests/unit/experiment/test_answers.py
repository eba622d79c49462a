"""The verdict of an experiment opens with the answer of its own question: FINDINGS T10."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, cast

import pytest

from synthetic.experiments import sample
from synthetic.records import run
from trilane.lab import Answer, BadExperiment, Experiment
from trilane.lab.analysis import findings, verdict
from trilane.lab.analysis.findings import Findings, Point
from trilane.lab.analysis.paired import Observed
from trilane.lab.blocks import shuffled
from trilane.lab.experiment import experiment_file, places
from trilane.lab.experiment.form import Form
from trilane.lab.experiment.workload import ArmSpec
from trilane.lab.model.arm import Arm
from trilane.lab.model.lab import LabResult
from trilane.lab.model.measures import BY_NAME
from trilane.lab.model.record import Version
from trilane.lab.model.sample import Sample

Numbers: TypeAlias = Callable[[int, int], float]
"""Of the arm with this number in the form, in a block."""

FILES = experiment_file.files([places.shipped("experiments")])
FORMS = [(name, form) for name, path in FILES.items() for form in experiment_file.read(path).forms]
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
def test_the_verdict_opens_with_the_question_of_the_form(name: str, form: str) -> None:
    experiment = experiment_file.read(FILES[name])
    made = experiment.forms[form]
    assert made.quickened().answer == made.answer
    if made.answer is None:
        # Then no other question may hide behind that of all arms.
        several = len(made.arms) > 2 and (made.compare or made.pairs or made.published)
        assert not several or (name, form) in OF_ALL_ARMS
        return
    said = judged(experiment, few(made)).verdict
    arms = {arm.name: arm.title for arm in made.arms}
    if len(made.arms) == 2 and (made.sweep is None or made.sweep.key != "network"):
        # Of two arms the comparison of all is the answer.
        opening = ".* won: "
    elif made.answer.pair is not None:
        arm, to = (re.escape(arms[name]) for name in made.answer.pair)
        opening = f"{arm} (is at [^;.]*.[^;]* of|was better than) {to} in "
    else:
        opening = f"{made.answer.compare or BY_NAME[made.answer.measure or ''].label}: "
    at = "(At [^:]*: )?" if made.sweep is not None else ""
    assert re.match(at + opening, said, re.IGNORECASE), said


def first_request(numbers: Numbers) -> str:
    experiment = experiment_file.read(FILES["first-request"])
    return judged(experiment, experiment.forms["published"], numbers).verdict


def test_side_comparisons_follow_the_answer() -> None:
    answer, side = first_request(steps).split(verdict.BESIDE)
    assert answer.startswith("hyper, HTTP/2, bare is at 1.20× (95 % interval ")
    assert answer.endswith(") of http.client, HTTP/1.1, bare in elapsed time. ")
    assert "hyper, HTTP/2, bare is at" not in side


def test_no_difference_is_an_answer_too() -> None:
    said = first_request(lambda _arm, _block: 1.0)
    assert said.startswith("No difference beyond 5 % in elapsed time: hyper, HTTP/2, bare is at ")


def test_what_is_undecided_says_so_first() -> None:
    said = first_request(lambda arm, block: 1.0 + 0.1 * arm * (-1) ** block)
    pair = "hyper, HTTP/2, bare differs from http.client, HTTP/1.1, bare"
    assert said.startswith(f"Undecided whether {pair} in elapsed time (0.9")


def test_answers_at_all_values_stand_before_everything_else() -> None:
    experiment = experiment_file.read(FILES["handshake"])
    form = experiment.forms["fair"].only(["h2", "h3", "h3-resumed"])
    assert form.sweep is not None
    values = form.sweep.values[:2]
    form = dataclasses.replace(form, sweep=dataclasses.replace(form.sweep, values=values))
    said = judged(experiment, form).verdict
    answers, _, others = said.partition(verdict.BESIDE)
    assert answers.count("HTTP/3, new is at") == 2
    assert others.count(verdict.BESIDE) == 1


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
    matrix = experiment_file.read(FILES["network-matrix"])
    form = dataclasses.replace(matrix.forms["small"], answer=answer)
    with pytest.raises(BadExperiment, match=said):
        dataclasses.replace(matrix, forms={"small": form})
