"""Which blocks are made again, and which of their runs count."""

from __future__ import annotations

import pytest
from msgspec import structs

from synthetic import races
from synthetic.records import altered
from trilane.lab.analysis import disturbed
from trilane.lab.model.sample import Sample
from trilane.lab.model.validity import Reason, ReasonCode, RunValidity

TWO = {"h1": 1.0, "h2": 1.5}


def samples(*blocks: int, code: ReasonCode = "steal") -> list[Sample]:
    """Ten blocks, of which these have a run with this reason."""
    made = list(races.race(TWO, blocks=10).samples)
    doubt = RunValidity.of([Reason(code=code, verdict="suspect", text="doubted")])
    for block in blocks:
        place = next(number for number, each in enumerate(made) if each.block == block)
        assert made[place].run is not None
        made[place] = altered(made[place], {"run.validity": doubt})
    return made


def test_what_others_did_makes_a_block_be_made_again() -> None:
    assert disturbed.blocks(samples(7), 10) == [7]
    assert disturbed.blocks(samples(), 10) == []
    busy = samples()
    assert busy[0].server is not None
    busy[0] = structs.replace(busy[0], server=structs.replace(busy[0].server, others_busy=0.5))
    assert disturbed.blocks(busy, 10) == [0]


@pytest.mark.parametrize("code", ["late", "drift", "worker_busy", "failed", "cold_start"])
def test_what_a_run_did_itself_does_not(code: ReasonCode) -> None:
    assert disturbed.blocks(samples(7, code=code), 10) == []


def test_at_most_a_quarter_is_made_again_and_what_was_stays() -> None:
    everything = samples(*range(10))
    assert [disturbed.blocks(everything, count) for count in (3, 4, 8, 10)] == [
        [],
        [0],
        [0, 1],
        [0, 1],
    ]
    # A block that is disturbed the second time as well is not made a third time.
    twice = [*everything, *(structs.replace(s, again=True) for s in everything if s.block == 0)]
    assert disturbed.blocks(twice, 4) == [0]


def test_the_second_time_counts_once_it_is_complete() -> None:
    first = samples(3)
    second = [structs.replace(each, again=True) for each in first if each.block == 3]
    assert disturbed.judged(first) == first
    assert disturbed.judged([*first, *second[:-1]]) == first
    assert disturbed.judged([*first, *second]) == [
        *(each for each in first if each.block != 3),
        *second,
    ]
