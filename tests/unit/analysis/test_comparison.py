from __future__ import annotations

import dataclasses
import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec import structs
from rich.console import Console

from synthetic import labs, races, records
from synthetic.records import altered, validity, with_runs
from trilane.lab.analysis import paired
from trilane.lab.analysis.paired import Observed
from trilane.lab.experiment.form import Answer
from trilane.lab.model.contender import Syscalls, Wire
from trilane.lab.model.lab import LabResult
from trilane.lab.model.measures import BY_NAME, RATE, WIRE
from trilane.lab.model.network import Check, Lateness, OnNetwork, Packets, Way
from trilane.lab.model.run import Body
from trilane.lab.model.sample import Sample
from trilane.lab.model.sent_by import SentBy
from trilane.lab.model.validity import Reason, RunValidity
from trilane.report import accounts, html, terminal

THREE = {"h1": 1.0, "h2": 1.5, "h3": 0.6}


def with_run(race: Observed, arm: str, **changes: Any) -> Observed:
    """`race` with the first run of `arm` changed."""
    index = next(i for i, sample in enumerate(race.samples) if sample.arm == arm)
    samples = list(race.samples)
    samples[index] = structs.replace(samples[index], **changes)
    return dataclasses.replace(race, samples=samples)


@pytest.mark.parametrize(
    "race",
    [
        races.race(THREE),
        races.race({"h1": 1.0, "h2c": 1.2}, server=None),
        races.race({"h2": 1.0}, blocks=1, interrupted=True),
        with_run(races.race(THREE), "h3", run=None, problem="it died", server=None),
    ],
    ids=["three arms", "foreign server", "one arm, one block", "a lost run"],
)
def test_a_comparison_follows_its_schema(
    race: Observed, comparison_schema: Draft202012Validator
) -> None:
    made = json.loads(msgspec.json.encode(paired.compare(race)))
    assert [error.message for error in comparison_schema.iter_errors(made)] == []


def test_the_winner_is_named_with_ratio_interval_and_cost() -> None:
    made = paired.compare(races.race(THREE))
    assert made.ranking.winner == "h2"
    assert re.fullmatch(
        r"HTTP/2 is fastest: 1\.5\d× HTTP/1\.1 \(1\.5\d–1\.5\d\) "
        r"and 2\.5\d× HTTP/3 \(2\.4\d–2\.5\d\)\.",
        made.verdict,
    )
    assert [figure.label for figure in made.said.figures] == [
        "HTTP/2",
        "HTTP/1.1",
        "HTTP/3",
        "HTTP/2 ÷ HTTP/1.1",
    ]


def test_the_baseline_can_win() -> None:
    made = paired.compare(races.race({"h1": 1.0, "h2": 0.8, "h3": 0.4}))
    assert made.ranking.winner == "h1"
    assert made.verdict.startswith("HTTP/1.1 is fastest: 1.2")


def test_two_equal_leaders_share_no_prize() -> None:
    made = paired.compare(races.race({"h1": 1.0, "h2": 1.5, "h3": 1.5}))
    assert made.ranking.winner is None
    assert made.verdict.startswith(("HTTP/2 leads: 1.5", "HTTP/3 leads: 1.5"))
    assert " cannot be told from it (" in made.verdict
    findings = {r.arm: r.finding for r in made.ratios if r.measure == "requests_per_s"}
    assert findings == {"h2": "higher", "h3": "higher"}


def test_equal_arms_are_called_equal() -> None:
    made = paired.compare(races.race({"h1": 1.0, "h2": 1.0, "h3": 1.0}, seed=2))
    assert made.ranking.winner is None
    assert made.verdict == "No difference: all 3 arms are within 5 % in requests/s."


def test_too_few_blocks_name_no_winner_and_say_how_many_would() -> None:
    made = paired.compare(races.race(THREE, blocks=5))
    assert made.ranking.winner is None
    assert made.verdict == "No answer yet: 5 blocks cannot show a difference; it takes 6."


def test_the_table_and_the_headline_are_one_family() -> None:
    for seed in range(12):
        race = races.race({"h1": 1.0, "h2": 1.03, "h3": 1.0}, seed=seed, noise=0.015)
        made = paired.compare(race)
        pairs = {(row.arm, row.to): row for row in made.ranking.pairs}
        table = [row for row in made.ratios if row.measure == "requests_per_s"]
        assert table == [pairs[row.arm, row.to] for row in table]


