"""What the lab makes of the engine's own verdict on a run."""

from __future__ import annotations

import pytest

from synthetic import records
from synthetic.records import altered
from trilane.lab.clients import executor
from trilane.lab.model.answer import Answer
from trilane.lab.model.validity import Reason, RunValidity

# Nobody may look for words in these: they are for people.
FEW = Reason(code="few_for_p99", verdict="suspect", text="a reason in whatever words")
OTHER = Reason(code="steal", verdict="suspect", text="another one")
FAILED = Reason(code="failed", verdict="invalid", text="a third")


def judged(*reasons: Reason, measure: str = "elapsed_s") -> RunValidity:
    """Validity of a run for these reasons, where `measure` is compared."""
    run = altered(records.run("h1"), {"validity": RunValidity.of(list(reasons))})
    return executor.judge_samples(run, (measure,)).validity


def test_a_quantile_that_nobody_compares_makes_no_run_suspect() -> None:
    assert judged(FEW) == RunValidity.of([])


def test_a_quantile_that_is_compared_does() -> None:
    assert judged(FEW, measure="p99") == RunValidity.of([FEW])


def test_a_run_that_is_judged_anew_has_no_answer_of_before() -> None:
    answer = Answer.of_sentence("too few to tell", RunValidity.of([FEW]))
    run = altered(records.run("h1"), {"answer": answer})
    assert executor.judge_samples(run, ("elapsed_s",)).answer is None
    assert executor.judge_samples(run, ("p99",)).answer == answer


@pytest.mark.parametrize("other", [OTHER, FAILED])
def test_another_reason_stays_alone(other: Reason) -> None:
    assert judged(other, FEW) == RunValidity.of([other])
    assert judged(other, FEW, measure="p99").reasons == [other, FEW]


def test_the_verdict_is_that_of_the_worst_reason_which_stands_first() -> None:
    made = RunValidity.of([OTHER, FAILED, FEW])
    assert (made.verdict, made.reasons) == ("invalid", [FAILED, OTHER, FEW])
