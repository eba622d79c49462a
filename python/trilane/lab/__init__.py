"""Experiments: arms, blocks of runs, the statistics of a comparison."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trilane.lab.asked import CannotRun
    from trilane.lab.experiment.bad_experiment import BadExperiment
    from trilane.lab.experiment.experiment import Experiment, Machines, Source
    from trilane.lab.experiment.form import Answer, Expect, Form, Published, Quick, Stats, Sweep
    from trilane.lab.experiment.workload import ArmSpec, Workload
    from trilane.lab.model.lab import LabResult
    from trilane.lab.public import run
    from trilane.lab.study import Watcher

__all__ = [
    "Answer",
    "ArmSpec",
    "BadExperiment",
    "CannotRun",
    "Expect",
    "Experiment",
    "Form",
    "LabResult",
    "Machines",
    "Published",
    "Quick",
    "Source",
    "Stats",
    "Sweep",
    "Watcher",
    "Workload",
    "run",
]

# Read on first use: the commands that need no experiment import parts of this package too.
_NAMES = {
    "asked": ("CannotRun",),
    "experiment.bad_experiment": ("BadExperiment",),
    "experiment.experiment": ("Experiment", "Machines", "Source"),
    "experiment.form": ("Answer", "Expect", "Form", "Published", "Quick", "Stats", "Sweep"),
    "experiment.workload": ("ArmSpec", "Workload"),
    "model.lab": ("LabResult",),
    "public": ("run",),
    "study": ("Watcher",),
}


if not TYPE_CHECKING:  # For checkers there is no other name.

    def __getattr__(name: str) -> Any:
        for module, names in _NAMES.items():
            if name in names:
                return getattr(importlib.import_module(f"{__name__}.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