def test_more_measures_raise_no_p_of_the_headline_by_much() -> None:
    """All measures are one family, and the deciding one has most of it."""
    for seed in range(6):
        race = races.race({"h1": 1.0, "h2": 1.03, "h3": 1.0}, blocks=10, seed=seed, noise=0.015)
        alone = paired.compare(dataclasses.replace(race, measures=[RATE])).ranking.pairs
        whole = paired.compare(race).ranking.pairs
        for one, other in zip(alone, whole, strict=True):
            assert one.p == other.p
            assert (one.p_holm or 0) <= (other.p_holm or 0) <= 2 * (one.p_holm or 0) + 0.01


def test_a_measure_that_is_not_ranked_costs_the_others_nothing() -> None:
    race = with_runs(
        races.race(THREE),
        lambda _: {"wire": Wire(bytes=100, requests=100, interface="lo")},
    )
    [alone, beside] = [
        paired.compare(dataclasses.replace(race, measures=measures)).ranking.pairs
        for measures in ([RATE], [RATE, WIRE])
    ]
    assert alone == beside


def test_what_is_undecided_says_how_many_more_blocks_would_decide() -> None:
    made = paired.compare(races.race({"h1": 1.0, "h2": 1.04}, blocks=8, seed=3, noise=0.06))
    [pair] = made.ranking.pairs
    assert pair.finding == "undecided"
    more = pair.more_blocks
    assert more is not None
    assert more > 1
    assert made.verdict.endswith(f"; some {more:,} more blocks might.")


@pytest.mark.parametrize(("busy", "verdict"), [(0.97, "valid"), (0.6, "suspect")])
def test_a_busy_client_does_not_falsify_the_rate_of_a_full_server(
    busy: float, verdict: str
) -> None:
    """METHOD §5: `reason` of the made-up runs has the code of a worker that is too busy."""
    race = with_runs(
        races.race(THREE, busy=0.85), lambda _: {"validity": validity("a worker was 85 % busy")}
    )
    server = altered(records.server(), {"busy": busy})
    full = [structs.replace(sample, server=server) for sample in race.samples]
    made = paired.compare(dataclasses.replace(race, samples=full))
    assert made.said.confidence.verdict == made.validity.verdict == verdict
    assert {arm.validity.verdict for arm in made.arms} == {"suspect"}
    # Its latencies are not the server's alone.
    late = paired.compare(dataclasses.replace(race, samples=full, rank=BY_NAME["p50"]))
    assert late.said.confidence.verdict == "suspect"


@pytest.mark.parametrize(("measure", "verdict"), [("requests_per_s", "valid"), ("p99", "suspect")])
def test_too_few_responses_for_a_p99_falsify_a_p99_alone(measure: str, verdict: str) -> None:
    few = RunValidity.of([Reason(code="few_for_p99", verdict="suspect", text="too few")])
    race = with_runs(races.race(THREE), lambda _: {"validity": few})
    made = paired.compare(dataclasses.replace(race, rank=BY_NAME[measure]))
    assert made.said.confidence.verdict == verdict


def test_why_is_told_where_the_numbers_carry_it() -> None:
    """The server was full in each arm, and a request costs it less in the one that is ahead."""

    def full(made: Observed, cost: Mapping[str, float]) -> Observed:
        samples = [
            structs.replace(
                sample,
                server=records.server(cost[sample.arm] * (1 + sample.block / 100), busy=0.97),
            )
            for sample in made.samples
        ]
        return dataclasses.replace(made, samples=samples)

    race = races.race({"h1": 1.0, "h2": 2.0})
    [because] = paired.compare(full(race, {"h1": 8.0, "h2": 4.0})).said.because
    assert re.fullmatch(
        r"The server's CPU was the limit: a request costs it 4\.\d+ µs over HTTP/2 "
        r"and 8\.\d+ µs over HTTP/1\.1\.",
        because,
    )
    # What goes the other way explains nothing, nor does what does not differ.
    assert paired.compare(full(race, {"h1": 4.0, "h2": 8.0})).said.because == []
    assert paired.compare(full(race, {"h1": 4.0, "h2": 4.0})).said.because == []
    # Two equal arms have no cause.
    same = full(races.race({"h1": 1.0, "h2": 1.0}), {"h1": 8.0, "h2": 4.0})
    assert paired.compare(same).said.because == []


