"""What a lab result says: on the terminal and as a page, with many arms, sweeps, broken runs."""

from __future__ import annotations

import csv
import functools
import io
import json
import re

import altair as alt
import msgspec
import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from synthetic import labs
from synthetic.records import altered
from trilane.lab.model.lab import LabResult
from trilane.lab.model.profile import Frame, Profile, Profiles
from trilane.report import charts, html, ledgers, strip, tables, terminal, view

EVIL = "<script>alert('&\"')</script>[bold]x[/bold]"
ARMS = 12


def printed(made: LabResult, width: int = 100) -> str:
    stream = io.StringIO()
    terminal.show(made, Console(file=stream, width=width, color_system=None), verbose=True)
    return stream.getvalue()


def bookstore() -> LabResult:
    return labs.bookstore(ARMS)


@functools.cache
def page() -> str:
    return html.render(bookstore())


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("name", ["bookstore", "strategies", "versions"])
def test_nothing_is_wider_than_the_terminal(name: str, width: int) -> None:
    made = bookstore() if name == "bookstore" else getattr(labs, name)()
    shown = printed(made, width)
    assert max(len(line) for line in shown.splitlines()) <= width
    assert shown[2:].startswith(made.verdict[:40])
    assert "…" not in shown


def test_many_arms_stand_below_each_other_best_first() -> None:
    shown = printed(bookstore(), 120)
    comparison = bookstore().points[0].comparison
    places = [shown.index(f"\n{arm.title}") for arm in view.ranked(comparison)]
    assert places == sorted(places)
    best = view.ranked(comparison)[0]
    assert re.search(rf"{best.title} +\d+\.\d\d +[▼?] 0\.\d+× \(0\.\d+–0\.\d+\)", shown)


def test_an_invalid_arm_comes_last_and_is_marked() -> None:
    comparison = bookstore().points[0].comparison
    last = view.ranked(comparison)[-1]
    assert last.validity.verdict == "invalid"
    assert f"{last.title} invalid" in printed(bookstore(), 200)
    assert "✗" in printed(bookstore(), 200)


def test_units_stand_in_the_heads_of_the_columns() -> None:
    shown = printed(bookstore(), 200)
    for head in ("(s)", "(%)", "(µs)", "(MB)"):
        assert head in shown


def test_the_post_stands_beside_ours() -> None:
    shown = printed(bookstore(), 140)
    assert re.search(r"elapsed time: .* ÷ .* 0\.60× +[▲▼=?✗] \d", shown)
    assert re.search(r"CPU of the process: gone ÷ .* 0\.57× +not measured", shown)
    assert "3.53 ÷ 5.84, listing of user, system and elapsed time" in page()
    assert "not measured" in page()


def test_a_ratio_that_a_post_gives_twice_says_where() -> None:
    [first, *_] = bookstore().published
    second = altered(first, {"published.where": "another table"})
    made = altered(bookstore(), {"published": [first, second]})
    shown = printed(made, 200)
    assert "(another table)" in shown
    assert "(listing of user, system and elapsed time)" in shown


def test_gates_and_skipped_arms_are_told() -> None:
    shown = printed(bookstore(), 200)
    assert "promised 0.10–0.50×: breached, 0.90× (0.85–0.95)" in shown
    assert "undici-h2-chunks: node is not installed" in shown
    assert "breached" in page()
    assert "node is not installed" in page()


def test_every_point_of_a_sweep_is_shown_with_crossings() -> None:
    shown = printed(labs.strategies())
    for label in ("100 requests:", "1,000 requests:", "30,000 requests:"):
        assert label in shown
    assert "cross at 6,200 requests (95 % interval 4,800 to 8,900)" in shown
    made = labs.strategies()
    page = html.render(altered(made, {"points": made.points[:2]}))
    assert "cross at 6,200 requests" in page
    assert page.count('<details class="point"') == 2


def test_nothing_measured_is_still_a_page() -> None:
    assert "No answer" in printed(labs.empty())
    assert "No answer" in html.render(labs.empty())


def test_a_page_tells_question_source_confounders_and_replay() -> None:
    for said in (
        "Does HTTP/2 fetch 3,000 books sooner than HTTP/1.1?",
        "Most of the gain is concurrency, not the version.",
        "serial against batches",
        "HTTP/2 is faster: 3.53 s against 5.84 s.",
        "trilane lab replay 20261120-100000-bookstore-fair",
        "Test CPU @ 3 GHz, 2 CPUs, Linux 6.1",
    ):
        assert said in page()


def test_a_page_holds_every_arm_and_measure() -> None:
    comparison = bookstore().points[0].comparison
    for arm in comparison.arms:
        assert f'<th scope="row">{arm.title}' in page()
    for measure in comparison.measures:
        assert f'<th scope="col">{measure.label}' in page()


def test_the_strip_has_a_cell_per_run_in_block_order_with_its_reason() -> None:
    comparison = bookstore().points[0].comparison
    rows = strip.rows(comparison)
    assert len(rows) == ARMS
    assert sum(len(block) for row in rows for block in row.blocks) == 7 * (ARMS + 1)
    for number in range(7):
        assert sorted(len(row.blocks[number]) for row in rows) == [*[1] * (ARMS - 1), 2]
    invalid = [cell for row in rows for block in row.blocks for cell in block if cell.symbol == "✗"]
    assert [cell.said for cell in invalid] == [
        f"{invalid[0].said.partition(':')[0]}: invalid (3 of 3000 requests failed: closed)"
    ]
    assert invalid[0].said.startswith("block 2, position ")
    assert strip.said(comparison) == "91 runs: 89 valid, 1 suspect and 1 invalid"
    assert 'title="block 2, position' in page()


