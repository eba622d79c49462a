"""What the lab makes of the engine's own verdict on a run."""

from __future__ import annotations

from typing import Any

import pytest

from synthetic import runs
from trilane.lab.clients import executor

# Nobody may look for words in these: they are for people.
FEW, OTHER = "a reason in whatever words", "another one"


def judged(
    *reasons: str, verdict: str = "suspect", measure: str = "elapsed_s", p99: float | None = None
) -> dict[str, Any]:
    """Validity of a run whose p99 is `p99` where `measure` is compared."""
    run = runs.run("h1", verdict=verdict, reasons=reasons)
    run["latency"]["service"]["p99"] = p99
    executor.judge_samples(run, (measure,))
    validity: dict[str, Any] = run["validity"]
    return validity


def test_a_quantile_that_nobody_compares_makes_no_run_suspect() -> None:
    assert judged(FEW) == {"verdict": "valid", "reasons": [], "bound": "server_or_network"}


def test_a_quantile_that_is_compared_does() -> None:
    assert judged(FEW, measure="p99")["verdict"] == "suspect"


def test_a_run_with_a_p99_is_suspect_for_another_reason() -> None:
    assert judged(OTHER, p99=0.002) == {
        "verdict": "suspect",
        "reasons": [OTHER],
        "bound": "server_or_network",
    }


@pytest.mark.parametrize("verdict", ["suspect", "invalid"])
def test_what_is_wrong_beside_it_stays(verdict: str) -> None:
    made = judged(OTHER, FEW, verdict=verdict)
    assert (made["verdict"], made["reasons"]) == (verdict, [OTHER, FEW])


def test_a_run_in_which_nothing_was_ok_stays_invalid() -> None:
    run = runs.run("h1", rate=0, verdict="invalid", reasons=(OTHER,))
    run["latency"]["service"]["p99"] = None
    executor.judge_samples(run, ())
    assert run["validity"]["verdict"] == "invalid"
