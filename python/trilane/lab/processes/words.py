"""What a program said before it ended, and how it ended, for messages."""

from __future__ import annotations

import re

_NAME = re.compile(r"^(trilane( \w+)?: )?(error: )?")


def told(errors: bytes) -> str:
    """The line of stderr that says what went wrong, without the program's name; may be empty."""
    lines = [line.strip() for line in errors.decode(errors="replace").splitlines() if line.strip()]
    if not lines:
        return ""
    line = next((line for line in lines if "error: " in line), lines[-1])
    return _NAME.sub("", line)


def how_ended(code: int) -> str:
    """An exit code in words; a negative one is the number of a signal."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"