def test_system_calls_that_requests_share_are_told() -> None:
    race = races.race({"h1": 1.0, "h2": 2.0})
    race = dataclasses.replace(race, measures=(*race.measures, BY_NAME["syscalls_per_request"]))
    for calls, shared in ((0.1, "; over HTTP/2 some 10 requests share one"), (0.8, "")):

        def counted(sample: Sample, fewest: float = calls) -> dict[str, object]:
            each = (fewest if sample.arm == "h2" else 2.0) * (1 + sample.block / 1e4)
            return {"syscalls": Syscalls(per_request=each, requests=1000)}

        [told] = paired.compare(with_runs(race, counted)).said.because
        assert re.fullmatch(
            rf"This client's system calls per request: {calls}\d* over HTTP/2 and 2 over HTTP/1\.1"
            rf"{shared}\.",
            told,
        )


def test_bytes_are_told_where_the_network_carried_fewer() -> None:
    race = with_runs(
        races.race({"h1": 1.0, "h2": 2.0}),
        lambda sample: {"bytes.sent": 1_000_000 * (3 if sample.arm == "h1" else 1)},
    )
    [told] = paired.compare(on_network(race, "rtt=20ms")).said.because
    assert re.fullmatch(
        r"Neither end's CPU was the limit; "
        r"HTTP/2 put 0\.\d\d× the bytes of HTTP/1\.1 on the network\.",
        told,
    )
    assert paired.compare(race).said.because == []


def on_network(race: Observed, network: str) -> Observed:
    return dataclasses.replace(
        race, arms=[structs.replace(arm, network=network) for arm in race.arms]
    )


def test_a_saturated_client_is_never_sold_as_a_property_of_the_server() -> None:
    made = paired.compare(races.race(THREE, busy=0.99))
    assert made.verdict.startswith("With this client as the limit, HTTP/2 is fastest: ")
    assert made.arms[0].load.bound == "client"


def test_one_invalid_run_takes_its_arm_out_of_the_ranking() -> None:
    race = races.race(THREE)
    bad = records.run("h2", verdict="invalid", reasons=("3.1 % of responses failed",))
    made = paired.compare(with_run(race, "h2", run=bad))
    assert made.ranking.winner is None
    assert {r.finding for r in made.ratios if r.arm == "h2"} == {"invalid"}
    assert made.validity.verdict == "invalid"
    assert [reason.text for reason in made.validity.reasons] == [
        "HTTP/2: 3.1 % of responses failed (1 of 9 runs)"
    ]
    assert "HTTP/2 ran invalid" in made.verdict
    assert made.arms[1].summary["requests_per_s"].median is not None


def test_a_run_without_result_makes_its_arm_invalid() -> None:
    race = with_run(races.race(THREE), "h3", run=None, problem="stopped", server=None)
    made = paired.compare(race)
    assert made.arms[2].validity.verdict == "invalid"
    assert [sample.run for sample in made.arms[2].samples].count(None) == 1


def test_reasons_that_differ_in_numbers_are_told_once() -> None:
    race = races.race(THREE)
    samples = [
        structs.replace(
            s,
            run=records.run(s.arm, verdict="suspect", reasons=(f"a worker was {80 + i} % busy",)),
        )
        for i, s in enumerate(race.samples)
    ]
    made = paired.compare(dataclasses.replace(race, samples=samples))
    assert len(made.validity.reasons) == 3
    assert made.validity.verdict == "suspect"


def test_an_unfinished_block_is_left_out() -> None:
    race = races.race(THREE)
    cut = dataclasses.replace(race, samples=race.samples[:-2], interrupted=True)
    made = paired.compare(cut)
    assert made.plan.blocks_done == 6
    assert "interrupted after 6 of 7 blocks" in [reason.text for reason in made.validity.reasons]


