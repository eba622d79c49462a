"""Files beside the result: a line of JSON a second, and percentiles for plotters."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hdrh.histogram import HdrHistogram

from peers.process import free_port

from .loading import load, load_text

if TYPE_CHECKING:
    from peers.running import Peers


def test_every_second_has_a_line_and_their_sum_is_the_run(peers: Peers, tmp_path: Path) -> None:
    file = tmp_path / "seconds.ndjson"
    timing = ["-d", "1500ms", "--warmup", "100ms", "-t", "2", "-c", "4"]
    report = load("--h1", *timing, "--ndjson", str(file), peers["embedded"].url("h1")).checked
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert {row["schema"] for row in rows} == {"trilane.second/1"}
    assert [row["start_s"] for row in rows] == [0.0, 1.0]
    assert sum(row["ok"] for row in rows) == report["requests"]["ok"]
    assert sum(row["length_s"] for row in rows) == pytest.approx(1.5, abs=0.3)
    assert all(row["open"] == 4 for row in rows[:1])
    full = rows[0]
    assert full["requests_per_s"] == pytest.approx(full["ok"] / full["length_s"])
    assert full["p50"] <= full["p99"] <= full["max"] <= report["latency"]["service"]["max"]


def test_the_open_model_has_what_was_due_in_each_second(peers: Peers, tmp_path: Path) -> None:
    file = tmp_path / "seconds.ndjson"
    timing = ["-R", "200", "-d", "1500ms", "--warmup", "100ms", "-t", "2", "-c", "4"]
    expected = ["--expect-status", "418"]
    url = peers["embedded"].url("h1")
    report = load("--h1", *timing, *expected, "--ndjson", str(file), url).checked
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    total = sum((Counter(row["status"]) for row in rows), Counter[str]())
    assert total == report["status"]
    failures = sum((Counter(row["failures"]) for row in rows), Counter[str]())
    assert failures == {
        kind: found["count"] for kind, found in report["requests"]["failures"].items()
    }
    # Those in flight when the measurement began are among the started.
    started = report["requests"]["started"]
    assert started - 4 <= sum(row["sent"] for row in rows) <= started
    assert 0 < sum(row["bytes_received"] for row in rows) <= report["bytes"]["received"]
    assert 0 < sum(row["bytes_sent"] for row in rows) <= report["bytes"]["sent"]
    assert all(row["asked_per_s"] == pytest.approx(200) for row in rows)
    assert max(row["late"]["max"] for row in rows) == report["latency"]["late"]["max"]


def test_percentiles_are_those_of_the_result(peers: Peers, tmp_path: Path) -> None:
    file = tmp_path / "latency.hgrm"
    arguments = ["--h1", "-c", "2", "-n", "3000", "--hgrm", str(file)]
    latency = load(*arguments, peers["embedded"].url("h1")).checked["latency"]["service"]
    text = file.read_text()
    head, *rows = [line.split() for line in text.splitlines() if line[:1] == " "]
    assert head == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
    recorded = [
        (step.value_iterated_to / 1e6, step.count_added_in_this_iter_step)
        for step in HdrHistogram.decode(latency["hdr"]).get_recorded_iterator()
    ]
    for value_ms, quantile, count, *odds in rows:
        # Values stand there to the microsecond, and the histogram knows half of one.
        below, upto = (
            sum(added for ms, added in recorded if ms < float(value_ms) + rounding)
            for rounding in (-5.01e-4, 5.01e-4)
        )
        assert below <= int(count) <= upto
        assert int(count) / 3000 >= float(quantile)
        assert [float(word) for word in odds] == (
            []
            if float(quantile) == 1
            else [pytest.approx(1 / (1 - float(quantile)), rel=0.01, abs=0.01)]
        )
    assert rows[-1][1:] == ["1.000000000000", "3000"]
    assert "Total count    =         3000" in text


@pytest.mark.parametrize("flag", ["--ndjson", "--hgrm", "-o"])
def test_a_file_that_cannot_be_written_is_told_before_anything_is_sent(
    flag: str, tmp_path: Path
) -> None:
    file = str(tmp_path / "missing" / "file")
    shown = load_text("--h1", "-n", "5", flag, file, f"http://127.0.0.1:{free_port()}/")
    assert shown.code == 1
    assert f"{flag}: cannot write {file}" in shown.err
    assert "refused" not in shown.err
