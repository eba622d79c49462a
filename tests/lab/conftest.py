"""Races of fakes: processes that stand for `trilane load` and `trilane serve`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trilane.lab import race, study
from trilane.lab.asked import Wanted
from trilane.lab.clients import engine_run
from trilane.lab.targets import servers
from undrawn import undrawn as undrawn  # noqa: PLC0414

HERE = Path(__file__).parent


class Said:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.steps: list[str] = []
        """Titles of the arms that ran."""
        self.begun = (0, 0)
        self.changes: list[int] = []
        """Runs to be made besides, and, negative, those that were not needed any more."""
        self.on_step: Callable[[int], None] = lambda _count: None

    def watcher(self) -> study.Watcher:
        return study.Watcher(
            say=self.lines.append, begin=self._begin, step=self._step, change=self.changes.append
        )

    def _begin(self, runs: int, made: int) -> None:
        self.begun = (runs, made)

    def _step(self, title: str, _block: int, _blocks: int, _left_s: float) -> None:
        self.steps.append(title)
        self.on_step(len(self.steps))


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Wanted]:
    """A race of fakes, two blocks long."""
    # The fakes make their runs with what the tests have for it.
    monkeypatch.setenv("PYTHONPATH", str(HERE.parent))
    monkeypatch.setattr(engine_run, "PROGRAM", (sys.executable, str(HERE / "fake_load.py")))
    monkeypatch.setattr(servers, "PROGRAM", (sys.executable, str(HERE / "fake_serve.py")))

    def make(blocks: int = 2, seed: int | None = 1, fresh: bool = False, **flags: Any) -> Wanted:
        options: dict[str, Any] = {
            "url": "https://127.0.0.1:8443/hello",
            "duration_s": 0.1,
            "warmup_s": 0.0,
            "timeout_s": 60.0,
        }
        made = race.experiment(race.Flags(**{**options, **flags}))
        command = ("trilane", "race")
        return Wanted(
            made, race.FORM, blocks=blocks, seed=seed, state=tmp_path, fresh=fresh, command=command
        )

    return make
