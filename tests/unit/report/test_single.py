"""One run, and one search, as a page: what it draws, what it says, where it goes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from synthetic import searches
from synthetic.runs import run
from trilane.cli import app
from trilane.lab.model.answer import Answer
from trilane.lab.model.run import Run
from trilane.lab.model.search import Search
from trilane.lab.model.validity import Reason
from trilane.lab.storage import singles
from trilane.lab.storage.store import write_json
from trilane.report import single
from trilane.report.charts.base import Chart
from trilane.report.charts.run import parts
from unit.report.test_charts import UNITS, channels, check, legends, rows

EVIL = "<script>alert('&\"')</script>"
SLOW = {
    "latency_s": 0.5,
    "at_s": 1.25,
    "waited_s": 0.1,
    "first_byte_s": 0.3,
    "body_s": 0.1,
    "timed_out": False,
    "request": 0,
    "number": 41,
    "worker": 0,
    "connection": 3,
    "stream": 17,
}
GIVEN_UP = {**SLOW, "first_byte_s": None, "body_s": None, "timed_out": True, "number": 42}


def made(**changes: Any) -> Run:
    """A run with counts by latency in its windows, and what is changed of it."""
    document = run(histogram=True)
    for window in document["windows"]:
        window["latencies"] = [[30, window["ok"] - 5], [31, 5]]
    document["slowest"] = [SLOW, GIVEN_UP]
    return msgspec.convert(_merged(document, changes), Run)


def _merged(document: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **document,
        **{
            name: {**document[name], **change} if isinstance(change, dict) else change
            for name, change in changes.items()
        },
    }


def search(**options: Any) -> Search:
    return msgspec.convert(searches.search(**options), Search)


def charts(of: Run | Search) -> dict[str, Chart]:
    return {chart.name: chart for chart in single.charts(of)}


@pytest.mark.parametrize("of", [made(), search()], ids=["run", "search"])
def test_every_chart_follows_the_schema_and_has_units(of: Run | Search) -> None:
    found = charts(of)
    assert found
    for chart in found.values():
        check(chart.spec)
        titles = [channel["title"] for _, channel in channels(chart.spec) if channel.get("title")]
        units = (*UNITS, "Requests per second", "CPUs")
        assert any(unit in title for title in (chart.title, *titles) for unit in units), chart.name


def test_a_run_has_a_heat_map_of_its_latency() -> None:
    found = charts(made())
    assert list(found) == ["rate", "latency-over-time", "distribution", "processors", "slowest"]
    cells = rows(found["latency-over-time"])
    assert sorted({row["low"] for row in cells}) == pytest.approx([1.0, 10**0.1])
    assert sum(row["count"] for row in cells) == 20 * 5000
    assert re.fullmatch(r"[\d,]+ requests \(\d+%\) of 1–1.26 ms, at 0 s", cells[0]["said"])


def test_without_counts_of_latencies_there_are_quantiles_and_it_is_said() -> None:
    windows = run()["windows"]
    chart = charts(made(windows=windows))["latency-over-time"]
    assert {row["kind"] for row in rows(chart)} == {"p50", "p99"}
    assert "has no counts of latencies over time" in chart.note


def test_errors_and_what_was_asked_for_stand_beside_the_rate() -> None:
    windows = [{**window, "failed": 10} for window in run()["windows"]]
    stages = [{"length_s": 1.0, "rate_per_s": 5000.0}, {"length_s": 1.0, "rate_per_s": 0.0}]
    plan = {"model": "open", "rate_per_s": 2500.0, "stages": stages}
    failures = {"timeout": {"count": 200, "example": "timed out"}}
    changed = made(windows=windows, plan=plan, requests={"failed": 200, "failures": failures})
    chart = charts(changed)["rate"]
    kinds: dict[str, list[float]] = {}
    for row in rows(chart):
        kinds.setdefault(row["kind"], []).append(row["rate"])
    assert kinds["failed"] == pytest.approx([100.0] * 20)
    assert kinds["asked for"] == [0, 5000, 0]
    assert "Dashed" in chart.note


def test_the_server_is_drawn_where_its_processor_time_is_known() -> None:
    assert {row["kind"] for row in rows(charts(made())["processors"])} == {"client"}
    windows = [{**window, "server_cpu_s": 0.05} for window in run()["windows"]]
    known = rows(charts(made(windows=windows))["processors"])
    assert {row["kind"] for row in known} == {"client", "server"}
    assert [row["busy"] for row in known if row["kind"] == "server"] == pytest.approx([0.5] * 20)


def test_the_slowest_are_told_apart_by_what_they_waited_for() -> None:
    bars = rows(charts(made())["slowest"])
    first = [row["time"] for row in bars if row["place"].startswith("1.")]
    assert first == pytest.approx([100, 300, 100])
    # What was given up before its head has nothing after it.
    second = {row["kind"]: row["time"] for row in bars if row["place"].startswith("2.")}
    assert second == pytest.approx(
        {"before its first byte": 100, "to the head of the response": 400}
    )
    page = single.render(made())
    assert "500 ms (timed out)" in page
    assert "0:3" in page


def test_lines_that_lie_on_each_other_can_both_be_seen() -> None:
    """The first byte of a small response is its last one, too."""
    (chart,) = [each for each in single.charts(made()) if each.name == "distribution"]
    dashes = chart.spec["encoding"]["strokeDash"]["scale"]
    of = dict(zip(dashes["domain"], dashes["range"], strict=True))
    assert dashes["domain"] == chart.spec["encoding"]["color"]["scale"]["domain"]
    assert of["service"] == [1, 0] != of["first byte"]
    # What is drawn later lies above.
    assert dashes["domain"].index("service") < dashes["domain"].index("first byte")


def test_wide_tables_name_their_cells_for_narrow_pages() -> None:
    page = single.render(made())
    (times,) = re.findall(r'<h2 id="times">.*?</table>', page, re.DOTALL)
    assert 'class="plain numbers"' in times
    names = re.findall(r"<td data-name=\"([^\"]+)\"", times)
    assert names[:9] == ["count", "min", "mean", "p50", "p75", "p90", "p95", "p99", "p99.9"]
    (rates,) = re.findall(r'<h2 id="rates">.*?</table>', single.render(search()), re.DOTALL)
    assert 'class="plain numbers"' in rates
    assert '<td data-name="p99">' in rates


def test_a_page_is_called_by_what_came_of_it() -> None:
    for of in (made(), search()):
        page = single.render(of)
        title = page[page.index("<title>") + len("<title>") : page.index("</title>")]
        assert title == single.answer(of).headline
        assert f"<h1>{title}</h1>" in page


def test_the_numbers_that_matter_stand_above_the_charts() -> None:
    page = single.render(made())
    tiles = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page)
    assert tiles == [
        ("requests/s", "50,000"),
        ("p50 latency", "1.20 ms"),
        ("p99 latency", "2.16 ms"),
        ("failed", "0 %"),
        ("client CPU per request", "14.0 µs"),
    ]
    assert page.index('class="tiles"') < page.index('id="chart-')


ANSWER = {
    "headline": "50,000 requests/s, p50 1.2 ms, p99 2.2 ms, 0 failed; this client was the limit",
    "because": ["This client was the limit: a worker was 97 % busy."],
    "confidence": {
        "verdict": "suspect",
        "doubts": [
            {
                "code": "worker_busy",
                "verdict": "suspect",
                "text": "a worker was 97 % busy",
                "advice": f"use more threads with -t {EVIL}",
            }
        ],
    },
    "figures": [{"label": "requests/s", "measure": "requests_per_s", "value": 5e4, "unit": "1/s"}],
    "details": ["failed 0 requests, allowed ≤ 0 requests: passed"],
}


@pytest.mark.parametrize("of", [made, search], ids=["run", "search"])
def test_a_page_begins_with_its_answer(of: Callable[[], Run | Search]) -> None:
    answer = msgspec.convert(ANSWER, Answer)
    page = single.render(msgspec.structs.replace(of(), answer=answer))
    assert f"<title>{answer.headline}</title>" in page
    places = [
        page.index(text)
        for text in (
            '<b class="badge suspect">suspect</b>',
            f"<h1>{answer.headline}</h1>",
            f'<p class="because">{answer.because[0]}</p>',
            "a worker was 97 % busy <span",
            "use more threads with -t",
            answer.details[0],
            'id="charts"',
        )
    ]
    assert places == sorted(places)
    assert EVIL not in page


def test_a_run_that_the_lab_judged_anew_has_no_answer_of_before() -> None:
    run = msgspec.structs.replace(made(), answer=msgspec.convert(ANSWER, Answer))
    judged = run.doubted(Reason(code="version", verdict="invalid", text="over HTTP/1.1"))
    assert judged.answer is None
    assert single.answer(judged).confidence.verdict == "invalid"


def test_a_long_run_is_drawn_by_fewer_points() -> None:
    windows = [{**run()["windows"][0], "start_s": number / 10} for number in range(7200)]
    found = parts(made(windows=windows).windows, 300)
    assert len(found) == 300
    assert found[0].end == pytest.approx(2.4)
    assert found[-1].per_s(sum(window.ok for window in found[-1].windows)) == pytest.approx(50_000)


def test_what_a_server_said_is_escaped() -> None:
    failures = {"protocol": {"count": 3, "example": EVIL}}
    page = single.render(made(requests={"failed": 3, "failures": failures}))
    assert EVIL not in page
    assert "&lt;script&gt;alert(" in page


def test_the_steps_of_a_scenario_are_a_table() -> None:
    times = run(histogram=True)["latency"]["service"]
    step = {"url": "http://127.0.0.1/", "ok": 30, "failed": 2, "service": times}
    scenario = {
        "name": "shop",
        "users": 20,
        "started": 40,
        "ok": 30,
        "failed": 2,
        "abandoned": 8,
        "iterations_per_s": 3.0,
        "duration": times,
        "steps": [{**step, "name": EVIL}],
    }
    page = single.render(msgspec.convert({**run(histogram=True), "scenario": scenario}, Run))
    assert "20 users, 3.0 iterations/s; 40 started = 30 ok + 2 failed + 8 abandoned" in page
    assert EVIL not in page
    assert '<a href="#scenario">Scenario</a>' in page


def test_several_machines_are_a_table() -> None:
    worker = {
        "name": "w0",
        "host": EVIL,
        "threads": 4,
        "cores": None,
        "clock_offset_s": -0.002,
        "clock_error_s": 0.0001,
        "start_late_s": 0.00025,
        "ok": 12_000,
        "failed": 3,
        "requests_per_s": 1_200.0,
        "p50": 0.001,
        "p99": None,
        "cpu_us_per_request": 12.5,
        "busy": 0.25,
        "lost": None,
    }
    workers = [worker, {**worker, "name": "w1", "lost": "its power went"}]
    page = single.render(msgspec.convert({**run(histogram=True), "workers": workers}, Run))
    assert '<a href="#workers">Workers</a>' in page
    assert EVIL not in page
    for cell in ("12,000", "1,200.0", "1.00 ms", "12.5 µs", "25%", "250 µs", "its power went"):
        assert f">{cell}<" in page, cell
    assert "#workers" not in single.render(made())


def test_several_origins_are_a_table() -> None:
    times = run(histogram=True)["latency"]["service"]
    counts = {"started": 1032, "ok": 1030, "failed": 2, "abandoned": 0}
    origin = {**counts, "connections": 4, "connections_failed": 1, "service": times}
    origins = [{**origin, "origin": "https://a.example"}, {**origin, "origin": EVIL}]
    page = single.render(msgspec.convert({**run(histogram=True), "origins": origins}, Run))
    assert '<a href="#origins">Origins</a>' in page
    assert "https://a.example" in page
    assert page.count("1,032") == 2
    assert EVIL not in page
    assert "#origins" not in single.render(made())


def test_the_page_says_what_came_of_it_and_whether_to_believe_it() -> None:
    reasons = [{"code": "failed", "verdict": "invalid", "text": "2 % failed"}]
    validity = {"verdict": "invalid", "reasons": reasons, "bound": None}
    page = single.render(made(validity=validity))
    assert "50,000 requests/s over HTTP/2, median 1.20 ms, p99 2.16 ms" in page
    assert '<b class="badge invalid">invalid</b>' in page
    assert "2 % failed" in page
    assert "GET, closed model, 4 connections, 16 streams, 1 thread; 2s after 1s of warm-up." in page
    # Offline: it may load nothing.
    assert "default-src 'none'" in page


def test_latency_against_load_has_the_goal_and_the_interval() -> None:
    chart = charts(search())["load"]
    drawn = rows(chart)
    assert {row["limit"] for row in drawn if "limit" in row} == {10}
    assert [(row["low"], row["high"]) for row in drawn if "low" in row] == [(10_000, 10_400)]
    held = {row["rate"]: row["held"] for row in drawn if "held" in row}
    assert held == {
        5000: "held",
        10_000: "held",
        10_400: "did not hold",
        20_800: "did not hold",
    }
    assert (
        "HTTP/2 at 10,400 requests/s, 10,400 ok: p99 36.0 ms, did not hold; "
        "p99<10ms is not true: it is 36.0 ms"
    ) in {row["said"] for row in drawn if "held" in row}
    assert legends(chart.spec)
    page = single.render(search())
    assert "The highest rate that holds lies between 10,000 and 10,400 requests/s" in page
    assert "What did not hold above it: p99&lt;10ms." in page
    assert "6 of 6" in page


def test_a_search_that_was_ended_early_has_no_answer() -> None:
    ended = msgspec.structs.replace(search(), interrupted=True, low_per_s=None, trials=[])
    assert single.charts(ended) == []
    assert "Interrupted: the search did not come to an answer." in single.render(ended)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_json(tmp_path / "run.json", made())
    return tmp_path / "run.json"


def report(*arguments: str) -> int:
    return app.run(["report", *arguments])


def test_a_file_gets_its_page_beside_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(str(file)) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("50,000 requests/s over HTTP/2")
    assert f"report: {file.with_suffix('.html')}" in shown.err
    assert file.with_suffix(".html").read_text().startswith("<!doctype html>")


def test_formats_and_pictures_of_a_file(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(str(file), "--format", "json", "--charts", str(tmp_path / "charts")) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "trilane.run/1"
    assert {path.name for path in (tmp_path / "charts").iterdir()} >= {"rate.png", "slowest.svg"}
    assert report(str(file), "--format", "html") == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")
    assert not file.with_suffix(".html").exists()
    assert report(str(file), "--format", "csv") == 2
    assert "one run has no table" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not a JSON file"),
        ('{"schema": "trilane.lab/1"}', "has schema 'trilane.lab/1', not trilane.run/1 or"),
        ('{"schema": "trilane.run/1"}', "is not a trilane.run/1 of this version"),
        ("[1]", "has schema None, not trilane.run/1"),
    ],
)
def test_a_file_that_is_none_is_named(
    tmp_path: Path, content: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.json"
    file.write_text(content, encoding="utf-8")
    assert report(str(file)) == 1
    error = capsys.readouterr().err
    assert said in error
    assert str(file) in error


def test_a_search_is_read_as_one() -> None:
    assert isinstance(singles.read(json.dumps(searches.search())), Search)
