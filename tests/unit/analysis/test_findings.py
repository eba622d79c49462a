from __future__ import annotations

import dataclasses
import io
import re
from typing import Any

import pytest
from msgspec import structs
from rich.console import Console

from synthetic import labs, races, records
from synthetic.records import validity, with_runs
from trilane.lab.analysis import findings, looks, paired
from trilane.lab.analysis.findings import Findings, Point
from trilane.lab.analysis.paired import Observed
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.experiment.form import Expect, Form, Published, Stats, Sweep
from trilane.lab.experiment.workload import Workload
from trilane.lab.model.answer import MOST_WORDS, Answer
from trilane.lab.model.lab import Crossing, LabResult, Post
from trilane.lab.model.run import Body
from trilane.lab.model.validity import Validity
from trilane.report import html, labels, pages, tables, terminal

THREE = {"h1": 1.0, "h2": 1.5, "h3": 0.6}
WORKLOAD = Workload(count=1000)


def result(
    factors: dict[str, float],
    seed: int = 1,
    points: dict[float, Observed] | None = None,
    **changes: Any,
) -> LabResult:
    """A judged experiment whose arms are those of a race; `points` are those of a sweep."""
    observed: dict[Any, Observed] = {None: races.race(factors, seed=seed), **(points or {})}
    if points:
        del observed[None]
    form = Form(
        name="fair",
        baseline="h1",
        rank="requests_per_s",
        measures=("requests_per_s", "p50"),
        workload=WORKLOAD,
        arms=tuple(WORKLOAD.arm("engine", name, name=name) for name in factors),
        stats=Stats(blocks=7),
        **changes,
    )
    experiment = Experiment("trial", "A trial", "Which?", {"fair": form})
    return findings.result(
        Findings(
            experiment=experiment,
            form=form,
            quick=False,
            points=[Point(value, form, seen) for value, seen in observed.items()],
            command="trilane lab run trial --seed 1",
            replay="trilane lab replay x",
            started_at="2026-11-20T10:00:00Z",
            seed=1,
            machine={},
            interrupted=False,
        )
    )


def test_the_posts_ratio_stands_beside_ours() -> None:
    rows = (
        Published("requests_per_s", "h2", "h1", (81153.0, 55760.0), where="the table"),
        # Neither is the baseline: the ratio is computed for itself.
        Published("requests_per_s", "h3", "h2", (38434.0, 81153.0), where="the table"),
    )
    first, second = result(THREE, published=rows).published
    assert first.published.ratio == pytest.approx(1.455, abs=0.001)
    assert first.ours is not None
    assert first.ours.ratio == pytest.approx(1.5, rel=0.03)
    assert first.ours.finding == "higher"
    assert second.ours is not None
    assert second.ours.ratio == pytest.approx(0.4, rel=0.03)
    assert second.ours.low < 0.4 < second.ours.high


def test_a_ratio_beside_the_posts_is_the_one_that_was_judged() -> None:
    made = result(THREE, published=(Published("requests_per_s", "h2", "h3", (2.0, 1.0)),))
    pairs = made.points[0].comparison.ranking.pairs
    judged = next(row for row in pairs if (row.arm, row.to) == ("h3", "h2"))
    ours = made.published[0].ours
    assert ours is not None
    assert judged.finding == "lower"
    assert ours.finding == "higher"
    told = (judged.ratio, judged.high, judged.low)
    assert (ours.ratio, ours.low, ours.high) == pytest.approx([1 / (n or 0) for n in told])


@pytest.mark.parametrize(
    ("low", "high", "met"), [(1.4, 1.6, True), (2.0, 3.0, False), (0.5, 1.0, False)]
)
def test_a_gate_is_met_or_breached_only_by_the_whole_interval(
    low: float, high: float, met: bool
) -> None:
    gate = Expect("requests_per_s", "h2", "h1", low, high)
    assert [row.met for row in result(THREE, expect=(gate,)).expect] == [met]


