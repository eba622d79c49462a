"""The numbers at the axes of charts, as a browser draws them."""

from __future__ import annotations

import copy
import re

import pytest
import vl_convert
from msgspec.structs import replace

from synthetic import labs, races
from synthetic.records import with_runs
from trilane.lab.analysis import paired
from trilane.lab.model.lab import LabResult
from trilane.lab.model.sample import Sample
from trilane.report import charts

pytestmark = pytest.mark.usefixtures("drawn")


def texts(chart: charts.Chart) -> list[str]:
    """Everything that is written in a chart."""
    spec = copy.deepcopy(chart.spec)
    spec["width"] = 500
    return re.findall(r"<text[^>]*>([^<]*)</text>", vl_convert.vegalite_to_svg(spec))


def named(made: LabResult, name: str) -> charts.Chart:
    return next(chart for chart in charts.charts(made) if chart.name == name)


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ((50, 100, 250), ["50", "100", "250"]),
        ((10_000, 20_000, 30_000), ["10,000", "20,000", "30,000"]),
        ((100, 1_000, 30_000), ["100", "1,000", "30,000"]),
    ],
)
def test_values_of_a_sweep_are_written_out(values: tuple[int, ...], ticks: list[str]) -> None:
    made = labs.strategies(values)
    assert texts(named(made, "sweep-elapsed_s"))[: len(ticks)] == ticks


@pytest.mark.parametrize(
    ("seconds", "last"), [(0.5, "0.5"), (1, "1"), (20, "20"), (250, "240"), (1000, "1,000")]
)
def test_the_time_within_a_run_is_written_out(seconds: float, last: str) -> None:
    seen = races.race({"h1": 1.0, "h2": 1.5}, blocks=2, histogram=True)

    def longer(sample: Sample) -> dict[str, object]:
        assert sample.run is not None
        row = sample.run.windows[0]
        rows = [replace(row, start_s=number / 10) for number in range(round(10 * seconds))]
        return {"windows": rows}

    found = texts(named(LabResult.of_race(paired.compare(with_runs(seen, longer))), "windows"))
    ticks = found[: found.index("time (s)")]
    assert ticks[0] == "0"
    assert ticks[-1] == last
    assert len(ticks) > 5
