"""Experiments: arms, blocks of runs, the statistics of a comparison."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trilane.lab.asked import CannotRun
    from trilane.lab.experiment.experiment import (
        ArmSpec,
        BadExperiment,
        Expect,
        Experiment,
        Form,
        Published,
        Quick,
        Source,
        Stats,
        Sweep,
        Workload,
    )
    from trilane.lab.model.lab import LabResult
    from trilane.lab.public import run
    from trilane.lab.study import Watcher

__all__ = [
    "ArmSpec",
    "BadExperiment",
    "CannotRun",
    "Expect",
    "Experiment",
    "Form",
    "LabResult",
    "Published",
    "Quick",
    "Source",
    "Stats",
    "Sweep",
    "Watcher",
    "Workload",
    "run",
]

_ELSEWHERE = {
    "CannotRun": "trilane.lab.asked",
    "LabResult": "trilane.lab.model.lab",
    "Watcher": "trilane.lab.study",
    "run": "trilane.lab.public",
}


def __getattr__(name: str) -> Any:
    # Read on first use: the commands that need no experiment import parts of this package too.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _ELSEWHERE.get(name, "trilane.lab.experiment.experiment")
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
