"""Experiments: arms, blocks of runs, the statistics of a comparison."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trilane.lab.design.experiment import (
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

__all__ = [
    "ArmSpec",
    "BadExperiment",
    "Expect",
    "Experiment",
    "Form",
    "Published",
    "Quick",
    "Source",
    "Stats",
    "Sweep",
    "Workload",
]


def __getattr__(name: str) -> Any:
    # Read on first use: the commands that need no experiment import parts of this package too.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("trilane.lab.design.experiment"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
