"""Profiles of processes that are started while perf samples."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from trilane.lab.machine import perf

BUSY = "import time\nwhile time.process_time() < 0.5: pass"


def test_what_is_started_meanwhile_is_sampled() -> None:
    if perf.refusal() is not None:
        pytest.skip(f"no profile here: {perf.refusal()}")
    with perf.scratch() as file:
        with perf.sampling([os.getpid()], file):
            child = subprocess.Popen([sys.executable, "-c", BUSY])
            assert child.wait() == 0
        found = perf.stacks(file)
    assert child.pid in {stack.pid for stack in found}
    assert any(len(stack.functions) > 1 for stack in found)


def test_a_process_that_is_gone_is_told() -> None:
    if perf.refusal() is not None:
        pytest.skip(f"no profile here: {perf.refusal()}")
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with (
        perf.scratch() as file,
        pytest.raises(perf.NoProfile, match="perf record"),
        perf.sampling([child.pid], file),
    ):
        pass
