"""What is computed from what was counted in a run."""

from __future__ import annotations

import pytest

from synthetic import records
from synthetic.records import altered
from trilane.lab.clients import syscalls
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.model import measures
from trilane.lab.model.contender import Content


def test_cpu_per_gib_counts_what_was_sent_and_received() -> None:
    run = altered(
        records.run(cpu_us=1_000_000.0),
        {"bytes.received": 1 << 29, "plan.request.body_bytes": 1 << 29, "requests.ok": 1},
    )
    assert measures.CPU_PER_GIB.read(run, measures.Beside()) == pytest.approx(1.0)
    run = altered(run, {"content": Content(bytes=0, digest=None, expected=None)})
    assert measures.CPU_PER_GIB.read(run, measures.Beside()) == pytest.approx(2.0)
    run = altered(run, {"plan.request.body_bytes": 0})
    assert measures.CPU_PER_GIB.read(run, measures.Beside()) is None


def test_the_memory_of_a_server_is_that_of_its_cost() -> None:
    run = records.run(cpu_us=1.0)
    read = measures.SERVER_PEAK_RSS.read
    assert read(run, measures.Beside()) is None
    assert read(run, measures.Beside(server=records.server())) is None
    told = altered(records.server(), {"peak_rss_bytes": 7})
    assert read(run, measures.Beside(server=told)) == 7


def test_the_sum_of_an_strace_summary() -> None:
    summary = (
        "% time     seconds  usecs/call     calls    errors syscall\n"
        "------ ----------- ----------- --------- --------- ----------------\n"
        " 60.00    0.000123           1       120         3 read\n"
        " 40.00    0.000082           1        80           write\n"
        "------ ----------- ----------- --------- --------- ----------------\n"
        "100.00    0.000205           1       200         3 total\n"
    )
    assert syscalls.total(summary) == 200
    with pytest.raises(RunFailed, match="ptrace"):
        syscalls.total("")
