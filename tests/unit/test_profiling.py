"""Profiles are taken when all is measured: whatever ends them ends nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from trilane.lab import Form, Workload, measuring, profiling
from trilane.lab.machine import perf
from trilane.lab.model.profile import Profiles

WORK = Workload(paths=("/hello",), count=10)
ARMS = tuple(replace(WORK.arm("engine", "h1", "load"), name=x, title=x) for x in "abc")
FORM = Form(
    name="fair", baseline="a", rank="elapsed_s", measures=("elapsed_s",), workload=WORK, arms=ARMS
)


def profiled(
    errors: dict[str, BaseException], monkeypatch: pytest.MonkeyPatch
) -> tuple[Profiles, list[str]]:
    """The profiles where each arm ends by its error, and what was said."""

    def failing(_form: object, arm: Any, *_: object) -> NoReturn:
        raise errors[arm.name]

    monkeypatch.setattr(perf, "refusal", lambda: None)
    monkeypatch.setattr(measuring, "executor", failing)
    said: list[str] = []
    testbed = cast("Any", SimpleNamespace(cluster=None))
    return profiling.profiled(FORM, testbed, Path("logs"), said.append), said


def test_ctrl_c_ends_the_profiles_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    first = perf.NoProfile("perf is tired")
    made, said = profiled({"a": first, "b": KeyboardInterrupt()}, monkeypatch)
    assert made.made == []
    assert made.missing == ["a: perf is tired", "b: Ctrl-C ended it", "c: Ctrl-C came before it"]
    assert said[-1] == "Ctrl-C ended the profiles; all that was measured is kept"


def test_an_error_costs_one_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(28, "No space left on device", "perf.data")
    made, said = profiled({"a": full, "b": ValueError("odd"), "c": full}, monkeypatch)
    assert made.missing[0] == "a: [Errno 28] No space left on device: 'perf.data'"
    assert made.missing[1] == "b: ValueError('odd')"
    assert len(made.missing) == 3
    assert said == ["profiling a", "profiling b", "profiling c"]
