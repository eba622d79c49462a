"""How a command ends: with an exit code of DESIGN §5, and one line on stderr where it failed."""

from __future__ import annotations

import sys

from trilane import _core

OK, FAILED, WRONG_USAGE, BREACHED, INVALID, INTERRUPTED = 0, 1, 2, 3, 4, 130


def fail(command: str, message: str, code: int = FAILED, hint: str | None = None) -> int:
    """Say what went wrong in `command`, and in `hint` what to type; the exit code."""
    hint = f"try: {hint}\n" if hint else ""
    sys.stderr.write(_core.for_terminal(f"{command}: error: {message}\n{hint}"))
    return code
