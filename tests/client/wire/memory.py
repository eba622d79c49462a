"""What this process holds: memory at its highest, and descriptors."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident_kib(peak: bool = False) -> int:
    """Resident memory now, or at its highest since it was last reset."""
    name = "VmHWM:" if peak else "VmRSS:"
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1])


@contextlib.contextmanager
def little_memory(mib: int = 64) -> Iterator[None]:
    """Fails when the context needs more than this at any moment, beyond what was there before."""
    gc.collect()
    # Resets the peak (proc(5), clear_refs).
    Path("/proc/self/clear_refs").write_text("5")
    before = resident_kib()
    yield
    grown = resident_kib(peak=True) - before
    assert grown < mib * 1024, f"{grown} KiB more than the {before} before"


def descriptors() -> int:
    """How many are open."""
    # A caught exception and the frame that holds it refer to each other.
    gc.collect()
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
