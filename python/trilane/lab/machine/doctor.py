"""`trilane doctor`: what this machine has and lacks for measuring, and how to get it.

Each fact is one `Check`: ok, warning (it works, but numbers will be worse or rarer) or missing.
Only what `trilane race` cannot do without makes the command fail.
"""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trilane import __version__, build_profile, revision
from trilane.lab.machine import doctor_machine, doctor_tools
from trilane.lab.machine.facts import facts
from trilane.lab.machine.host import Check, Host
from trilane.lab.model.documents import Json, machine_id
from trilane.lab.storage.activity import is_going
from trilane.lab.storage.store import write_text

if TYPE_CHECKING:
    from trilane.lab.model.summary import RunSummary

SCHEMA = "trilane.doctor/1"
_GIB, _MIB = 1 << 30, 1 << 20
_LOW_DISK, _NO_DISK = 2 * _GIB, 64 * _MIB
# The distributions of the extra `trilane[lab]`, without which there is no statistics and no report.
_LAB = ("numpy", "scipy", "altair", "vl-convert-python", "jinja2", "hdrhistogram", "msgspec")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that `doctor` found."""

    checks: Sequence[Check]
    runs: Sequence[RunSummary] | None
    """None where they were not looked at."""
    unfinished: Sequence[RunSummary]
    """Broken, interrupted, failed and abandoned runs."""
    state: Path
    said: Sequence[str]
    """Why runs were not looked at."""

    @property
    def able(self) -> bool:
        """Whether the main job can run."""
        return not any(check.needed and check.status == "missing" for check in self.checks)

    def to_dict(self) -> Json:
        """As `trilane.doctor/1`."""
        return {
            "schema": SCHEMA,
            "trilane": {"version": __version__, "revision": revision, "profile": build_profile},
            "machine": {"id": machine_id(facts()), **facts()},
            "able": self.able,
            "checks": [asdict(check) for check in self.checks],
            "runs": {
                "folder": str(self.state / "runs"),
                "count": None if self.runs is None else len(self.runs),
                "unfinished": [
                    {
                        "folder": row.folder,
                        "status": row.status,
                        "problem": row.problem,
                        "way_on": row.way_on,
                    }
                    for row in self.unfinished
                ],
            },
            "said": list(self.said),
        }


def diagnose(state: Path, host: Host | None = None) -> Diagnosis:
    """Look at everything, and read every file of every run."""
    host = host or Host()
    said: list[str] = []
    checks = [
        *doctor_machine.checks(host),
        *doctor_tools.checks(host),
        *_trilane(),
        *_state(state),
    ]
    rows = _runs(state, said.append)
    unfinished = [
        row
        for row in rows or ()
        if row.status != "complete" and not is_going(state / "runs" / row.folder)
    ]
    return Diagnosis(checks, rows, unfinished, state, said)


def _runs(state: Path, say: Callable[[str], None]) -> Sequence[RunSummary] | None:
    """The runs there are, all of their files read; None where what reads them is missing."""
    if not (state / "runs").is_dir():
        return []
    try:
        # It reads results, by packages that may be missing here.
        from trilane.lab.storage.summaries import summaries  # noqa: PLC0415
    except ModuleNotFoundError as error:
        say(f"{error.name or 'a package'} is missing: pip install 'trilane[lab]'")
        return None
    return summaries(state, anew=True)


def _trilane() -> Iterator[Check]:
    group = "Trilane"
    yield Check.judged(
        group,
        "native module",
        build_profile == "release",
        f"{__version__}, {build_profile}" + (f", {revision[:7]}" if revision else ""),
        "the load engine; any other build measures itself",
        "make build",
    )
    version = platform.python_version()
    yield Check(group, "Python", "ok", version, "runs the lab; 3.11 or later")
    absent = [name for name in _LAB if _distribution(name) is None]
    yield Check(
        group,
        "lab packages",
        "missing" if absent else "ok",
        ("without " + ", ".join(absent))
        if absent
        else ", ".join(f"{name} {_distribution(name)}" for name in _LAB[:3]),
        "statistics and reports",
        "pip install 'trilane[lab]'" if absent else None,
        needed=True,
    )


def _state(state: Path) -> Iterator[Check]:
    group = "State"
    problem = _unwritable(state)
    yield Check(
        group,
        "state folder",
        "missing" if problem else "ok",
        f"{state}: {problem}" if problem else str(state),
        "runs and the local certificate authority",
        "trilane … --state DIR, or set XDG_STATE_HOME" if problem else None,
        needed=True,
    )
    existing = next(folder for folder in (state, *state.absolute().parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    yield Check(
        group,
        "free disk",
        "missing" if free < _NO_DISK else "warning" if free < _LOW_DISK else "ok",
        f"{free / _GIB:.1f} GiB",
        "a long experiment with logs takes some hundred MiB",
        f"free some of the disk of {existing}" if free < _LOW_DISK else None,
        needed=True,
    )


def _unwritable(state: Path) -> str | None:
    """Why no run can be written there; None when one can."""
    probe = state / ".doctor"
    try:
        state.mkdir(parents=True, exist_ok=True)
        write_text(probe, "")
        probe.unlink()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _distribution(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