def test_a_budget_is_judged_by_itself_at_the_level_of_its_look() -> None:
    gate = Expect.forbid("requests_per_s", "h2", "h1", 1.4, above=True)
    planned = looks.planned(30, budgets=True)
    race = races.race(THREE, blocks=30, looks=planned, budgets=(gate,))
    seen = dataclasses.replace(race, samples=[s for s in race.samples if s.block < 10])
    made = result(THREE, points={0.0: seen}, expect=(gate,))
    seen_alone = paired.compare(seen)
    [row] = made.expect
    assert (row.met, row.level, row.p) == (False, 1 - 2 * 0.00277, 2**-10)
    # What makes the command fail is its headline.
    assert made.verdict.startswith("Budget breached: requests/s +5")
    assert made.verdict.endswith(", allowed +40 %.")
    # What was found besides is told after it.
    assert made.said.details == [seen_alone.verdict]
    assert row.interval is not None
    assert 1.4 < row.interval[0] < row.interval[1]
    # A gate that is no budget has the interval of the table, and no test of its own.
    plain = dataclasses.replace(seen, budgets=())
    [row] = result(THREE, points={0.0: plain}, expect=(gate,)).expect
    assert (row.met, row.level, row.p) == (False, None, None)


def test_budgets_are_the_headline_the_breached_ones_first() -> None:
    gates = (
        Expect.forbid("p50", "h2", "h1", 9.0, above=True),
        # What may not fall is told as it was asked for, not as its inverse.
        Expect.forbid("requests_per_s", "h3", "h1", 0.95, above=False),
    )
    race = races.race(THREE, budgets=gates, looks=looks.planned(12, budgets=True))
    said = result(THREE, points={0.0: race}, expect=gates).said
    assert said.headline.startswith("1 of 2 budgets breached: requests/s -")
    assert said.headline.endswith(", allowed -5 %.")
    first, second, _ = said.details
    assert first.endswith(said.headline.removeprefix("1 of 2 budgets "))
    assert second.startswith("Budget met: p50 latency ")
    assert second.endswith(", allowed +800 %.")


def looked(factors: dict[str, float], blocks: int) -> Observed:
    """A race of at most 30 blocks that looks at its results, of which so many were made."""
    planned = looks.planned(30)
    race = races.race(factors, blocks=30, looks=planned)
    return dataclasses.replace(race, samples=[s for s in race.samples if s.block < blocks])


def test_a_crossing_has_the_strictest_level_of_the_looks_at_its_points() -> None:
    first, _, third, *_ = looks.planned(30)
    slower, faster = {"h1": 1.0, "h2": 0.5}, {"h1": 1.0, "h2": 2.0}
    sweep = Sweep("in_flight", (100, 1000, 10_000), "requests", (("h2", "h1"),))

    def found(*made: int) -> Crossing:
        factors = (slower, faster, faster)
        seen = {
            value: looked(each, blocks)
            for value, each, blocks in zip((1e2, 1e3, 1e4), factors, made, strict=True)
        }
        [row] = result(slower, points=seen, sweep=sweep).crossings
        assert row.low is not None
        return row

    both = found(third.blocks, first.blocks, third.blocks)
    assert both.level == 1 - first.alpha
    assert "(99.3 % interval" in both.text
    # The last point was not reached: it has no look that could speak for the others.
    cut = found(third.blocks, third.blocks, 0)
    assert cut.level == 1 - third.alpha
    assert f"({looks.percent(1 - third.alpha)} interval" in cut.text
    assert "95 %" not in both.text + cut.text


def test_a_crossing_of_suspect_runs_is_called_suspect() -> None:
    """FINDINGS T4."""
    sweep = Sweep("in_flight", (10, 100), "requests", (("h2", "h1"),))
    points = {10.0: races.race({"h1": 1.0, "h2": 0.5}), 100.0: races.race({"h1": 1.0, "h2": 2.0})}
    trusted = result(THREE, points=points, sweep=sweep).verdict
    assert re.fullmatch(
        r"HTTP/1\.1 is ahead below 3\d requests \(3.*–3\d\), HTTP/2 above\.", trusted
    )
    doubted = with_runs(points[100.0], lambda _: {"validity": validity("steal")})
    said = result(THREE, points={**points, 100.0: doubted}, sweep=sweep).verdict
    assert said == f"Suspect. {trusted}"


def test_a_crossing_in_a_time_has_the_shorter_one_ahead() -> None:
    said = findings.answered(before(labs.strategies())).said.headline
    assert said == "async is ahead below 6,200 requests (4,800–8,900), async + processes above."


def test_noise_breaks_no_gate() -> None:
    row = Published("requests_per_s", "h2", "h1", (1.0, 1.0))
    ours = result(THREE, published=(row,)).published[0].ours
    assert ours is not None
    above = (ours.ratio + ours.high) / 2
    # The centre lies below the gate, the interval reaches into it.
    gate = Expect("requests_per_s", "h2", "h1", above, 9.0)
    judged = result(THREE, expect=(gate,)).expect[0]
    assert judged.ratio is not None
    assert judged.ratio < above
    assert judged.met is None
    assert labels.gate_word(judged) == "undecided"


