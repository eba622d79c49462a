"""How a command ends: with an exit code of DESIGN §5, and one line on stderr where it failed."""

from __future__ import annotations

import sys

OK, FAILED, WRONG_USAGE, BREACHED, INVALID, INTERRUPTED = 0, 1, 2, 3, 4, 130


def fail(command: str, message: str, code: int = FAILED, hint: str | None = None) -> int:
    """Say what went wrong in `command`, and in `hint` what to type; the exit code."""
    sys.stderr.write(f"{command}: error: {message}\n")
    if hint:
        sys.stderr.write(f"try: {hint}\n")
    return code