def test_nothing_measured_is_nothing_claimed() -> None:
    made = paired.compare(dataclasses.replace(races.race(THREE), samples=[]))
    assert made.verdict == "Invalid. No answer: no block was completed."
    assert made.said.confidence.verdict == "invalid"
    assert {row.finding for row in made.ratios} == {"undecided"}


def test_a_single_arm_that_is_invalid_says_why() -> None:
    bad = records.run("h2", verdict="invalid", reasons=("no response ended within 0.2 s",))
    made = paired.compare(with_run(races.race({"h2": 1.0}), "h2", run=bad))
    assert made.verdict == "Invalid. No result: HTTP/2 ran invalid."
    [doubt] = made.said.confidence.doubts
    assert doubt.text.startswith("HTTP/2: no response ended within 0.2 s")


def test_a_single_arm_is_reported_without_comparison() -> None:
    made = paired.compare(races.race({"h2": 1.0}))
    assert made.ratios == []
    assert made.ranking.winner is None
    assert made.verdict.startswith("HTTP/2 reached ")
    assert made.verdict.endswith("); nothing else was asked.")


def test_a_missing_quantile_leaves_its_cells_empty() -> None:
    race = with_runs(races.race(THREE), lambda _: {"latency.service.p99": None})
    made = paired.compare(race)
    assert made.arms[0].summary["p99"].median is None
    assert [r.ratio for r in made.ratios if r.measure == "p99"] == [None, None]
    assert made.ranking.winner == "h2"


def test_what_other_programs_send_is_shown_and_never_ranked() -> None:
    """However far apart: a sender elsewhere on the machine is enough."""
    wanted = {"h1": 1_000, "h2": 3_000, "h3": 9_000}
    race = with_runs(
        races.race(THREE),
        lambda sample: {"wire": Wire(bytes=100 * wanted[sample.arm], requests=100, interface="lo")},
    )
    made = paired.compare(dataclasses.replace(race, measures=[RATE, WIRE]))
    told = {row.arm: row for row in made.ratios if row.measure == WIRE.name}
    assert {arm: row.ratio for arm, row in told.items()} == pytest.approx({"h2": 3.0, "h3": 9.0})
    assert {row.finding for row in told.values()} == {"not_ranked"}
    assert made.ranking.winner == "h2"
    told_to_people = io.StringIO()
    terminal.show(LabResult.of_race(made), Console(file=told_to_people, width=100))
    assert "· 3.00×" in told_to_people.getvalue()
    assert "· not ranked: other programs on the interface count too" in told_to_people.getvalue()


def emulated(race: Observed, settings: Sequence[str]) -> Observed:
    """`race` on the network `4g`, which has these settings in its blocks."""
    late = Lateness(p50=0.0, p99=0.0, max=0.0, histogram=[])
    none = Packets(packets=0, bytes=0)
    way = Way(
        received=none,
        lost=none,
        dropped=none,
        forwarded=none,
        duplicated=0,
        corrupted=0,
        reordered=0,
    )
    samples = [
        structs.replace(
            sample,
            network=OnNetwork(
                up=way,
                down=way,
                cpu_s=0.0,
                waited_s=0.0,
                lateness_s=late,
                network=settings[sample.block % len(settings)],
                rtt_s=0.057,
                congestion_control="cubic",
                check=Check(verdict="valid", properties=[], lateness_s=late),
            ),
        )
        for sample in race.samples
    ]
    arms = [structs.replace(arm, network="4g") for arm in race.arms]
    return dataclasses.replace(race, arms=arms, samples=samples)


def test_bytes_on_an_interface_of_its_own_are_ranked() -> None:
    """FINDINGS T7: no other program is on that of an emulated network."""
    race = with_runs(
        races.race(THREE),
        lambda sample: {
            "wire": Wire(
                bytes=100_000 * (3 if sample.arm == "h2" else 1) + sample.block,
                requests=100,
                interface="tri0",
            )
        },
    )
    made = paired.compare(
        dataclasses.replace(emulated(race, ["rtt=57ms,seed=1"]), measures=[RATE, WIRE])
    )
    found = {row.arm: row.finding for row in made.ratios if row.measure == WIRE.name}
    assert found["h2"] == "higher"
    assert "not_ranked" not in found.values()


