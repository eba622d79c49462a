"""Whether a command still works in a run folder."""

from __future__ import annotations

import time
from pathlib import Path

# Of `journal` and `runs`, which need packages that may be missing where the doctor looks.
LOCK = ".lock"
# A folder that says `running` and was not written to for this long belongs to a killed command.
_SILENT_S = 600.0


def is_going(folder: Path) -> bool:
    """Whether a command still works on a run that is not complete.

    A run holds a lock while it is made; of races of versions before only the time of the last file
    tells.
    """
    try:
        return _is_going(folder)
    except OSError:
        # Of another user, who alone may look: nothing tells that one goes here.
        return False


def _is_going(folder: Path) -> bool:
    lock = folder / LOCK
    if lock.is_file():
        return _is_held(lock)
    from trilane.lab.storage import runs  # noqa: PLC0415 - needs packages that may be missing

    try:
        if runs.written_manifest(folder).status != "running":
            return False
    except runs.BadRun:
        # No manifest yet: a run that begins looks like this, for a few seconds.
        pass
    written = [folder, *(folder / name for name in ("manifest.json", "samples.jsonl", "runs"))]
    latest = max((path.stat().st_mtime for path in written if path.exists()), default=0.0)
    return time.time() - latest < _SILENT_S


def _is_held(lock: Path) -> bool:
    import fcntl  # noqa: PLC0415 - not on every system that can read a report

    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
