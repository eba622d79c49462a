"""When workers begin, in virtual time: `docs/cluster-simulation.md` in a small form."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from trilane.cluster import clock
from trilane.cluster.frames import REPORTS, WINDOW, Frame
from trilane.cluster.simulation import start
from trilane.cluster.simulation.recorded import Recorded
from trilane.cluster.simulation.start import LINKS, Assumed, Link

EXACT = Assumed(drift=0.0, late_s=1e-12)
NANOSECOND = 1e-9


def begun(link: Link, seed: int = 1, workers: int = 20, **asked: object) -> list[start.Begun]:
    return start.run([link] * workers, random.Random(seed), **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
@pytest.mark.parametrize("probes", [1, clock.PROBES])
def test_no_estimate_is_farther_off_than_it_says(link: Link, probes: int) -> None:
    for seed in range(20):
        for worker in begun(link, seed, probes=probes):
            assert abs(worker.wrong) <= worker.bound


def test_an_even_link_without_jitter_says_the_truth_and_an_uneven_one_half_of_the_difference() -> (
    None
):
    even = Link("even", 5e-3, 5e-3, 1e-12, 1e-12)
    for worker in begun(even, assumed=EXACT):
        assert abs(worker.wrong) <= 2 * NANOSECOND
        assert worker.bound == pytest.approx(5e-3, abs=2 * NANOSECOND)
    for worker in begun(replace(even, there=9e-3, back=1e-3), assumed=EXACT):
        assert worker.wrong == pytest.approx(4e-3, abs=2 * NANOSECOND)


def test_a_worker_begins_as_much_too_early_as_it_takes_the_other_clock_to_be_ahead() -> None:
    for link in LINKS:
        for worker in begun(link, assumed=EXACT):
            assert worker.late == pytest.approx(-worker.wrong, abs=5 * NANOSECOND)


def test_the_best_of_many_probes_is_better_than_one() -> None:
    full = next(link for link in LINKS if link.jitter_there > link.there)

    def worst(probes: int) -> float:
        return max(abs(w.wrong) for w in begun(full, workers=200, probes=probes))

    assert worst(clock.PROBES) < worst(1) / 2


def test_a_clock_that_runs_too_fast_is_early_by_the_time_between_probe_and_start() -> None:
    even = Link("even", 1e-3, 1e-3, 1e-12, 1e-12)
    waited = Assumed(drift=50e-6, late_s=1e-12, prepared_s=1e-9, lead_s=100.0)
    drifts = [abs(worker.late) for worker in begun(even, workers=500, assumed=waited)]
    # Half of what is normally distributed lies within 0.674 standard deviations.
    assert sorted(drifts)[250] == pytest.approx(0.674 * 50e-6 * 100, rel=0.15)


def test_the_table_has_a_row_for_each_shape() -> None:
    shapes = start.shapes([2, 5])
    lines = list(start.report(shapes, runs=2, seed=1))
    assert len(lines) == 2 + len(shapes)
    assert lines == list(start.report(shapes, runs=2, seed=1))
    assert all(line.count("|") == len(start.HEAD) + 1 for line in lines)
    assert all("| 100 % |" in line for line in lines[2:])


@pytest.mark.parametrize(
    ("worker", "number"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (999, b"\xe7\x07")]
)
def test_a_report_stands_for_that_of_another_worker(worker: int, number: bytes) -> None:
    said = [Frame(WINDOW, b"a second"), Frame(REPORTS, b"\0the rest")]
    told = list(Recorded(1000, ["http://x/"], said).frames(worker))
    assert told == [said[0], Frame(REPORTS, number + b"the rest")]


def test_a_report_that_is_written_otherwise_is_refused() -> None:
    with pytest.raises(ValueError, match="do not begin with the number of a thread"):
        list(Recorded(1, [], [Frame(REPORTS, b"\1")]).frames(5))