def test_a_gate_that_was_not_measured_says_so() -> None:
    [row] = result(THREE, expect=(Expect("requests_per_s", "h2", "h1", 0.5, 2.0),)).expect
    assert labels.gate_word(row) == "met"
    assert row.interval is not None
    assert row.ratio is not None
    assert row.interval[0] < row.ratio < row.interval[1]
    assert labels.gate_word(structs.replace(row, ratio=None, met=None)) == "not measured"


def test_what_a_quick_run_asks_otherwise_is_said_in_every_report() -> None:
    asked = ("300 requests instead of 3,000",)
    assert result(THREE, altered=asked).experiment.altered == list(asked)
    made = labs.bookstore(6)
    made = structs.replace(
        made, experiment=structs.replace(made.experiment, altered=list(asked), source=None)
    )
    said = "Asked otherwise than the form says: 300 requests instead of 3,000"
    console = Console(width=200, record=True, file=io.StringIO())
    terminal.show(made, console)
    printed = [console.export_text(), html.render(made), html.fragment(made)]
    printed += [tables.markdown(made), pages.measured(made)]
    assert [said in text for text in printed] == [True] * 5
    post = Post(title="A post", author="", date="", claim="")
    of_post = structs.replace(made, experiment=structs.replace(made.experiment, source=post))
    assert labels.remarks(of_post) == f"{said}; so the published numbers are not set beside this."
    assert labels.remarks(result(THREE)) is None
    shorter = ("1 s instead of 20 s",)
    row = Published("requests_per_s", "h2", "h1", (1.0, 1.0))
    assert labels.remarks(result(THREE, shortened=shorter, published=(row,))) == (
        "Runs made shorter by --quick: 1 s instead of 20 s, beside the numbers of the post."
    )


def test_numbers_of_a_quick_build_are_said_not_to_be_for_publishing() -> None:
    observed = races.race(THREE)
    samples = []
    for sample in observed.samples:
        assert sample.run is not None
        built = structs.replace(sample.run.trilane, profile="quick-build")
        run = structs.replace(sample.run, trilane=built)
        samples.append(structs.replace(sample, run=run))
    quick = result(THREE, points={1.0: dataclasses.replace(observed, samples=samples)})
    assert labels.remarks(quick) == (
        "Measured by a quick build of Trilane: `make build` makes the one whose numbers to publish."
    )
    assert labels.remarks(result(THREE)) is None


def test_many_arms_are_compared_with_the_baseline_and_no_winner_is_named() -> None:
    observed = races.race(THREE, blocks=8)
    arms = list(observed.arms)
    samples = list(observed.samples)
    for number in range(3):
        extra = structs.replace(arms[1], name=f"more-{number}", title=f"more {number}")
        arms.append(extra)
        samples += [structs.replace(s, arm=extra.name) for s in observed.samples if s.arm == "h2"]
    many = dataclasses.replace(observed, arms=arms, samples=samples)
    made = paired.compare(many)
    assert made.ranking.pairs == []
    assert made.ranking.winner is None
    assert made.verdict.startswith("4 of 5 arms are faster than HTTP/1.1, most ")
    assert made.verdict.endswith("); 1 the reverse.")


def test_of_two_that_lead_both_are_named() -> None:
    observed = races.race(THREE, blocks=8)
    twin = structs.replace(observed.arms[1], name="twin", title="a twin")
    samples = [
        *observed.samples,
        *(structs.replace(s, arm="twin") for s in observed.samples if s.arm == "h2"),
    ]
    made = paired.compare(
        dataclasses.replace(observed, arms=[*observed.arms, twin], samples=samples)
    )
    assert made.ranking.winner is None
    assert len(made.ranking.pairs) == 6
    assert re.match(r"(HTTP/2|a twin) leads: 1\.5\d× HTTP/1\.1 \(", made.verdict)
    assert re.search(
        r"; (HTTP/2|a twin) cannot be told from it \(1\.000–1\.000×\)\.$", made.verdict
    )


def before(made: LabResult) -> LabResult:
    """The result as a version without answers kept it."""
    bare = made.with_comparisons(lambda each: structs.replace(each, answer=None))
    return structs.replace(bare, answer=None, verdict="A long sentence")