def test_what_a_profile_drew_is_told_with_every_block() -> None:
    """FINDINGS T9."""
    drawn = ["rtt=57ms,loss=0.001,down.rate=21mbit,seed=1", "rtt=112ms,down.rate=4mbit,seed=2"]
    race = with_runs(emulated(races.race(THREE, histogram=True), drawn), lambda _: {"bytes": None})
    lab = LabResult.of_race(paired.compare(race))
    shown = io.StringIO()
    terminal.show(lab, Console(file=shown, width=120))
    page = html.render(lab)
    for line in (
        "4g in block 1: rtt=57ms,loss=0.001,down.rate=21mbit,seed=1",
        "4g in block 2: rtt=112ms,down.rate=4mbit,seed=2",
    ):
        assert line in shown.getvalue()
        assert line in page
    # No client tells its round trip.
    assert "57.0 ms emulated" in shown.getvalue()
    assert "57.0 ms emulated" in page


def test_the_mean_of_a_delay_with_jitter_in_order_is_told_beside_what_was_asked() -> None:
    """FINDINGS T15: packets wait for those before them."""
    up, down = ("client to server", "server to client")
    found = [(up, "delay", 0.02), (up, "mean delay in order", 0.026), (down, "delay", 0.021)]
    properties = [
        {"way": way, "property": name, "asked": 0.02, "seen": seen, "tolerance": 0.0, "holds": True}
        for way, name, seen in found
    ]
    check = {
        "verdict": "valid",
        "properties": [{**each, "text": "as it should be"} for each in properties],
        "lateness_s": {"p50": 0.0, "p99": 0.0, "max": 0.0, "histogram": []},
    }
    race = with_runs(emulated(races.race(THREE), ["rtt=57ms"]), lambda _: {"bytes": None})
    jittered = [
        altered(sample, {"network.check": msgspec.convert(check, Check)}) for sample in race.samples
    ]
    made = paired.compare(dataclasses.replace(race, samples=jittered))
    told = {row.round_trip for row in accounts.accounts(made)}
    assert told == {"57.0 ms emulated, 47.0 ms in the mean by jitter"}


def test_the_ledger_marks_what_differs() -> None:
    rows = {row.name: row for row in paired.compare(races.race(THREE)).ledger.rows}
    assert rows["TLS cipher"].equal
    assert not rows["ALPN"].equal
    assert rows["ALPN"].values == {"h1": "http/1.1", "h2": "h2", "h3": "h3"}


def test_the_ledger_says_by_what_the_server_sends() -> None:
    race = races.race(THREE)
    cubic, bbr = SentBy("cubic"), SentBy("bbr")
    default, own = SentBy(None, "bbr", "nginx tcp"), SentBy(None, None, "nginx quic")
    for tcp, quic, equal in (
        (cubic, cubic, True),
        (bbr, cubic, False),
        (default, default, True),
        (default, own, False),
        # Of two servers that do not say it nobody knows that it is the same.
        (own, SentBy(None, None, "https://a.example quic"), False),
    ):
        made = paired.compare(dataclasses.replace(race, sent_by={"h1": tcp, "h2": tcp, "h3": quic}))
        rows = {row.name: row for row in made.ledger.rows}
        row = rows["server congestion control"]
        assert row.values == {"h1": str(tcp), "h2": str(tcp), "h3": str(quic)}
        assert row.equal == equal
    assert str(default) == "bbr, the kernel's default, unless the server chose another"
    assert str(own) == "unknown (the server's own)"


def slowed(race: Observed, factor: float, *arms: str) -> Observed:
    """`race`, in which the second run of these arms in a block reaches `factor` of its rate."""

    def change(sample: Sample) -> dict[str, object]:
        if sample.run is None or sample.arm not in arms or sample.slot != 1:
            return {}
        return {"rate.requests_per_s": sample.run.rate.requests_per_s * factor}

    return with_runs(race, change)


def test_a_difference_that_arms_have_to_themselves_is_not_claimed() -> None:
    race = slowed(races.race({"h1": 1.0, "h2": 1.1}, blocks=10, noise=0.002), 0.85, "h1", "h2")
    made = paired.compare(race)
    assert made.ranking.winner is None
    assert made.ranking.pairs[0].vetoed
    assert made.said.headline == (
        "No difference between HTTP/2 and HTTP/1.1 was shown: 1.10× is within what arms differ "
        "from themselves."
    )
    assert [reason.code for reason in made.validity.reasons] == ["differs_from_itself"]


