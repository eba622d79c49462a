"""Benchmarks of Go's: how one is asked for, what its output says, the file for benchstat."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from synthetic import records
from synthetic.benchmarks import HEAD, ROW, WORKLOAD
from synthetic.records import altered
from trilane.lab.clients import go_bench
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.model.contender import Benchmark
from trilane.lab.model.run import Run
from trilane.lab.storage import benchmarks


def test_a_row_is_read_as_go_prints_it() -> None:
    row = go_bench.parse(f"{HEAD}{ROW}\nPASS\nok", "BenchmarkGRPC/GRPC_GetBook")
    assert (row.iterations, row.gomaxprocs) == (32599, 8)
    assert (row.ns_per_op, row.alloc_bytes_per_op, row.allocs_per_op) == (36980, 9495, 178)
    assert row.lines == [*HEAD.splitlines(), ROW]


@pytest.mark.parametrize(
    ("line", "iterations", "gomaxprocs", "ns_per_op"),
    [
        ("BenchmarkA 1 0.5 ns/op", 1, 1, 0.5),
        ("BenchmarkA-2  100  1e3 ns/op  12.5 MB/s", 100, 2, 1e3),
    ],
)
def test_columns_may_be_missing_or_more(
    line: str, iterations: int, gomaxprocs: int, ns_per_op: float
) -> None:
    row = go_bench.parse(f"some words\n{line}\nPASS\n", "BenchmarkA")
    assert (row.iterations, row.gomaxprocs, row.ns_per_op) == (iterations, gomaxprocs, ns_per_op)
    assert (row.alloc_bytes_per_op, row.allocs_per_op) == (None, None)
    # What is of no measure is kept as it was printed.
    assert row.lines == [line]


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("PASS\n", "it printed no result"),
        ("", "it printed no result"),
        ("BenchmarkB-8 10 5 ns/op\nPASS\n", "it printed a result of BenchmarkB only"),
        ("BenchmarkA-8 10 5 ns/op 6\n", "this is not a result of a benchmark"),
        ("BenchmarkA-8 10 many ns/op\n", "this is not a result of a benchmark"),
        ("BenchmarkA-8 10 5 B/op\n", "has no ns/op"),
        ("BenchmarkA-8 10 0 ns/op\n", "has no ns/op"),
    ],
)
def test_what_is_no_result_is_told(output: str, told: str) -> None:
    with pytest.raises(RunFailed, match=told):
        go_bench.parse(output, "BenchmarkA")


def test_one_benchmark_is_asked_for_by_its_whole_name() -> None:
    assert go_bench.pattern("BenchmarkGRPC/GRPC_Get.Book") == r"^BenchmarkGRPC$/^GRPC_Get\.Book$"
    assert go_bench.benchtime(WORKLOAD) == "0.05s"
    assert go_bench.benchtime(replace(WORKLOAD, duration_s=None, count=20)) == "20x"


def test_the_file_repeats_what_changes_between_runs(tmp_path: Path) -> None:
    def kept(cpu: str, line: str) -> Run:
        benchmark = Benchmark(
            name="A",
            iterations=1,
            gomaxprocs=1,
            ns_per_op=1,
            alloc_bytes_per_op=None,
            allocs_per_op=None,
            cpu_us_per_op=1,
            lines=["goos: linux", f"cpu: {cpu}", line],
        )
        return altered(records.run(), {"benchmark": benchmark})

    runs = [kept("one", "BenchmarkA 1 1 ns/op"), kept("one", "BenchmarkA 1 2 ns/op")]
    runs += [records.run(), kept("two", "BenchmarkA 1 3 ns/op")]
    file = benchmarks.write(tmp_path, runs)
    assert file is not None
    assert file.read_text().splitlines() == [
        "goos: linux",
        "cpu: one",
        "BenchmarkA 1 1 ns/op",
        "BenchmarkA 1 2 ns/op",
        "cpu: two",
        "BenchmarkA 1 3 ns/op",
    ]
    assert benchmarks.write(tmp_path, [records.run()]) is None
