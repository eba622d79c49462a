"""Arms whose bodies differ are never ranked, whoever measured them."""

from __future__ import annotations

import dataclasses
import itertools
import json

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec import structs

from synthetic import labs, races, records
from synthetic.records import altered, with_runs
from trilane.lab.analysis import bodies, paired
from trilane.lab.analysis.bodies import Body, Received
from trilane.lab.analysis.paired import Observed
from trilane.lab.model import run
from trilane.lab.model.contender import Content
from trilane.lab.model.sample import Sample

THREE = {"h1": 1.0, "h2": 1.5, "h3": 0.6}
SMALL, LARGE = Body(100, "0000000a"), Body(2000, "0000000b")


def reading(race: Observed, **read: Body) -> Observed:
    """`race` with these bodies in the runs of these arms."""
    return with_runs(
        race,
        lambda sample: {"target.body": told(read[sample.arm])} if sample.arm in read else {},
    )


def told(body: Body) -> run.Body:
    """As the engine tells it."""
    assert body.crc32 is not None
    return run.Body(bytes=body.bytes, crc32=body.crc32)


def test_a_race_over_different_bodies_has_no_winner_and_is_invalid(
    comparison_schema: Draft202012Validator,
) -> None:
    race = reading(races.race({"h1": 1.8, "h2": 1.0}), h1=SMALL, h2=LARGE)
    made = paired.compare(race)
    assert made.ranking.winner is None
    assert {row.finding for row in made.ratios} == {"invalid"}
    assert made.validity.verdict == "invalid"
    assert made.verdict == "Invalid. No ranking: the arms received different bodies."
    [doubt] = made.said.confidence.doubts
    assert doubt.text == (
        "different bodies are never ranked: HTTP/1.1 read 100 bytes with CRC-32 0000000a, HTTP/2 "
        "read 2,000 bytes with CRC-32 0000000b"
    )
    assert doubt.advice == "make the server give every arm the same"
    assert list(comparison_schema.iter_errors(json.loads(msgspec.json.encode(made)))) == []


def test_bodies_of_one_size_that_differ_are_not_ranked_either() -> None:
    race = reading(races.race(THREE), h1=SMALL, h2=Body(100, "0000000c"), h3=SMALL)
    made = paired.compare(race)
    found = {(p.arm, p.to): p.finding for p in made.ranking.pairs}
    assert found["h2", "h1"] == found["h3", "h2"] == "invalid"
    # These two read the same.
    assert found["h3", "h1"] == "lower"
    assert "HTTP/1.1 and HTTP/3 read 100 bytes" in made.validity.reasons[0].text


def test_among_many_arms_the_different_ones_are_named() -> None:
    arms = labs.matrix(6)
    seen = labs.observed(arms, dict.fromkeys([arm.name for arm in arms], 2.0), blocks=8)
    odd = arms[-1].name
    made = paired.compare(
        with_runs(seen, lambda s: {"target.body": told(LARGE if s.arm == odd else SMALL)})
    )
    assert {r.finding for r in made.ratios if r.arm == odd} == {"invalid"}
    assert "different bodies are never ranked" in made.said.confidence.doubts[0].text


def test_a_page_that_changes_with_every_request_can_be_raced() -> None:
    numbers = itertools.count()

    def another(_: Sample) -> dict[str, object]:
        number = next(numbers)
        return {"target.body": told(Body(500 + number % 3, f"{number:08x}"))}

    race = with_runs(races.race(THREE), another)
    assert paired.compare(race).ranking.winner == "h2"


@pytest.mark.parametrize(
    ("first", "second", "different"),
    [
        ([SMALL] * 3, [SMALL] * 3, False),
        ([SMALL] * 3, [LARGE] * 3, True),
        ([SMALL] * 3, [], False),
        # One run on each side may have met a page that changes.
        ([SMALL], [Body(100, "0000000c")], False),
        ([SMALL] * 2, [Body(100, "0000000c")] * 2, True),
        ([SMALL] * 2, [Body(100, None)] * 2, False),
        ([SMALL] * 2, [Body(101, None)] * 2, True),
        ([Body(1, "a"), Body(9, "b")], [Body(5, "c"), Body(5, "c")], False),
        ([Body(1, "a"), Body(3, "b")], [Body(5, "c"), Body(7, "d")], True),
    ],
)
def test_when_two_arms_read_different_bodies(
    first: list[Body], second: list[Body], different: bool
) -> None:
    one, other = ([given(body) for body in each] for each in (first, second))
    assert bodies.differ(one, other) is different
    assert bodies.differ(other, one) is different


def given(body: Body, *, mean: float | None = None, status: str = "200") -> Received:
    """A run of which most responses had this body."""
    return Received(status, body.bytes if mean is None else mean, body)


@pytest.mark.parametrize(
    ("first", "second", "different"),
    [
        # The first answers of a run are not the run: FINDINGS T1.
        ([given(SMALL)] * 5, [given(SMALL, mean=2000)] * 5, True),
        ([given(SMALL)] * 5, [given(SMALL, mean=100.9)] * 5, False),
        # One run that agrees switches nothing off, and one that differs nothing on.
        ([given(SMALL)] * 5, [given(LARGE)] * 4 + [given(SMALL)], True),
        ([given(SMALL)] * 5, [given(SMALL)] * 4 + [given(LARGE)], False),
        ([given(SMALL)] * 5, [given(Body(100, "0000000c"))] * 4 + [given(SMALL)], True),
        # A page that was replaced in the middle.
        ([given(SMALL)] * 3 + [given(LARGE)] * 2, [given(SMALL)] * 3 + [given(LARGE)] * 2, False),
        # FINDINGS T2.
        ([given(SMALL)] * 2, [given(SMALL, status="204")] * 2, True),
        ([given(SMALL)] * 2, [Received()] * 2, False),
    ],
)
def test_most_runs_decide(first: list[Received], second: list[Received], different: bool) -> None:
    assert bodies.differ(first, second) is different
    assert bodies.differ(second, first) is different