def test_the_noise_of_one_arm_vetoes_no_pair_of_others() -> None:
    race = slowed(races.race({"h1": 1.0, "h2": 1.0, "h3": 1.3}, blocks=12), 0.3, "h1")
    made = paired.compare(race)
    found = {(p.arm, p.to): p for p in made.ranking.pairs}
    assert found["h3", "h2"].finding == "higher"
    assert found["h3", "h2"].aa == pytest.approx(1, abs=0.02)
    assert found["h2", "h1"].aa == pytest.approx(0.55, abs=0.35)


def test_one_slow_run_vetoes_nothing() -> None:
    race = races.race({"h1": 1.0, "h2": 1.2}, blocks=10)
    slow = next(s for s in race.samples if s.arm == "h1" and s.slot == 1)
    assert slow.run is not None
    rate = slow.run.rate.requests_per_s / 1.4
    race = with_runs(race, lambda s: {"rate.requests_per_s": rate} if s is slow else {})
    assert paired.compare(race).ranking.winner == "h2"


def test_two_runs_of_a_block_are_one_value_and_the_rest_stand_alone() -> None:
    race = races.race({"h1": 1.0, "h2": 1.2}, blocks=4)
    table = paired.Table(race)
    rates = {(s.arm, s.block, s.slot): paired.value(s, race.rank) for s in race.samples}
    assert table.values("h1", race.rank) == pytest.approx(
        [
            (rates["h1", 0, 0] * rates["h1", 0, 1]) ** 0.5,
            rates["h1", 1, 0],
            (rates["h1", 2, 0] * rates["h1", 2, 1]) ** 0.5,
            rates["h1", 3, 0],
        ]
    )
    assert len(table.repeated(["h1"], race.rank)) == len(table.repeated(["h2"], race.rank)) == 2


def test_a_busy_machine_makes_a_race_suspect() -> None:
    race = races.race(THREE)
    server = altered(records.server(), {"others_busy": 0.4})
    made = paired.compare(with_run(race, "h2", server=server))
    [reason] = made.arms[1].validity.reasons
    assert (reason.code, reason.verdict) == ("others_busy", "suspect")
    assert reason.text == "other programs took 40 % of this machine's CPU (1 of 9 runs)"
    assert reason.numbers == {"busy_percent": 40.0, "runs": 1, "of_runs": 9}
    assert made.ranking.winner == "h2"
    assert made.verdict.startswith("Suspect. HTTP/2 is fastest: 1.5")
    [doubt] = made.said.confidence.doubts
    assert doubt.text == f"HTTP/2: {reason.text}"
    assert doubt.advice == reason.advice == "stop other programs, or use a machine of your own"


def suspected(seen: Observed) -> Observed:
    """`seen`, every run of which met a stolen processor."""
    return with_runs(seen, lambda _: {"validity": validity("steal")})


def test_a_suspect_comparison_of_many_arms_says_so_in_its_sentence() -> None:
    arms = labs.matrix(6)
    times = {arm.name: 1.0 + place for place, arm in enumerate(arms)}
    made = paired.compare(suspected(labs.observed(arms, times, blocks=8)))
    assert made.verdict == (
        "Suspect. 5 of 5 arms are slower than requests, HTTP/1.1, none the reverse."
    )
    # What is said of all arms is said once.
    [doubt] = made.said.confidence.doubts
    assert doubt.text == "requests, HTTP/1.1, serial: steal (10 of 10 runs); 5 more arms alike"


