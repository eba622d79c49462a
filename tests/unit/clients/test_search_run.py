"""Which run stands for a search, and what it says of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from synthetic import searches
from trilane.lab.clients import search_run
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.model.capacity import Capacity
from trilane.lab.model.run import Run
from trilane.lab.model.search import Search


def found(**options: Any) -> Search:
    return msgspec.convert(searches.search(**options), Search)


def stands(**options: Any) -> tuple[Run, Capacity]:
    run = search_run.run_of(found(**options))
    assert run.capacity is not None
    return run, run.capacity


def test_it_is_a_run_at_the_rate_that_held() -> None:
    run, capacity = stands(low=10_000.0, high=10_400.0)
    assert run.plan.rate_per_s == 10_000
    assert run.validity.verdict == "valid"
    assert capacity.per_s == pytest.approx((10_000 * 10_400) ** 0.5)
    assert capacity.broke == ["p99<10ms"]
    assert len(capacity.tried) == 2 + 2 * searches.REPEATS
    assert "lies between 10,000 and 10,400 requests/s" in capacity.answer()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"low": None}, "it holds at no rate that was tried, down to 10,400"),
        ({"high": None}, "it holds at every rate that was tried, up to 10,000"),
        ({"client_bound": True}, "it was this client that could not send more"),
    ],
)
def test_without_an_answer_it_is_invalid(options: dict[str, Any], said: str) -> None:
    run, capacity = stands(**options)
    assert capacity.per_s is None
    assert [reason.code for reason in run.validity.reasons] == ["no_capacity"]
    assert run.validity.verdict == "invalid"
    assert said in run.validity.reasons[0].text


def test_what_holds_nowhere_names_the_lowest_rate_that_was_tried() -> None:
    """FINDINGS N9."""
    document = searches.search(low=None)
    document["trials"].append({**document["trials"][0], "rate_per_s": 5_200.0})
    run = search_run.run_of(msgspec.convert(document, Search))
    assert "no rate that was tried, down to 5,200" in run.validity.reasons[0].text


def test_goals_judge_what_the_engine_would() -> None:
    document = searches.search(goals=["error_rate<5%"])
    for trial in document["trials"]:
        reason = {"code": "failed", "verdict": "invalid", "text": "1 % failed"}
        trial["run"]["validity"] = {"verdict": "invalid", "reasons": [reason], "bound": None}
    run = search_run.run_of(msgspec.convert(document, Search))
    assert run.validity.verdict == "valid"


def test_what_could_not_be_sent_is_one_reason_whatever_the_rate() -> None:
    document = searches.search()
    for number, trial in enumerate(document["trials"]):
        if not trial["held"]:
            trial["why"] = [f"{9000 + number}.1 requests/s were all that could be sent"]
    capacity = msgspec.convert(document, Search).capacity
    assert capacity.broke == ["the rate could not be sent"]


def test_a_search_without_a_run_is_none() -> None:
    document = {**searches.search(), "trials": []}
    with pytest.raises(RunFailed, match="without a run"):
        search_run.run_of(msgspec.convert(document, Search))
