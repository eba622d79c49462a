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
from trilane.lab.analysis.bodies import Body
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
    assert made.verdict == (
        "No winner: different bodies are never ranked: HTTP/1.1 read 100 bytes with CRC-32 "
        "0000000a, HTTP/2 read 2,000 bytes with CRC-32 0000000b."
    )
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
    assert "different bodies are never ranked" in made.verdict


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
    assert bodies.differ(first, second) is different
    assert bodies.differ(second, first) is different


def contender(digest: int | None = 10 * 0xA) -> run.Run:
    content = Content(bytes=1000, digest=digest, expected=None)
    changes = {"target.body": None, "requests.ok": 10, "content": content}
    return altered(records.run("h1"), changes)


def test_the_body_of_a_client_under_test_is_that_of_the_engine() -> None:
    assert bodies.of_run(contender()) == SMALL
    assert bodies.of_run(contender(digest=None)) == Body(100, None)
    # Ten bodies that are not all the same have no one sum.
    assert bodies.of_run(contender(digest=101)) is None
    assert bodies.of_run(altered(contender(), {"plan.request.coding": "gzip"})) is None


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