def test_what_is_found_beside_an_invalid_arm_is_suspect_as_well() -> None:
    """FINDINGS T4."""
    made = paired.compare(
        with_runs(
            races.race(THREE),
            lambda sample: {
                "validity": validity("broken", verdict="invalid")
                if sample.arm == "h3"
                else validity("steal")
            },
        )
    )
    assert made.validity.verdict == "invalid"
    assert made.verdict.startswith("Suspect. HTTP/2 leads: 1.5")
    assert made.verdict.endswith("); HTTP/3 ran invalid.")
    broken, stolen = made.said.confidence.doubts
    assert broken.text.startswith("HTTP/3: broken (")
    assert stolen.text.startswith("HTTP/1.1: steal (")
    assert stolen.text.endswith("; HTTP/2 alike")
    nothing = paired.compare(
        with_runs(races.race(THREE), lambda _: {"validity": validity("x", verdict="invalid")})
    )
    assert nothing.verdict == "Invalid. No ranking: HTTP/1.1, HTTP/2 and HTTP/3 ran invalid."


def test_a_suspect_winner_is_called_suspect_wherever_the_sentence_is_shown() -> None:
    made = paired.compare(suspected(races.race(THREE, histogram=True)))
    console = Console(width=200, record=True, file=io.StringIO())
    terminal.show(LabResult.of_race(made), console)
    assert "! Suspect. HTTP/2 is fastest: " in console.export_text()
    page = html.render(LabResult.of_race(made))
    assert re.search(r'<b class="badge suspect">suspect</b>\s*<h1>HTTP/2 is fastest: ', page)


def announcing(race: Observed, *pairs: tuple[str, str]) -> Observed:
    return dataclasses.replace(race, announced=[("version within client", pairs)])


def test_what_was_announced_is_answered_in_the_sentence() -> None:
    race = races.race({"h1": 1.0, "h2": 1.5, "h3": 0.6}, blocks=10)
    asked = Answer(compare="version within client")
    made = paired.compare(dataclasses.replace(announcing(race, ("h3", "h2")), answer=asked))
    [question] = made.announced
    assert question.name == "version within client"
    assert [(row.arm, row.to) for row in question.pairs] == [("h3", "h2")] * len(made.measures)
    assert made.verdict.startswith("HTTP/3 is slower than HTTP/2: 0.40× the requests/s (0.")
    whole = paired.compare(race)
    assert whole.announced == []
    assert made.ratios == whole.ratios


def test_many_pairs_of_a_question_are_counted_and_the_farthest_is_told() -> None:
    race = races.race({"h1": 1.0, "h2": 1.5, "h3": 1.0}, blocks=10, noise=0.005)
    asked = announcing(race, ("h2", "h1"), ("h3", "h1"), ("h3", "h2"))
    answer = Answer(compare="version within client")
    said = paired.compare(dataclasses.replace(asked, answer=answer)).verdict
    assert re.match(r"2 of 3 pairs differ, most HTTP/\d(\.1)? is (faster|slower) than HTTP/", said)


def test_a_question_is_a_family_of_its_own() -> None:
    """A hundred other comparisons of the table raise none of its p."""
    race = races.race({"h1": 1.0, "h2": 1.02, "h3": 1.0}, blocks=10, noise=0.01)
    [question] = paired.compare(announcing(race, ("h2", "h1"))).announced
    alone = dataclasses.replace(
        announcing(race, ("h2", "h1")),
        arms=race.arms[:2],
        samples=[s for s in race.samples if s.arm != "h3"],
        order=[[arm for arm in block if arm != "h3"] for block in race.order],
    )
    assert question.pairs == paired.compare(alone).announced[0].pairs


def test_arms_of_different_bodies_or_invalid_runs_answer_nothing() -> None:
    race = races.race(THREE)
    bad = records.run("h2", verdict="invalid", reasons=("3.1 % of responses failed",))
    made = paired.compare(announcing(with_run(race, "h2", run=bad), ("h2", "h1")))
    assert {row.finding for row in made.announced[0].pairs} == {"invalid"}
    assert "HTTP/2 ran invalid" in made.verdict


def test_bodies_that_may_differ_are_compared() -> None:
    sizes = {"h1": 100, "h2": 2000}
    race = with_runs(
        races.race({"h1": 1.8, "h2": 1.0}),
        lambda sample: {"target.body": Body(bytes=sizes[sample.arm], crc32="0000000a")},
    )
    assert paired.compare(race).validity.verdict == "invalid"
    asked = paired.compare(dataclasses.replace(race, bodies_differ=True))
    assert asked.validity.verdict == "valid"
    assert asked.ranking.winner == "h1"