def lying(sample: Sample) -> dict[str, object]:
    """As the engine reports a server that gives HTTP/2 10,000 bytes at first and then 10."""
    first = Body(10_000, "0000000b")
    if sample.arm != "h2":
        most = run.FrequentBody(bytes=10_000, crc32="0000000b", count=780)
        return {
            "target.body": told(first),
            "bodies": run.Bodies(mean_bytes=10_000.0, summed=780, most=most),
        }
    most = run.FrequentBody(bytes=10, crc32="0000000a", count=779)
    return {
        "target.body": told(first),
        "bodies": run.Bodies(mean_bytes=12.0, summed=780, most=most),
    }


def test_a_server_that_lies_to_the_first_callers_is_not_ranked() -> None:
    made = paired.compare(with_runs(races.race(THREE), lying))
    found = {(p.arm, p.to): p.finding for p in made.ranking.pairs}
    assert found == {("h2", "h1"): "invalid", ("h3", "h2"): "invalid", ("h3", "h1"): "lower"}
    assert made.validity.reasons[0].text == (
        "different bodies are never ranked: HTTP/1.1 and HTTP/3 read 10,000 bytes with CRC-32 "
        "0000000b, HTTP/2 read 12.0 bytes on average"
    )
    row = next(row for row in made.ledger.rows if row.name == "response body (bytes)")
    assert (row.equal, row.values) == (False, {"h1": 10_000, "h2": 12, "h3": 10_000})


def test_a_run_that_was_given_another_body_is_named() -> None:
    def once(sample: Sample) -> dict[str, object]:
        odd = (sample.arm, sample.block, sample.slot) == ("h2", 3, 0)
        return {"target.body": told(LARGE if odd else SMALL)}

    made = paired.compare(with_runs(races.race(THREE), once))
    assert made.ranking.winner == "h2"
    assert made.validity.verdict == "suspect"
    reason = made.validity.reasons[0]
    assert reason.code == "different_bodies"
    assert reason.text == (
        "HTTP/2: 1 of 9 runs read 2,000 bytes with CRC-32 0000000b, "
        "most runs read 100 bytes with CRC-32 0000000a"
    )
    assert made.verdict.startswith("Suspect. HTTP/2 is fastest: ")


@pytest.mark.parametrize("statuses", [("200", "204"), ("302", "200")])
def test_arms_with_different_statuses_are_not_ranked(statuses: tuple[str, str]) -> None:
    of = dict(zip(("h1", "h2"), statuses, strict=True))
    race = with_runs(
        races.race({"h1": 5.1, "h2": 1.0}), lambda sample: {"status": {of[sample.arm]: 1000}}
    )
    made = paired.compare(race)
    assert made.verdict == "Invalid. No ranking: the arms received different statuses."
    assert made.said.confidence.doubts[0].text == (
        f"different statuses are never ranked: HTTP/1.1 got {of['h1']}, HTTP/2 got {of['h2']}"
    )
    assert made.validity.reasons[0].code == "different_statuses"
    row = next(row for row in made.ledger.rows if row.name == "response status")
    assert (row.equal, row.values) == (False, of)


def test_the_bytes_of_response_fields_are_a_row_of_the_ledger() -> None:
    per_response = {"h1": 79, "h2": 3700}
    race = with_runs(
        races.race({"h1": 1.0, "h2": 1.5}),
        lambda sample: {
            "status": {"200": 10},
            "bytes.header_received_decoded": 10 * per_response[sample.arm] + 1,
        },
    )
    ledger = paired.compare(race).ledger
    row = next(row for row in ledger.rows if row.name == "response fields (bytes)")
    assert (row.equal, row.values) == (False, per_response)


def contender(digest: int | None = 10 * 0xA) -> run.Run:
    content = Content(bytes=1000, digest=digest, expected=None)
    changes = {"target.body": None, "requests.ok": 10, "content": content}
    return altered(records.run("h1"), changes)


def test_the_body_of_a_client_under_test_is_that_of_the_engine() -> None:
    def read(told: run.Run) -> tuple[float | None, Body | None]:
        received = bodies.of_run(told)
        return received.mean_bytes, received.body

    assert read(contender()) == (100, SMALL)
    assert read(contender(digest=None)) == (100, Body(100, None))
    # Ten bodies that are not all the same have no one sum.
    assert read(contender(digest=101)) == (100, None)
    assert read(altered(contender(), {"plan.request.coding": "gzip"})) == (None, None)


def test_answers_of_a_service_in_different_formats_are_compared() -> None:
    race = reading(races.race({"h1": 1.0, "h2": 1.5}), h1=SMALL, h2=LARGE)
    arms = [
        structs.replace(arm, message=message)
        for arm, message in zip(race.arms, ("json", "protobuf"), strict=True)
    ]
    made = paired.compare(dataclasses.replace(race, arms=arms))
    assert made.ranking.winner == "h2"


def test_no_ratio_of_arms_that_read_different_bodies_is_used_elsewhere() -> None:
    race = reading(races.race(THREE), h1=SMALL, h2=LARGE, h3=SMALL)
    table = paired.Table(race)
    assert not table.comparable("h2", "h1")
    assert table.comparable("h3", "h1")
