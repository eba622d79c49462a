"""`trilane history`: series that belong together, and nothing joined that does not."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from synthetic import folders
from trilane.lab.storage import history
from trilane.lab.storage.history import NoHistory
from trilane.lab.storage.summaries import summaries
from trilane.report import history as report

from .conftest import Trilane

FACTORS = {"h1": 1.0, "h2": 1.5}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    folders.race(folder, "20261116-100000", FACTORS)
    folders.race(folder, "20261117-100000", FACTORS, seed=2)
    other = {**folders.MACHINE, "cpu": "Another CPU"}
    folders.race(folder, "20261118-100000", FACTORS, seed=3, machine=other)
    folders.lab(folder, "20261118-110000", FACTORS, points=(100, 1000))
    folders.lab(folder, "20261119-110000", FACTORS, points=(100, 1000), seed=2)
    folders.lab(folder, "20261120-110000", FACTORS, points=(100,), workload={"kind": "crawl"})
    return folder


def read(state: Path, experiment: str | None, **asked: object) -> history.History:
    return history.read(summaries(state), experiment, **asked)  # type: ignore[arg-type]


def test_machines_are_kept_apart(state: Path) -> None:
    found = read(state, "race", arms=["h2"])
    assert [len(series.values) for series in found.series] in ([1, 2], [2, 1])
    assert len({series.run.machine for series in found.series}) == 2


def test_points_and_workloads_are_kept_apart(state: Path) -> None:
    found = read(state, "bookstore", arms=["h1"])
    told = [(series.arm.point, series.workload, len(series.values)) for series in found.series]
    assert told == [(100, "a", 2), (100, "b", 1), (1000, "a", 2)]


def test_the_measure_is_the_rankings_unless_another_is_asked_for(state: Path) -> None:
    assert read(state, "race").measure.name == "requests_per_s"
    found = read(state, "race", measure="p50")
    assert (found.measure.name, found.unit, found.measure.better) == ("p50", "s", "lower")
    for reached in (value.reached for series in found.series for value in series.values):
        assert reached.low is not None
        assert reached.high is not None
        assert reached.low <= (reached.median or 0) <= reached.high


@pytest.mark.parametrize(
    ("experiment", "asked", "said"),
    [
        (None, {}, "name one of the experiments that have run: bookstore, race"),
        ("walk", {}, "no run of 'walk': these have run: bookstore, race"),
        ("race", {"measure": "p98"}, "no run has the measure 'p98': there is requests_per_s, p50"),
        ("race", {"arms": ["h3"]}, "no run has the arm 'h3': there is h1, h2"),
        ("race", {"machine": "00000000"}, "no run has the machine '00000000'"),
        ("bookstore", {"form": "published"}, "no run of bookstore in form published has a result"),
    ],
)
def test_what_is_not_there_is_said(
    state: Path, experiment: str | None, asked: dict[str, object], said: str
) -> None:
    with pytest.raises(NoHistory, match=r".") as caught:
        read(state, experiment, **asked)
    assert said in str(caught.value)


def test_without_an_experiment_one_is_asked_for(trilane: Trilane) -> None:
    code, out, err = trilane()
    assert (code, out) == (1, "")
    assert "name one of the experiments that have run: bookstore, race" in err
    assert "trilane runs list" in err


def test_a_table_has_units_and_intervals(trilane: Trilane) -> None:
    code, out, _ = trilane("race", "--measure", "p50")
    assert code == 0
    assert "p50 latency, µs" in out
    assert "lower is better" in out
    assert "Another CPU, 2 CPUs, Linux 6.1.0" in out
    assert re.search(r"2026-11-17 10:00:00 +[\d,.]+ +[\d,.]+–[\d,.]+ ", out)
    # Told once for each series: it did not change.
    assert out.count("trilane 0.1.0 (0123abc)") == 4


def test_json_has_what_the_table_has(trilane: Trilane) -> None:
    code, out, _ = trilane("bookstore", "-m", "p99", "-a", "h2", "--format", "json")
    assert code == 0
    document = json.loads(out)
    assert document["schema"] == "trilane.history/1"
    assert document["measure"]["unit"] == "s"
    assert [series["point"] for series in document["series"]] == [100, 100, 1000]


def test_nothing_to_show_is_an_error_with_a_way_out(trilane: Trilane, tmp_path: Path) -> None:
    code, out, err = trilane(at=tmp_path)
    assert (code, out) == (1, "")
    assert "trilane race" in err
    code, _, err = trilane("race", at=tmp_path)
    assert code == 1
    assert "trilane race" in err


def test_interrupted_runs_are_left_out_unless_asked_for(trilane: Trilane, tmp_path: Path) -> None:
    folders.race(tmp_path, "20261116-100000", FACTORS)
    folders.race(tmp_path, "20261117-100000", FACTORS, seed=2, status="interrupted")
    folders.lab(tmp_path, "20261118-100000", FACTORS, status="interrupted")

    def dates(*asked: str) -> tuple[set[str], str]:
        code, out, err = trilane(*asked, at=tmp_path)
        assert code == 0
        return set(re.findall(r"2026-11-\d\d", out)), err

    assert dates("race") == (
        {"2026-11-16"},
        "left out: 1 interrupted run (--interrupted includes them)\n",
    )
    assert dates("race", "--interrupted") == ({"2026-11-16", "2026-11-17"}, "")
    code, out, err = trilane("bookstore", at=tmp_path)
    assert (code, out) == (1, "")
    assert "every run of bookstore was interrupted: --interrupted includes them" in err
    assert dates("bookstore", "--interrupted") == ({"2026-11-18"}, "")


def test_a_report_needs_a_folder(trilane: Trilane) -> None:
    code, _, err = trilane("race", "--report", "/nowhere/x.html")
    assert code == 2
    assert "--report takes a file in a folder that exists" in err


@pytest.mark.usefixtures("drawn")
def test_a_page_is_written_where_it_is_asked_for(trilane: Trilane, tmp_path: Path) -> None:
    file = tmp_path / "history.html"
    code, _, err = trilane("bookstore", "--report", str(file))
    assert code == 0
    assert str(file) in err
    page = file.read_text(encoding="utf-8")
    assert re.findall(r'id="chart-(\d)"', page) == ["1", "2"]
    assert re.search(r"<title>\d{8}-\d{6}-bookstore\S*: [\d,.]+ \([\d,.]+–[\d,.]+\), trilane", page)


@pytest.mark.usefixtures("drawn")
def test_a_page_escapes_what_runs_say(state: Path, tmp_path: Path) -> None:
    nasty = {**folders.MACHINE, "cpu": "<script>alert(1)</script>"}
    folders.race(tmp_path, "20261116-100000", FACTORS, machine=nasty)
    from trilane.report import history as shown  # noqa: PLC0415 - loads slowly

    page = shown.page(read(tmp_path, "race"))
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


def printed(show: Callable[[Console], None], width: int) -> str:
    stream = io.StringIO()
    show(Console(file=stream, width=width, color_system=None))
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 100, 160])
def test_a_table_of_a_history_has_all_its_columns(width: int, state: Path) -> None:
    found = read(state, "race", measure="client_cpu_us_per_request")
    shown = printed(lambda console: report.show(found, console), width)
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    lines = shown.splitlines()
    assert any(re.search(r"started \(UTC\) .*95 % interval +software +validity", x) for x in lines)
    assert [line.split()[-1] for line in lines if re.match(r"  2026-", line)] == ["valid"] * 6