def test_a_run_that_left_nothing_is_invalid_and_shifts_no_other() -> None:
    # Of more arms than blocks the last never run twice in one.
    lost = {"problem": "the client was killed", "run": None, "server": None}
    comparison = altered(
        bookstore().points[0].comparison,
        {f"arms.8.samples.2.{name}": value for name, value in lost.items()},
    )
    arm = comparison.arms[8]
    row = next(row for row in strip.rows(comparison) if row.title == arm.title)
    assert row.blocks[2][0].said.endswith("invalid (the client was killed)")


def test_a_busy_machine_makes_a_cell_suspect() -> None:
    comparison = altered(
        bookstore().points[0].comparison, {"arms.1.samples.0.server.others_busy": 0.4}
    )
    row = next(r for r in strip.rows(comparison) if r.title == comparison.arms[1].title)
    assert row.blocks[0][0].state == "suspect"
    assert "other programs took 40 %" in row.blocks[0][0].said


def test_a_ledger_of_many_arms_groups_them_by_value() -> None:
    facts = ledgers.facts(bookstore().points[0].comparison)
    version = next(fact for fact in facts if fact.name == "version obtained")
    assert [value for value, _ in version.values] == ["h1", "h2", "h3"]
    assert sum(len(arms) for _, arms in version.values) == ARMS
    same = next(fact for fact in facts if fact.name == "client runtime")
    assert same.equal
    assert len(same.values) == 1


def test_strings_from_outside_are_escaped_everywhere() -> None:
    made = labs.with_string(bookstore(), EVIL)
    page = html.render(made)
    assert "<script>alert(" not in page
    assert "&lt;script&gt;alert(" in page
    assert "[bold]x[/bold]" in printed(made)
    assert "<script>alert(" not in made._repr_html_()


def test_a_notebook_shows_verdict_and_numbers_without_scripts() -> None:
    shown = bookstore()
    assert repr(shown) == f"<LabResult of bookstore, form fair: {shown.verdict}>"
    fragment = shown._repr_html_()
    assert "<script" not in fragment
    assert bookstore().verdict in fragment
    assert "elapsed time" in fragment
    # A notebook has none of the report's styles: what stands on a line of its own is a block.
    assert not re.search(r"\S<span class=\"(soft|ratio)", fragment)
    assert "</span><span" not in fragment


def test_a_frame_has_a_row_for_each_point_arm_and_measure() -> None:
    made = labs.strategies()
    frame = made.frame()
    arms = [(point.value, arm.name) for point in made.points for arm in point.comparison.arms]
    assert list(dict.fromkeys(zip(frame["point"], frame["arm"], strict=True))) == arms
    rows = list(zip(*frame.values(), strict=True))
    assert len(rows) == len(list(csv.DictReader(io.StringIO(tables.csv_text(made)))))
    row = dict(zip(frame, rows[0], strict=True))
    first = made.points[0].comparison.arms[0]
    assert (row["measure"], row["unit"]) == ("elapsed_s", "s")
    assert row["median"] == first.summary["elapsed_s"].median


@pytest.mark.parametrize("name", ["bookstore", "strategies", "versions", "empty"])
def test_made_up_results_follow_the_schema(name: str, lab_schema: Draft202012Validator) -> None:
    made = bookstore() if name == "bookstore" else getattr(labs, name)()
    read_back = json.loads(msgspec.json.encode(made))
    assert [error.message[:200] for error in lab_schema.iter_errors(read_back)] == []


def profiled() -> LabResult:
    """The bookstore with a profile, and a reason why there is no other."""
    frames = [
        Frame(name="start", code="library", depth=0, start=0, samples=40),
        Frame(name="main", code="program", depth=1, start=0, samples=40),
        Frame(name="<script>alert(1)</script>", code="program", depth=2, start=0, samples=30),
        Frame(name="sendto", code="kernel", depth=3, start=0, samples=10),
    ]
    arm = bookstore().points[0].comparison.arms[0].name
    made = [Profile(arm=arm, end="client", samples=40, per_s=199, frames=frames)]
    return altered(bookstore(), {"profiles": Profiles(made=made, missing=["perf is <gone>"])})


def test_a_profile_is_a_flame_graph_in_the_report() -> None:
    lab = profiled()
    (chart,) = [each for each in charts.charts(lab) if each.name.startswith("flame-")]
    alt.LayerChart.validate(chart.spec)
    rows = chart.spec["data"]["values"]
    # What all samples have in common but for the last of it is left out.
    assert [(row["name"], row["depth"], row["from"], row["to"]) for row in rows] == [
        ("main", 0, 0, 100),
        ("<script>alert(1)</script>", 1, 0, 75),
        ("sendto", 2, 0, 25),
    ]
    assert chart.spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["program", "kernel"]
    page = html.render(lab)
    assert f'id="chart-{chart.name}"' in page
    assert "<script>alert(1)" not in page
    assert "No profile: perf is &lt;gone&gt;" in page
    shown = printed(lab, 120)
    assert "client: 40 samples, in the report" in shown
    assert "no profile: perf is <gone>" in shown


def test_without_profiles_nothing_is_said_of_them() -> None:
    assert "rofile" not in printed(bookstore(), 120)
    assert 'id="profiles"' not in page()
