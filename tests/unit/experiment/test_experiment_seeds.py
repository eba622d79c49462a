"""The experiments that ship: readable, in the schema, quick enough, true to their posts."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from repository import ROOT
from trilane.lab import Experiment, asked, testbed
from trilane.lab.analysis import stats
from trilane.lab.clients import contenders
from trilane.lab.clients.engine_run import EnginePlan
from trilane.lab.clients.executor import Setting
from trilane.lab.experiment import networks, places, vocabulary
from trilane.lab.experiment.form import Form
from trilane.lab.experiment.workload import ArmSpec, Workload
from trilane.lab.model.arm import ENGINE
from trilane.lab.targets import running

FOLDER = ROOT / "experiments"
NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))
SEEDS = [
    "bookstore",
    "cost",
    "first-request",
    "requests-walk",
    "spider",
    "strategies",
    "transcoding",
    "versions",
]
VALIDATOR = Draft202012Validator(json.loads((ROOT / "docs" / "experiment.schema.json").read_text()))


@pytest.fixture(params=SEEDS)
def seed(request: pytest.FixtureRequest) -> Experiment:
    return Experiment.load(FOLDER / f"{request.param}.toml")


def forms() -> list[tuple[str, str]]:
    return [(name, form) for name in SEEDS for form in ("published", "fair")]


def form_of(name: str, form: str) -> Form:
    return Experiment.load(FOLDER / f"{name}.toml").forms[form]


def test_there_is_one_for_every_seed() -> None:
    assert set(SEEDS) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_file_passes_the_schema(name: str) -> None:
    VALIDATOR.validate(tomllib.loads((FOLDER / f"{name}.toml").read_text()))


@pytest.mark.parametrize("name", NAMES)
def test_every_file_tells_editors_its_schema(name: str) -> None:
    first = (FOLDER / f"{name}.toml").read_text().splitlines()[0]
    assert first == "#:schema ../docs/experiment.schema.json"


def test_every_seed_has_both_forms_and_says_what_was_confounded(seed: Experiment) -> None:
    assert list(seed.forms)[:2] == ["published", "fair"]
    assert seed.hypothesis
    assert seed.confounders
    assert seed.source is not None
    assert seed.source.claim
    for form in seed.forms.values():
        assert form.note
        assert form.quick is not None


@pytest.mark.parametrize(("name", "form"), forms())
def test_the_blocks_can_separate_every_arm_from_the_baseline(name: str, form: str) -> None:
    whole = form_of(name, form)
    for each in (whole, whole.quickened()):
        assert each.stats.blocks >= stats.LEAST_BLOCKS


@pytest.mark.parametrize(("name", "form"), forms())
def test_quick_takes_less_than_two_minutes(name: str, form: str) -> None:
    quick = form_of(name, form).quickened()
    twice = 1 if quick.stats.aa else 0
    # A second for each run: the start of an interpreter, a relay, and a look at the result.
    estimate = sum(
        quick.stats.blocks * sum(1.0 + _run_s(arm, point.workload) for arm in runs)
        for _, point in quick.points()
        for runs in [[*point.arms, *[point.arm(point.baseline)] * twice]]
    )
    assert estimate <= 100, f"about {estimate:.0f} s"


@pytest.mark.parametrize(("name", "form"), forms())
def test_arms_of_wrk_run_for_whole_seconds(name: str, form: str) -> None:
    """It counts no others, and a run that it refuses is invalid: FINDINGS T12."""
    whole = form_of(name, form)
    for each in (whole, whole.quickened()):
        if any(arm.client == "wrk" for arm in each.arms):
            seconds = each.workload.duration_s
            assert seconds is not None
            assert seconds >= 1
            assert seconds % 1 == 0


@pytest.mark.parametrize(("name", "form"), forms())
def test_quick_asks_what_the_form_asks(name: str, form: str) -> None:
    """The count, the delay and the size of bodies decide: what `--quick` says agrees then."""
    whole = form_of(name, form)
    quick = whole.quickened()
    assert quick.altered == ()
    arms = {arm.name for arm in quick.arms}
    values = [None] if quick.sweep is None else quick.sweep.values
    assert quick.published == tuple(
        row for row in whole.published if {row.arm, row.to} <= arms and row.at in values
    )


@pytest.mark.parametrize("name", [name for name in SEEDS if name != "transcoding"])
def test_the_fair_form_compares_each_client_with_itself(name: str) -> None:
    whole = form_of(name, "fair")
    for form in (whole, whole.quickened()):
        for _, point in form.points():
            asked = dict(point.announced())
            within = [question for question in asked if " within client" in question]
            assert within
            for one, other in asked[within[0]]:
                assert point.arm(one).client == point.arm(other).client


@pytest.mark.parametrize(
    "changes", [{"arms": ["sync"], "count": 2}, {"count": 2}, {"blocks": 1}], ids=str
)
def test_what_is_asked_for_need_not_fit_quick(changes: dict[str, Any]) -> None:
    whole = Experiment.load(FOLDER / "strategies.toml")
    form = asked.chosen(asked.Wanted(whole, "published", **changes))
    kept = replace(whole, forms={"published": form}).to_dict()
    assert Experiment.from_dict(kept).forms["published"] == form


def test_every_body_can_be_checked() -> None:
    """Not a sample alone: FINDINGS T1."""
    whole = Experiment.load(FOLDER / "versions.toml")
    form = asked.chosen(asked.Wanted(whole, "fair", check_body=True))
    plan = EnginePlan(form.arms[0], form.workload, ["/bytes/2500"], Setting("https://127.0.0.1:1"))
    assert "--check-body" in plan.arguments(None)
    kept = Experiment.from_dict(replace(whole, forms={"fair": form}).to_dict())
    assert kept.forms["fair"].workload.check_body
    sampled = asked.chosen(asked.Wanted(whole, "fair"))
    plan = EnginePlan(form.arms[0], sampled.workload, ["/bytes/2500"], plan.setting)
    assert "--check-body" not in plan.arguments(None)


def _run_s(arm: ArmSpec, work: Workload) -> float:
    """A guess at a run's length on a slow machine: waiting, or 1.5 ms of CPU per request."""
    if work.duration_s is not None:
        return work.duration_s + work.warmup_s
    count = work.count or 3000
    answer = 0.02 if any(path.startswith("/delay/") for path in work.paths) else 0.0
    trips = 1 if arm.session else 3
    waits = math.ceil(count / (arm.in_flight * (arm.processes or 1) or 1))
    rtt_s = networks.rtt_s(arm.network)
    waiting = waits * (trips * rtt_s + answer) + 3 * rtt_s
    cpu = count * (0.0015 if arm.session else 0.004)
    return max(waiting, cpu) * work.repeat / max(1, min(work.repeat_processes, 2))


