"""What the lab makes of the engine's own verdict on a run."""

from __future__ import annotations

import pytest

from synthetic import records
from synthetic.records import altered
from trilane.lab.clients import executor
from trilane.lab.model.run import Validity

# Nobody may look for words in these: they are for people.
FEW, OTHER = "a reason in whatever words", "another one"


def judged(
    *reasons: str, verdict: str = "suspect", measure: str = "elapsed_s", p99: float | None = None
) -> Validity:
    """Validity of a run whose p99 is `p99` where `measure` is compared."""
    run = records.run("h1", verdict=verdict, reasons=reasons)
    run = altered(run, {"latency.service.p99": p99})
    return executor.judge_samples(run, (measure,)).validity


def test_a_quantile_that_nobody_compares_makes_no_run_suspect() -> None:
    assert judged(FEW) == Validity(verdict="valid", reasons=[], bound="server_or_network")


def test_a_quantile_that_is_compared_does() -> None:
    assert judged(FEW, measure="p99").verdict == "suspect"


def test_a_run_with_a_p99_is_suspect_for_another_reason() -> None:
    assert judged(OTHER, p99=0.002) == Validity(
        verdict="suspect", reasons=[OTHER], bound="server_or_network"
    )


@pytest.mark.parametrize("verdict", ["suspect", "invalid"])
def test_what_is_wrong_beside_it_stays(verdict: str) -> None:
    made = judged(OTHER, FEW, verdict=verdict)
    assert (made.verdict, made.reasons) == (verdict, [OTHER, FEW])


def test_a_run_in_which_nothing_was_ok_stays_invalid() -> None:
    run = records.run("h1", rate=0, verdict="invalid", reasons=(OTHER,))
    run = altered(run, {"latency.service.p99": None})
    assert executor.judge_samples(run, ()).validity.verdict == "invalid"
