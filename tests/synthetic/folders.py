"""Run folders made up from synthetic races, for tests of what reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from synthetic import races
from trilane.lab.analysis import comparison
from trilane.lab.analysis.comparison import Observed
from trilane.lab.keeping.store import write_json

MACHINE = {"cpu": "Test CPU", "cpus_usable": 2, "kernel": "Linux 6.1.0", "pinning": "client 1"}


def race(
    state: Path,
    stamp: str,
    factors: dict[str, float],
    *,
    status: str = "complete",
    machine: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A race's folder; `stamp` is the time in its name, such as `20261120-100000`."""
    machine = MACHINE if machine is None else machine
    made = races.race(factors, machine=machine, started_at=iso(stamp), **changes)
    folder = state / "runs" / f"{stamp}-race"
    folder.mkdir(parents=True)
    write_json(folder / "manifest.json", _manifest(made, "race", status, machine))
    write_json(folder / "comparison.json", comparison.compare(made))
    return folder


def lab(
    state: Path,
    stamp: str,
    factors: dict[str, float],
    *,
    experiment: str = "bookstore",
    form: str = "fair",
    points: tuple[float | None, ...] = (None,),
    status: str = "complete",
    workload: dict[str, Any] | None = None,
    result: bool = True,
    **changes: Any,
) -> Path:
    """A lab run's folder: the same race at every point."""
    made = races.race(factors, machine=MACHINE, started_at=iso(stamp), **changes)
    folder = state / "runs" / f"{stamp}-{experiment}-{form}"
    folder.mkdir(parents=True)
    manifest = _manifest(made, "lab", status, MACHINE)
    form_told = {"workload": workload or {"kind": "urls", "count": 3000}}
    manifest |= {
        "command": f"trilane lab run {experiment} --form {form} --new --seed 1",
        "experiment": {"name": experiment, "forms": {form: form_told}},
        "form": form,
        "quick": False,
    }
    write_json(folder / "manifest.json", manifest)
    judged = comparison.compare(made)
    told = {
        "schema": "trilane.lab/1",
        "experiment": {"name": experiment, "form": form},
        "points": [{"value": value, "comparison": judged} for value in points],
        "validity": judged["validity"],
        "verdict": judged["verdict"],
    }
    if result:
        write_json(folder / "result.json", told)
    return folder


def iso(stamp: str) -> str:
    """`20261120-100000` as `2026-11-20T10:00:00Z`."""
    date, time = stamp.split("-")
    return f"{date[:4]}-{date[4:6]}-{date[6:]}T{time[:2]}:{time[2:4]}:{time[4:]}Z"


def _manifest(made: Observed, kind: str, status: str, machine: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": "trilane.manifest/1",
        "kind": kind,
        "status": status,
        "command": made.command,
        "url": made.url,
        "started_at": made.started_at,
        "seed": made.seed,
        "machine": machine,
    }
