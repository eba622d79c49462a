"""What a program that we started said before it ended."""

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
