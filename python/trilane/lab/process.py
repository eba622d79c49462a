"""What programs that we start are told of one another, and what they say before they end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_NAME = re.compile(r"^(trilane( \w+)?: )?(error: )?")


def server_flags(pids: Sequence[int]) -> list[str]:
    """Flags that have the engine tell the CPU time of the server's processes, window by window.

    Where one of them has ended there are none: the sum of the others would be taken for all.
    """
    if not all(Path(f"/proc/{pid}").exists() for pid in pids):
        return []
    return [word for pid in pids for word in ("--server-pid", str(pid))]


def told(errors: bytes) -> str:
    """The line of stderr that says what went wrong, without the program's name; may be empty."""
    lines = [line.strip() for line in errors.decode(errors="replace").splitlines() if line.strip()]
    if not lines:
        return ""
    line = next((line for line in lines if "error: " in line), lines[-1])
    return _NAME.sub("", line)
