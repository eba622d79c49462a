"""Standard streams as they are found: closed, or in an encoding that lacks our signs."""

from __future__ import annotations

import codecs
import io
import os
import sys

# What stands for a sign that the terminal's encoding lacks.
_PLAIN = {
    "×": "x",
    "÷": "/",
    "–": "-",
    "—": "-",
    "−": "-",
    "…": "...",
    "±": "+-",
    "µ": "u",
    "μ": "u",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
    "→": "->",
    "·": "-",
    "•": "*",
    "✓": "ok",
    "✗": "no",
    "█": "#",
    "▲": "^",
    "▼": "v",
    "▶": ">",
    "↓": "v",
    "²": "2",
    "│": "|",
    "─": "-",
    "\N{NO-BREAK SPACE}": " ",
}
_HANDLER = "trilane.plain"


def prepare() -> None:
    """Open what is closed on the null device, and let no sign end a command.

    A command whose standard output is closed (`>&-`) would otherwise have its next file in that
    place, and one in the locale `C` would fail on the first `×`, after all was measured.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free: the one that was asked about.
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
    codecs.register_error(_HANDLER, _plainly)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115 - for as long as the process lives
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """Stand-ins for what cannot be encoded, as `codecs.register_error` asks for them."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(sign, "?") for sign in lacking), error.end