@pytest.mark.parametrize(
    ("name", "arm", "measure", "at", "ratio"),
    [
        ("first-request", "http2-bare", "elapsed_s", None, 0.796 / 0.681),
        ("first-request", "http2-headers", "elapsed_s", None, 0.828 / 0.554),
        ("spider", "http2", "elapsed_s", None, 2.789 / 4.721),
        ("requests-walk", "requests-h2", "repetition_s", None, 20.248 / 17.408),
        ("bookstore", "hyper-h2", "total_s", None, 3.53 / 5.84),
        ("bookstore", "hyper-h2", "user_s", None, 1.41 / 4.09),
        ("bookstore", "hyper-h2", "system_s", None, 0.04 / 0.15),
        ("bookstore", "hyper-h2", "cpu_percent", None, 41 / 72),
        ("versions", "h2", "requests_per_s", None, 81153 / 55760),
        ("versions", "h2-one", "requests_per_s", None, 81153 / 55760),
        ("versions", "h3", "requests_per_s", None, 38434 / 55760),
        ("versions", "h2", "mean_s", None, 2.46 / 3.59),
        ("versions", "h2-one", "mean_s", None, 2.46 / 3.59),
        ("versions", "h3", "mean_s", None, 5.20 / 3.59),
        ("versions", "wrk", "requests_per_s", None, 53141.88 / 55426),
        # The post gives two tables, before and after it rewrote its gRPC.
        ("transcoding", "grpc-http", "ns_per_op", None, 73217 / 36980),
        ("transcoding", "grpc-http", "alloc_bytes_per_op", None, 25753 / 9495),
        ("transcoding", "grpc-http", "allocs_per_op", None, 234 / 178),
        ("transcoding", "transcoder-http1", "ns_per_op", None, 47049 / 36980),
        ("transcoding", "transcoder-http1", "alloc_bytes_per_op", None, 9179 / 9495),
        ("transcoding", "transcoder-http1", "allocs_per_op", None, 146 / 178),
        ("transcoding", "transcoder-grpc", "ns_per_op", None, 60966 / 40917),
        ("transcoding", "transcoder-grpc", "alloc_bytes_per_op", None, 13877 / 9498),
        ("transcoding", "transcoder-grpc", "allocs_per_op", None, 193 / 178),
        ("transcoding", "transcoder-http1", "ns_per_op", None, 46071 / 40917),
        ("transcoding", "transcoder-http1", "alloc_bytes_per_op", None, 9230 / 9498),
        ("transcoding", "transcoder-http1", "allocs_per_op", None, 144 / 178),
    ],
)
def test_the_ratios_of_the_posts_are_kept(
    name: str, arm: str, measure: str, at: float | None, ratio: float
) -> None:
    rows = [
        row.ratio
        for row in form_of(name, "published").published
        if (row.arm, row.measure, row.at) == (arm, measure, at)
    ]
    assert ratio in [pytest.approx(row, rel=1e-9) for row in rows]


