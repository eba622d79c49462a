"""What a report says of the requests and of how they were sent: METHOD §1 and §2."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from synthetic import labs, races
from synthetic.records import altered, with_runs
from trilane.lab.analysis import paired
from trilane.lab.model.comparison import Comparison
from trilane.lab.model.lab import LabResult
from trilane.lab.model.run import Failure
from trilane.report import accounts, html, tables, terminal


def race() -> Comparison:
    """Three versions; the first arm's second run has three failures."""
    seen = races.race({"h1": 1.0, "h2": 1.5, "h3": 0.6}, histogram=True, blocks=2)
    second = next(sample for sample in seen.samples if sample.arm == "h1")
    assert second.run is not None
    failed = {
        "requests.ok": second.run.requests.ok - 3,
        "requests.failed": 3,
        "requests.failures": {
            "reset": Failure(count=1, example="reset by the peer"),
            "timeout": Failure(count=2, example="no complete response within 30s"),
        },
    }
    return paired.compare(with_runs(seen, lambda s: failed if s is second else {}))


def result(made: LabResult | Comparison) -> LabResult:
    return made if isinstance(made, LabResult) else LabResult.of_race(made)


def printed(made: LabResult | Comparison, width: int = 80) -> str:
    stream = io.StringIO()
    terminal.show(result(made), Console(file=stream, width=width, color_system=None), verbose=True)
    return stream.getvalue()


def page(made: LabResult | Comparison) -> str:
    return re.sub(r"\s+", " ", html.render(result(made)))


def test_the_three_ends_of_requests_add_up_in_every_arm() -> None:
    rows = accounts.accounts(race())
    assert [row.title for row in rows] == ["HTTP/1.1", "HTTP/2", "HTTP/3"]
    for row in rows:
        assert row.started == row.ok + row.failed + row.abandoned > 0
    assert [(row.failed, row.kinds) for row in rows] == [
        (3, "timeout 2, reset 1"),
        (0, ""),
        (0, ""),
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal_has_them_with_round_trip_path_and_model(width: int) -> None:
    made = race()
    shown = printed(made, width)
    words = " ".join(shown.split())
    rows = accounts.accounts(made)
    assert accounts.total(rows) in words
    assert f"HTTP/1.1: 3 of {rows[0].started:,} failed (timeout 2, reset 1)" in words
    assert "round trip: HTTP/1.1 50.0 µs, HTTP/2 50.0 µs, HTTP/3 50.0 µs" in words
    assert "closed model, direct path, 64 requests in flight" in words
    assert max(map(len, shown.splitlines())) <= width


def test_the_page_has_them_too() -> None:
    made = race()
    whole = page(made)
    first = accounts.accounts(made)[0]
    assert f'<td data-name="started">{first.started:,}</td>' in whole
    assert '<td data-name="failed" class="bad">3 (timeout 2, reset 1)</td>' in whole
    assert '<td data-name="round trip">50.0 µs</td><td data-name="path">direct</td>' in whole
    assert "Closed model, direct path, 64 requests in flight" in whole
    assert accounts.total(accounts.accounts(made)) in whole


def test_markdown_has_their_sum() -> None:
    made = race()
    said = tables.markdown(result(made))
    assert f"Closed model, direct path, {accounts.total(accounts.accounts(made))}." in said


def test_a_client_that_tells_no_round_trip_has_none() -> None:
    made = labs.strategies()
    rows = accounts.accounts(made.points[0].comparison)
    assert {row.round_trip for row in rows} == {"–"}


def test_many_arms_are_told_in_one_line_and_those_with_failures_by_name() -> None:
    failed = {"ok": 2998, "failed": 2, "failures": {"body": Failure(count=2, example="cut")}}
    made = altered(
        labs.bookstore(12),
        {
            f"points.0.comparison.arms.2.samples.0.run.requests.{name}": value
            for name, value in failed.items()
        },
    )
    arm = made.points[0].comparison.arms[2]
    # Each of seven blocks has a run of every arm, and a second one of an arm: of this arm once.
    runs = 7 * 13
    assert (
        f"{3000 * runs:,} requests started = {3000 * runs - 2:,} ok + 2 failed + 0 abandoned"
        in printed(made, 120)
    )
    assert f"{arm.title}: 2 of 24,000 failed (body 2)" in printed(made, 120)


def test_paths_are_told_apart_where_they_differ() -> None:
    made = race()
    made = altered(made, {"arms.1.network": "rtt=20ms"})
    shown = " ".join(printed(made, 100).split())
    assert "closed model, paths differ" in shown
    assert "rtt=20ms" in shown
    assert '<td data-name="path">rtt=20ms</td>' in page(made)
    made = altered(made, {f"arms.{n}.network": "rtt=20ms" for n in range(3)})
    assert "closed model, emulated network rtt=20ms, 64 requests" in " ".join(printed(made).split())


def test_the_model_is_that_of_the_runs() -> None:
    made = race()
    runs = [[f"arms.{n}.samples.{m}.run.plan.model" for m in (0, 1)] for n in range(3)]
    assert [len(arm.samples) for arm in made.arms] == [3, 3, 2]
    made = altered(made, dict.fromkeys(runs[0], "open"))
    assert "models differ, direct path" in printed(made)
    made = altered(made, {path: "open" for paths in runs for path in paths})
    made = altered(made, {f"arms.{n}.samples.2.run.plan.model": "open" for n in (0, 1)})
    assert "open model, direct path" in printed(made)
    assert "Open model, direct path" in page(made)


def test_every_point_of_a_sweep_has_its_own() -> None:
    shown = printed(labs.strategies(), 120)
    assert len(re.findall(r"requests started = [\d,]+ ok", shown)) == 3
    assert shown.count("closed model, direct path") == 3
    assert page(labs.strategies()).count(">Requests</h3>") == 3


def test_without_a_run_nothing_is_invented() -> None:
    assert accounts.setting(labs.empty().points[0].comparison) == ["direct path"]
    assert "–" in printed(labs.empty())
