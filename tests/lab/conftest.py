"""A race of fakes: processes that stand for `trilane load` and `trilane serve`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trilane.lab import race

HERE = Path(__file__).parent


class Said:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.steps: list[str] = []
        self.runs = 0
        self.on_step: Callable[[int], None] = lambda _count: None

    def watcher(self) -> race.Watcher:
        return race.Watcher(say=self.lines.append, begin=self._begin, step=self._step)

    def _begin(self, runs: int, _each: float) -> None:
        self.runs = runs

    def _step(self, entry: Any) -> None:
        self.steps.append(entry.arm.name)
        self.on_step(len(self.steps))


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., race.Wanted]:
    """A race of fakes, two blocks long."""

    # The fakes make their runs with what the tests have for it.
    monkeypatch.setenv("PYTHONPATH", str(HERE.parent))

    def make(**changes: Any) -> race.Wanted:
        options: dict[str, Any] = {
            "url": "https://127.0.0.1:8443/hello",
            "blocks": 2,
            "duration_s": 0.1,
            "warmup_s": 0.0,
            "timeout_s": 60.0,
            "seed": 1,
            "state": tmp_path,
            "load_program": (sys.executable, str(HERE / "fake_load.py")),
            "serve_program": (sys.executable, str(HERE / "fake_serve.py")),
        }
        return race.Wanted(**{**options, **changes})

    return make