def test_the_strategies_have_the_names_of_the_posts_tool() -> None:
    form = form_of("strategies", "published")
    assert [arm.name for arm in form.arms] == [
        "sync",
        "sync_threads",
        "sync_multiprocess",
        "async_threads",
        "async_with_async_client",
        "async_multiprocess_with_async_client",
    ]
    at = {value: [arm.name for arm in point.arms] for value, point in form.points()}
    assert at[100] == ["sync", "sync_threads"]
    assert at[30000] == ["async_with_async_client", "async_multiprocess_with_async_client"]
    assert form.sweep is not None
    assert form.sweep.crossings == (tuple(at[30000]),)
    # `trilane lab run strategies -t sync -t sync_threads -n 1000`, as with the post's tool.
    asked = form.only(["sync", "sync_threads"]).with_count(1000).at(1000)
    assert [arm.name for arm in asked.arms] == ["sync", "sync_threads"]
    assert asked.workload.count == 1000
    assert asked.workload.body is not None
    assert len(asked.workload.body) == 5000


@pytest.mark.parametrize(("name", "form"), forms())
def test_every_client_and_server_is_there_and_can_do_it(name: str, form: str) -> None:
    clients = contenders.discover([ROOT / "contenders"])
    for arm in form_of(name, form).arms:
        assert arm.server == "embedded" or (ROOT / "servers" / arm.server).is_dir(), arm.server
        if arm.client == ENGINE:
            assert arm.strategy == "load"
        elif arm.client == vocabulary.GO_BENCH:
            assert (ROOT / "servers" / arm.server / "go.mod").is_file()
        else:
            assert arm.client in clients
            assert clients[arm.client].lacks(arm.version, arm.strategy) is None


def test_every_call_is_one_that_its_server_takes() -> None:
    for arm in form_of("transcoding", "fair").arms:
        assert running.find(arm.server).calls
        assert testbed.lacks(arm) is None, arm.name


def test_transcoding_compares_every_version_format_and_server_there_is() -> None:
    form = form_of("transcoding", "fair")
    eight = {(arm.server, arm.version, arm.message) for arm in form.at(8).arms}
    formats = {("h1", "json"), ("h1", "protobuf")} | {
        (version, message)
        for version in ("h2c", "h2", "h3")
        for message in ("json", "protobuf", "grpc")
    }
    for server in ("embedded", "connect-go"):
        assert {(v, m) for s, v, m in eight if s == server} == formats
    assert {s for s, _, _ in eight} == {
        *("embedded", "vanguard", "grpc-gateway", "connect-go", "grpc-go", "grpc-go-http"),
    }
    assert form.sweep is not None
    assert list(form.sweep.values) == [1, 8, 64]
    # The post's question at every number in flight: HTTP/1.1 and HTTP/2, both without TLS.
    for _, point in form.points():
        names = {arm.name for arm in point.arms}
        assert {"vanguard-h1-plain-json", "vanguard-h2c-json", "vanguard-h2c-grpc"} <= names


def test_gateways_are_compared_before_the_same_server() -> None:
    form = form_of("transcoding", "gateways")
    assert {(arm.server, arm.message) for arm in form.arms} == {
        *(("trilane-gateway", "json"), ("trilane-gateway", "grpc")),
        *(("vanguard-proxy", "json"), ("vanguard-proxy", "grpc")),
        *(("grpc-gateway", "json"), ("nginx-grpc", "grpc"), ("grpc-go", "grpc")),
    }
    assert {(arm.connections, arm.in_flight) for arm in form.arms} == {(8, 800)}
    for arm in form.arms:
        assert testbed.lacks(arm) is None, arm.name


def test_both_readings_of_the_200_connections_over_http_2_are_run() -> None:
    """The post says 200 connections; its client shares one over HTTP/2 unless told otherwise."""
    whole = form_of("versions", "published")
    for form in (whole, whole.quickened()):
        shapes = {(arm.connections, arm.streams) for arm in form.arms if arm.version == "h2"}
        assert shapes == {(200, 1), (1, 200)}
        assert {arm.in_flight for arm in form.arms} == {200}


def test_they_are_found_by_name_wherever_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert places.experiments() == [FOLDER]
    assert Experiment.load("bookstore").path == FOLDER / "bookstore.toml"
    own = tmp_path / "experiments"
    own.mkdir()
    text = (FOLDER / "bookstore.toml").read_text().replace("3,000 books", "My books")
    (own / "bookstore.toml").write_text(text)
    assert places.experiments() == [own, FOLDER]
    assert Experiment.load("bookstore").title.startswith("My books")
    assert Experiment.load("spider").path == FOLDER / "spider.toml"
