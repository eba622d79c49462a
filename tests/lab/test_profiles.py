"""Profiles of processes that are started while perf samples."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from peers.process import MissingProgramError, find
from peers.running import absent
from trilane.lab.machine import perf

BUSY = "import time\nwhile time.process_time() < 0.5: pass"


@pytest.fixture(scope="module", autouse=True)
def _may_sample() -> None:
    try:
        program = find("perf", "apt-get install linux-perf")
    except MissingProgramError as error:
        absent(error)
    # Containers forbid it in ways of their own.
    command = [program, "record", "--quiet", "-o", os.devnull, "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        pytest.skip(f"perf may not sample here: {done.stderr.strip()}")


def test_what_is_started_meanwhile_is_sampled() -> None:
    with perf.scratch() as file:
        with perf.sampling([os.getpid()], file):
            child = subprocess.Popen([sys.executable, "-c", BUSY])
            assert child.wait() == 0
        found = perf.stacks(file)
    assert child.pid in {stack.pid for stack in found}
    assert any(len(stack.functions) > 1 for stack in found)


def test_a_process_that_is_gone_is_told() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with (
        perf.scratch() as file,
        pytest.raises(perf.NoProfile, match="perf record"),
        perf.sampling([child.pid], file),
    ):
        pass
