"""Experiments as objects: defaults, points of a sweep, quick forms, JSON, Jupyter."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from synthetic.experiments import sample
from trilane.lab import BadExperiment, Expect, Experiment, Form, Published, Quick, Sweep, Workload
from trilane.lab.experiment.workload import write_body


def small(**changes: object) -> Experiment:
    """Built in code, as a notebook would."""
    work = Workload(paths=("/hello",), count=100, in_flight=8)
    form = Form(
        name="fair",
        baseline="requests-h1-serial",
        rank="elapsed_s",
        measures=("elapsed_s",),
        workload=work,
        arms=(work.arm("requests", "h1"), work.arm("httpx", "h2", "multiplexed")),
    )
    return Experiment("small", "Small", "Which?", {"fair": replace(form, **changes)})  # type: ignore[arg-type]


def test_an_experiment_is_built_in_code() -> None:
    form = small().forms["fair"]
    assert [arm.name for arm in form.arms] == ["requests-h1-serial", "httpx-h2-multiplexed"]
    assert form.arm("httpx-h2-multiplexed").in_flight == 8
    assert form.points() == ((None, form),)


def test_arms_without_a_title_of_their_own_are_told_apart_by_their_names(tmp_path: Path) -> None:
    near = '[[forms.fair.arms]]\nname = "near"\nclient = "requests"\nversion = "h1"\n'
    arm = '[[forms.fair.arms]]\nname = "some"'
    form = sample(
        tmp_path, (arm, f'{near}\n{near.replace("near", "far")}network = "rtt=1s"\n{arm}')
    )
    titles = {arm.name: arm.title for arm in form.forms["fair"].arms}
    assert titles["near"] == "requests, HTTP/1.1, serial (near)"
    assert titles["far"] == "requests, HTTP/1.1, serial (far)"
    assert titles["plain"] == "Plain"
    assert len(set(titles.values())) == len(titles)


def test_an_experiment_built_in_code_is_checked() -> None:
    with pytest.raises(BadExperiment, match=r"^forms\.fair\.baseline: 'x' is not an arm") as caught:
        small(baseline="x")
    assert caught.value.key == ("forms", "fair", "baseline")


def test_every_key_of_a_file_arrives(tmp_path: Path) -> None:
    experiment = sample(tmp_path)
    assert experiment.source is not None
    assert (experiment.source.author, experiment.source.date) == ("Somebody", "2020-02-29")
    form = experiment.forms["fair"]
    assert (form.margin, form.pin) == (0.1, True)
    assert (form.stats.blocks, form.stats.publish_blocks, form.stats.aa) == (7, 21, False)
    work = form.workload
    assert work.paths == ("/hello", "/echo")
    assert work.headers == (("accept", "*/*"), ("x-empty", ""))
    assert (work.method, work.gzip, work.warmup_requests, work.repeat) == ("POST", True, 3, 2)
    assert (work.repeat_processes, work.timeout_s, work.in_flight) == (2, 5.0, 10)
    assert form.sweep == Sweep("count", (10, 100), "requests", (("plain", "httpx-h2-serial"),))
    assert form.published == (
        Published("elapsed_s", "some", "plain", (3.53, 5.84), 100, "table 1"),
    )
    assert form.expect == (Expect("user_s", "httpx-h2-serial", "plain", 0.5, 1.5),)
    assert form.quick == Quick(6, None, (5, 50), ("plain", "httpx-h2-serial"), None, "rtt=5ms", 1)


def test_arms_take_what_they_do_not_say_from_the_form(tmp_path: Path) -> None:
    form = sample(tmp_path).forms["fair"]
    plain, some, engine = (form.arm(name) for name in ("plain", "some", "engine"))
    assert (plain.server, plain.network, plain.gzip) == ("embedded", "rtt=40ms", True)
    assert plain.in_flight == 1
    assert plain.headers == form.workload.headers
    assert some.title == "requests, HTTP/1.1, threads, no session"
    assert (some.server, some.network, some.gzip) == ("twisted-hello", "rtt=1ms", False)
    assert (some.threads, some.in_flight, some.at) == (4, 4, (100,))
    assert some.headers == (("accept", "text/plain"),)
    assert (engine.connections, engine.streams, engine.in_flight) == (2, 5, 10)


def test_a_matrix_makes_every_arm_but_the_excluded(tmp_path: Path) -> None:
    names = [arm.name for arm in sample(tmp_path).forms["fair"].arms][3:]
    assert names == [
        "httpx-h2-serial",
        "httpx-h2-multiplexed",
        "niquests-h2-multiplexed",
        "niquests-h3-multiplexed",
    ]


@pytest.mark.parametrize(
    ("version", "strategy", "options", "expected"),
    [
        ("h1", "serial", {}, (1, None, None, None, None, None)),
        ("h1", "threads", {}, (8, None, None, 8, None, None)),
        ("h1", "threads", {"threads": 3}, (3, None, None, 3, None, None)),
        ("h1", "asyncio_threads", {"in_flight": 5}, (5, None, None, 5, None, None)),
        ("h1", "processes", {"processes": 2}, (2, None, None, None, 2, None)),
        ("h1", "asyncio", {"connections": 2}, (8, 2, None, None, None, None)),
        ("h1", "processes_asyncio", {"processes": 3}, (8, None, None, None, 3, None)),
        ("h2", "chunks", {"chunk": 100}, (100, 1, None, None, None, 100)),
        ("h2", "chunks", {}, (8, 1, None, None, None, 8)),
        ("h3", "multiplexed", {}, (8, 1, None, None, None, None)),
        ("h1", "load", {}, (8, 8, 1, 1, None, None)),
        ("h2", "load", {"connections": 2}, (8, 2, 4, 1, None, None)),
        ("h2", "load", {"streams": 4, "threads": 2}, (8, 2, 4, 2, None, None)),
        ("h3", "load", {"connections": 3, "streams": 5}, (15, 3, 5, 1, None, None)),
    ],
)
def test_how_an_arm_keeps_requests_in_flight(
    version: str, strategy: str, options: dict[str, int], expected: tuple[int | None, ...]
) -> None:
    arm = Workload(count=1, in_flight=8).arm("any", version, strategy, **options)  # type: ignore[arg-type]
    found = (
        arm.in_flight,
        arm.connections,
        arm.streams,
        arm.threads,
        arm.processes,
        arm.chunk,
    )
    assert found == expected


def test_bodies_have_their_size_and_are_always_the_same() -> None:
    for size in (0, 1, 7, 12, 5000):
        work = Workload(count=1, content_type="application/json").with_body_bytes(size)
        assert work.body is not None
        assert len(work.body) == size
        assert work == Workload(count=1, content_type="application/json").with_body_bytes(size)
        if size:
            json.loads(work.body)


def test_a_point_has_its_value_its_arms_and_its_claims(tmp_path: Path) -> None:
    form = sample(tmp_path).forms["fair"]
    at_10, at_100 = form.at(10), form.at(100)
    assert (at_10.workload.count, at_100.workload.count) == (10, 100)
    assert at_10.sweep is None
    assert "some" not in [arm.name for arm in at_10.arms]
    assert at_100.arm("some").at is None
    assert not at_10.published
    assert [(row.arm, row.at) for row in at_100.published] == [("some", None)]
    assert len(at_10.expect) == len(at_100.expect) == 1
    assert [value for value, _ in form.points()] == [10, 100]


def test_where_the_baseline_does_not_run_the_first_arm_that_does_takes_its_place(
    tmp_path: Path,
) -> None:
    form = sample(tmp_path, ('baseline = "plain"', 'baseline = "some"')).forms["fair"]
    assert form.at(100).baseline == "some"
    assert form.at(10).baseline == "plain"


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        ("in_flight", 5, lambda form: [arm.in_flight for arm in form.arms]),
        ("rtt", 0.25, lambda form: [arm.network for arm in form.arms]),
        ("body_bytes", 9, lambda form: [len(form.workload.body)]),
    ],
)
def test_what_can_be_swept(key: str, value: float, read: object) -> None:
    sweep = Sweep(key, (value,), "x")
    form = small(sweep=sweep).forms["fair"].at(value)
    expected = {"in_flight": [1, 5], "rtt": ["rtt=250ms", "rtt=250ms"], "body_bytes": [9]}
    assert callable(read)
    assert read(form) == expected[key]


def test_a_body_may_be_a_file(tmp_path: Path) -> None:
    edited = ("body_bytes = 50", "body_bytes = 2500000\nbody_file = true\ndiscard = true")
    work = sample(tmp_path, edited).forms["fair"].workload
    assert (work.body, work.body_file, work.file_bytes, work.discard) == (None, True, 2500000, True)
    write_body(tmp_path / "one", 2500000)
    write_body(tmp_path / "two", 2500000)
    assert (tmp_path / "one").stat().st_size == 2500000
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    unsized = replace(work, file_bytes=None, count=5)
    swept = small(workload=unsized, sweep=Sweep("body_bytes", (10,), "B"))
    assert swept.forms["fair"].at(10).workload.file_bytes == 10
    assert Experiment.from_dict(swept.to_dict()) == swept


def test_a_path_may_hold_the_size_of_the_answer() -> None:
    work = Workload(paths=("/bytes/{body_bytes}",), count=1)
    form = small(workload=work, sweep=Sweep("body_bytes", (10,), "B")).forms["fair"].at(10)
    assert (form.workload.paths, form.workload.body) == (("/bytes/10",), None)


def test_more_in_flight_means_more_streams_where_there_were_several() -> None:
    work = Workload(count=1)
    few = work.arm("trilane", "h2", "load", connections=4, streams=50, threads=2)
    many = work.arm("trilane", "h2", "load", connections=200)
    assert [(arm.connections, arm.streams) for arm in (few, many)] == [(4, 50), (200, 1)]
    more = [arm.with_in_flight(400) for arm in (few, many)]
    assert [(arm.connections, arm.streams, arm.in_flight) for arm in more] == [
        (4, 100, 400),
        (400, 1, 400),
    ]
    assert more[0].threads == 2


def test_quick_makes_the_form_smaller(tmp_path: Path) -> None:
    quick = sample(tmp_path).forms["fair"].quickened()
    assert [arm.name for arm in quick.arms] == ["plain", "httpx-h2-serial"]
    assert [arm.network for arm in quick.arms] == ["rtt=5ms", "rtt=5ms"]
    assert (quick.stats.blocks, quick.workload.repeat) == (6, 1)
    assert quick.sweep is not None
    assert list(quick.sweep.values) == [5, 50]
    assert list(quick.sweep.crossings) == [("plain", "httpx-h2-serial")]
    assert not quick.published
    assert quick.altered == (
        "the network rtt=5ms instead of rtt=40ms",
        "5 and 50 requests instead of 10 and 100",
    )
    assert quick.quickened() == quick


def test_what_only_gets_shorter_keeps_the_numbers_of_the_post(tmp_path: Path) -> None:
    whole = sample(tmp_path).forms["fair"]
    assert whole.published
    shorter = replace(whole, quick=Quick(blocks=6, repeat=1)).quickened()
    assert (shorter.altered, shorter.published) == ((), whole.published)
    # FINDINGS T12.
    assert shorter.shortened == ("1 repetition instead of 2",)
    timed = replace(whole, sweep=None, workload=replace(whole.workload, count=None, duration_s=20))
    assert replace(timed, quick=Quick(duration_s=1)).quickened().shortened == (
        "1 s instead of 20 s",
    )
    at_one = replace(whole, quick=Quick(values=(100,))).quickened()
    assert at_one.altered == ()
    assert [row.at for row in at_one.published] == [100]
    # Each arm runs where it did.
    assert at_one.arm("some").at == (100,)
    at_ten = replace(whole, quick=Quick(values=(10,))).quickened()
    assert "some" not in {arm.name for arm in at_ten.arms}


def test_another_count_is_another_question() -> None:
    form = small(quick=Quick(count=5)).forms["fair"]
    assert form.workload.count is not None
    said = f"5 requests instead of {form.workload.count:,}"
    assert form.quickened().altered == (said,)
    assert form.with_count(5).altered == (said,)
    assert form.with_count(form.workload.count).altered == ()
    timed = replace(form, workload=replace(form.workload, count=None, duration_s=20.0))
    assert timed.with_count(1000).altered == ("1,000 requests instead of 20 s",)


def test_every_arm_can_be_put_on_a_network(tmp_path: Path) -> None:
    form = sample(tmp_path).forms["fair"]
    moved = form.on_network("4g")
    assert {arm.network for arm in moved.arms} == {"4g"}
    assert set(moved.altered) == {
        f"the network 4g instead of {network}" for network in {arm.network for arm in form.arms}
    }
    assert moved.published == ()
    near = small().forms["fair"]
    assert near.on_network("rtt=5ms").altered == ("the network rtt=5ms instead of none",)
    swept = replace(near, sweep=Sweep("rtt", (0.01,), "s")).on_network("4g,loss=0%")
    assert {arm.network for arm in swept.at(0.01).arms} == {"4g,loss=0%,rtt=10ms"}
    benchmarks = replace(near, workload=replace(near.workload, kind="benchmark"))
    with pytest.raises(ValueError, match="client and server in one process"):
        benchmarks.on_network("4g")


def test_quick_adds_no_delay_where_there_is_none() -> None:
    form = small(quick=Quick(network="rtt=10ms")).forms["fair"].quickened()
    assert [arm.network for arm in form.arms] == ["", ""]


def test_a_count_replaces_a_sweep_over_the_count(tmp_path: Path) -> None:
    form = sample(tmp_path).forms["fair"].with_count(100)
    assert form.sweep is not None
    assert (form.sweep.values, form.sweep.crossings) == ((100,), ())
    assert form.arm("some").at is None
    assert len(form.published) == 1
    assert form.at(100).workload.count == 100
    assert small().forms["fair"].with_count(7).workload.count == 7


def test_only_some_arms_keep_their_claims(tmp_path: Path) -> None:
    form = sample(tmp_path).forms["fair"]
    pair = form.only(["some", "plain"])
    assert (pair.baseline, len(pair.published), len(pair.expect)) == ("plain", 1, 0)
    assert form.only(["engine", "some"]).baseline == "engine"
    with pytest.raises(KeyError, match="nobody"):
        form.only(["nobody"])


def test_json_and_back(tmp_path: Path) -> None:
    experiment = sample(tmp_path)
    kept = json.loads(json.dumps(experiment.to_dict()))
    assert kept["schema"] == "trilane.experiment/1"
    again = Experiment.from_dict(kept)
    assert again == experiment
    assert again.path == experiment.path
    form = experiment.forms["fair"].quickened()
    quick = replace(experiment, forms={"fair": form})
    assert Experiment.from_dict(json.loads(json.dumps(quick.to_dict()))) == quick


def test_json_of_something_else_is_refused() -> None:
    with pytest.raises(BadExperiment, match="this is not an experiment"):
        Experiment.from_dict({"schema": "trilane.experiment/1", "name": "x"})
    kept = small().to_dict()
    kept["forms"]["fair"]["arms"][0]["later"] = True
    with pytest.raises(BadExperiment, match="it has no 'later'"):
        Experiment.from_dict(kept)


def test_jupyter_shows_the_question_and_the_arms_escaped() -> None:
    experiment = replace(small(), question="Is <script>alert(1)</script> & [bold] safe?")
    bundle = experiment._repr_mimebundle_()
    html = bundle["text/html"]
    assert html == experiment._repr_html_()
    assert "<script>" not in html
    assert "Is &lt;script&gt;alert(1)&lt;/script&gt; &amp; [bold] safe?" in html
    assert "<td" in html
    assert "GET /hello, 100 requests" in html
    assert "GET /hello, 100 requests" in bundle["text/plain"]