def test_a_result_without_an_answer_is_judged_anew() -> None:
    different = with_runs(
        races.race({"h1": 1.8, "h2": 1.0}),
        lambda s: {"target.body": Body(bytes=len(s.arm) if s.arm == "h1" else 9, crc32="0a")},
    )
    sweep = Sweep("in_flight", (10, 1000), "requests")
    slower = races.race({"h1": 1.0, "h2": 0.5})
    gate = Expect("requests_per_s", "h2", "h1", low=0.0, high=1.02)
    spent = races.race(THREE, blocks=12, looks=looks.planned(12, budgets=True), budgets=(gate,))
    for made in (
        result(THREE),
        result({"h1": 1.8, "h2": 1.0}, points={0.0: different}),
        result(
            {"h1": 1.0, "h2": 1.5},
            points={10.0: races.race({"h1": 1.0, "h2": 1.5}), 1000.0: slower},
            sweep=sweep,
        ),
        result(THREE, points={0.0: spent}),
        labs.bookstore(12),
    ):
        anew = findings.answered(before(made))
        assert anew.answer == made.answer
        assert anew.points[0].comparison.answer == made.points[0].comparison.answer
        assert findings.answered(made) is made


def test_a_long_sentence_of_before_is_cut_and_kept_whole_below() -> None:
    long = "No winner: " + ", ".join(f"undecided whether {n} differs" for n in range(20)) + "."
    said = Answer.of_sentence(long, Validity.of([]))
    assert len(said.headline.removesuffix(" …").split()) < MOST_WORDS
    assert said.headline.endswith(" …")
    assert said.details == [long]
    short = Answer.of_sentence("HTTP/2 won.", Validity.of([]))
    assert (short.headline, short.details) == ("HTTP/2 won.", [])


def over(*factors: float) -> LabResult:
    """Two arms over as many values, at each of which h2 is so many times as fast."""
    values = tuple(10**n for n in range(len(factors)))
    points = {
        float(value): races.race({"h1": 1.0, "h2": factor}, seed=7, noise=0.001)
        for value, factor in zip(values, factors, strict=True)
    }
    sweep = Sweep("in_flight", values, "requests")
    return result({"h1": 1.0, "h2": 1.0}, points=points, sweep=sweep)


def test_what_is_surely_within_the_margin_counts_as_equal_over_a_sweep() -> None:
    made = over(1.5, 1.02, 0.98)
    assert [row.finding for point in made.points for row in point.comparison.ratios[:1]] == [
        "higher",
        "higher",
        "lower",
    ]
    assert made.said.headline == "HTTP/2 beats HTTP/1.1 in requests/s at 1 of 3 values; 2 equal."
    assert made.said.details[-1].startswith("HTTP/2 is equal at: 10 requests; 100 requests")


def test_a_sweep_has_the_causes_of_its_first_and_of_its_last_value() -> None:
    def full(factor: float) -> Observed:
        race = races.race({"h1": 1.0, "h2": factor}, seed=7, noise=0.001)
        cost = {"h1": 8.0, "h2": 4.0}
        samples = [
            structs.replace(
                each, server=records.server(cost[each.arm] * (1 + each.block / 100), busy=0.97)
            )
            for each in race.samples
        ]
        return dataclasses.replace(race, samples=samples)

    points = {float(10**n): full(factor) for n, factor in enumerate((1.0, 1.5, 1.5, 2.0))}
    sweep = Sweep("in_flight", (1, 10, 100, 1000), "requests")
    said = result({"h1": 1.0, "h2": 1.0}, points=points, sweep=sweep).said
    limit = "the server's CPU was the limit: a request costs it 4.12 µs over HTTP/2 and 8.24 µs"
    assert [told.partition(" over HTTP/1.1.")[0] for told in said.because] == [
        f"At 10 requests: {limit}",
        f"At 1,000 requests: {limit}",
    ]


def test_of_one_value_that_was_measured_its_own_headline_is_the_answer() -> None:
    made = over(1.5, 1.5)
    empty = dataclasses.replace(races.race({"h1": 1.0, "h2": 1.5}), samples=[])
    points = {1.0: races.race({"h1": 1.0, "h2": 1.5}), 10.0: empty}
    sweep = Sweep("in_flight", (1, 10), "requests")
    one = result({"h1": 1.0, "h2": 1.5}, points=points, sweep=sweep)
    assert "at 2 of 2 values" in made.said.headline
    assert one.said.headline == one.points[0].comparison.said.headline
