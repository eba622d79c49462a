"""The experiment that the flags of a race make."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from trilane.lab.experiment.experiment import Experiment
from trilane.lab.experiment.form import Expect, Form
from trilane.lab.race import FORM, BadRace, Flags, experiment

URL = {"https": "https://example.org/", "http": "http://example.org/"}


def form(**flags: Any) -> Form:
    return experiment(Flags(**flags)).forms[FORM]


def shape(scheme: str, **flags: Any) -> dict[str, tuple[int, int]]:
    arms = form(url=URL[scheme], **flags).arms
    return {arm.name: (arm.connections or 0, arm.streams or 0) for arm in arms}


def test_https_races_three_versions_with_64_in_flight() -> None:
    assert shape("https") == {"h1": (64, 1), "h2": (4, 16), "h3": (4, 16)}


def test_http_races_the_two_cleartext_versions() -> None:
    assert shape("http") == {"h1": (64, 1), "h2c": (4, 16)}


@pytest.mark.parametrize(
    ("flags", "h2"),
    [
        ({"in_flight": [100]}, (4, 25)),
        ({"in_flight": [6]}, (3, 2)),
        ({"in_flight": [1]}, (1, 1)),
        ({"in_flight": [7]}, (1, 7)),
        ({"connections": 8}, (8, 8)),
        ({"streams": 32}, (2, 32)),
        ({"connections": 2, "streams": 50}, (2, 50)),
        ({"connections": 2, "streams": 50, "in_flight": [100]}, (2, 50)),
    ],
)
def test_every_arm_keeps_the_same_number_in_flight(
    flags: dict[str, Any], h2: tuple[int, int]
) -> None:
    made = shape("https", **flags)
    assert made["h2"] == h2
    assert {connections * streams for connections, streams in made.values()} == {h2[0] * h2[1]}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"connections": 7}, "try --in-flight 63"),
        ({"streams": 100}, "try --in-flight 100"),
        ({"connections": 2, "streams": 3, "in_flight": [7]}, "leave one of the three out"),
        ({"in_flight": [0]}, "at least 1"),
        ({"in_flight": [8, 64], "streams": 4}, "-m goes with one number"),
        ({"in_flight": [8, 9], "connections": 4}, "--in-flight 9 is not a multiple of -c 4"),
        ({"baseline": "h4"}, "choose from h1, h2, h3"),
    ],
)
def test_what_cannot_be_raced_says_what_to_type(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRace, match=message):
        form(**flags)


def test_a_version_needs_its_scheme() -> None:
    with pytest.raises(BadRace, match="--h3 needs an https:// URL"):
        form(url=URL["http"], versions=["h3"])
    with pytest.raises(BadRace, match="--h2c needs an http:// URL"):
        form(url=URL["https"], versions=["h2c"])


def test_versions_narrow_the_field() -> None:
    assert list(shape("https", versions=["h3", "h2"])) == ["h2", "h3"]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("example.org", "type https://example.org"),
        ("ftp://example.org", "not ftp://"),
        ("https://", "names no host"),
        ("https://host:99999/", "is not a URL"),
        ("https://[::1/", "is not a URL"),
        ("::1", "type https://[::1]"),
        ("::1/x", "type https://[::1]/x"),
        ("localhost:80", "type https://localhost:80"),
        ("http://::1:8080/", "an IPv6 address needs brackets"),
        ("https://host/a b", "write %20"),
    ],
)
def test_bad_urls_say_what_to_type(url: str, message: str) -> None:
    with pytest.raises(BadRace, match=re.escape(message)):
        form(url=url)


@pytest.mark.parametrize(
    ("url", "server", "path"),
    [
        (None, "embedded", "/hello"),
        ("https://example.org", "https://example.org", "/"),
        ("http://example.org:8080/a?b=c", "http://example.org:8080", "/a?b=c"),
        ("https://[::1]:8443/a", "https://[::1]:8443", "/a"),
    ],
)
def test_a_url_is_a_server_and_a_path(url: str | None, server: str, path: str) -> None:
    made = form(url=url)
    assert {arm.server for arm in made.arms} == {server}
    assert made.workload.paths == (path,)


def test_the_embedded_server_is_raced_in_cleartext_where_h2c_is_asked_for() -> None:
    arms = form(versions=["h1", "h2c"]).arms
    assert [(arm.version, arm.tls) for arm in arms] == [("h1", False), ("h2c", True)]


def test_a_race_is_made_again_from_what_its_manifest_keeps() -> None:
    made = experiment(Flags(load=("-H", "a: b"), threads=2, congestion_control="cubic"))
    assert Experiment.from_dict(made.to_dict()) == made


def points(**flags: Any) -> Mapping[object, dict[str, tuple[int | None, int | None]]]:
    return {
        value: {arm.name: (arm.connections, arm.streams) for arm in point.arms}
        for value, point in form(**flags).points()
    }


def test_several_numbers_in_flight_are_swept_with_the_shape_of_each() -> None:
    values = [1, 6, 8, 64]
    assert points(in_flight=values) == {
        value: {arm.name: (arm.connections, arm.streams) for arm in form(in_flight=[value]).arms}
        for value in values
    }
    swept = points(in_flight=[8, 64], connections=2)
    assert {value: arms["h2"] for value, arms in swept.items()} == {8: (2, 4), 64: (2, 32)}
    assert {value: arms["h1"] for value, arms in swept.items()} == {8: (8, 1), 64: (64, 1)}


def test_a_gate_is_about_the_ratio_of_each_arm_to_the_baseline() -> None:
    made = form(fail_if=["p99>1.1", "h2:rate<0.8"], baseline="h1")
    assert made.expect == (
        Expect("p99", "h2", "h1", 0.0, 1.1),
        Expect("p99", "h3", "h1", 0.0, 1.1),
        # No less than 0.8 of the baseline: the baseline is no more than 1.25 of it.
        Expect("requests_per_s", "h1", "h2", 0.0, 1.25),
    )


def test_a_measure_that_only_a_gate_is_about_is_compared_as_well() -> None:
    made = form(fail_if=["p99_9>2x"])
    assert made.measures[-1] == "p99_9"
    assert made.measures[:-1] == form().measures


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"fail_if": ["p99"]}, "--fail-if 'p99': it has no form MEASURE>LIMIT"),
        ({"fail_if": ["p99>10"]}, "10x for 10 times the baseline"),
        ({"fail_if": ["p99>10ms"]}, "neither a ratio such as 1.1"),
        ({"fail_if": ["speed>1.1"]}, "--fail-if speed>1.1: 'speed' is not a measure"),
        ({"fail_if": ["h4:p99>1.1"]}, "h4 is not in this race: choose from h1, h2, h3"),
        ({"fail_if": ["h1:p99>1.1"]}, "h1 is what the other arms are compared with"),
        ({"fail_if": ["p99>1.1"], "versions": ["h2"]}, "h2 is what the other arms are compared"),
        ({"pairs": ["h2"]}, "--pair takes two arms such as h3:h1"),
        ({"pairs": ["h2:h2"]}, "--pair h2:h2 compares an arm with itself"),
        ({"pairs": ["h2:h4"]}, "--pair h4 is not in this race"),
    ],
)
def test_gates_and_pairs_that_mean_nothing_say_what_to_type(
    flags: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadRace, match=re.escape(message)):
        form(**flags)


def test_pairs_and_a_network_are_those_of_experiments() -> None:
    made = form(pairs=["h3:h2"], network="rtt=40ms")
    assert made.pairs == (("h3", "h2"),)
    assert {arm.network for arm in made.arms} == {"rtt=40ms"}


@pytest.mark.parametrize(
    ("flags", "rank"),
    [
        ({}, "requests_per_s"),
        ({"rate": 1000.0}, "p99"),
        ({"rate": 500.0, "duration_s": 2.0}, "p99"),
        # Too few responses for a p99.
        ({"rate": 999.0}, "p50"),
    ],
)
def test_at_a_rate_latency_decides(flags: dict[str, Any], rank: str) -> None:
    made = form(**flags)
    assert made.rank == rank
    assert {arm.rate for arm in made.arms} == {flags.get("rate")}


@pytest.mark.parametrize(
    ("flags", "duration_s", "warmup_s"),
    [
        ({}, 1, 1),
        ({"network": "lan"}, 1, 1),
        ({"network": "rtt=100ms"}, 4, 1),
        ({"network": "rtt=600ms"}, 19, 4),
        ({"network": "rtt=100ms", "in_flight": [10, 64]}, 20, 1),
        ({"network": "rtt=100ms", "in_flight": [1]}, 20, 1),
        ({"network": "rtt=100ms", "rate": 100.0}, 1, 1),
        ({"network": "rtt=600ms", "duration_s": 2.0, "warmup_s": 0.0}, 2, 0),
    ],
)
def test_a_run_takes_as_long_as_the_network_needs(
    flags: dict[str, Any], duration_s: float, warmup_s: float
) -> None:
    workload = form(**flags).workload
    assert (workload.duration_s, workload.warmup_s) == (duration_s, warmup_s)


def test_a_search_is_a_workload_whose_runs_compare_one_measure() -> None:
    made = form(url=URL["https"], search=["p99<10ms"])
    assert made.workload.search == ("p99<10ms",)
    assert made.measures == (made.rank,) == ("capacity_per_s",)
    assert made.workload.duration_s == 2
    # The fewest that can show a difference.
    assert made.stats.blocks == 6
    begun = form(url=URL["https"], search=["p99<10ms"], rate=5000, duration_s=1)
    assert (begun.rank, begun.arms[0].rate, begun.workload.duration_s) == (
        "capacity_per_s",
        5000,
        1,
    )


def test_gates_of_a_search_are_about_what_it_finds() -> None:
    made = form(url=URL["https"], search=["p99<10ms"], fail_if=["h2:capacity_per_s<-5%"])
    assert made.measures == ("capacity_per_s",)
    with pytest.raises(BadRace, match="measures capacity_per_s alone"):
        form(url=URL["https"], search=["p99<10ms"], fail_if=["p99>1.1"])


def test_calls_are_raced_over_the_versions_that_grpc_has() -> None:
    made = form(url="https://example.org/prefix", grpc="a.B/C", load=["-b", "{}"])
    assert [arm.name for arm in made.arms] == ["h2", "h3"]
    assert made.workload.flags == ("--grpc", "a.B/C", "-b", "{}")
    assert made.workload.paths == ("/prefix",)
    assert form(grpc="a.B/C").workload.paths == ("/",)


def test_calls_need_two_versions() -> None:
    with pytest.raises(BadRace, match="HTTP/2 alone"):
        form(url=URL["http"], grpc="a.B/C")
    with pytest.raises(BadRace, match="leave --h1 out"):
        form(url=URL["https"], grpc="a.B/C", versions=["h1", "h2"])
