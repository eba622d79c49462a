"""How messages suggest a word."""

from __future__ import annotations

import difflib
from collections.abc import Collection


def meant(word: str, known: Collection[str]) -> str:
    """How a message on an unknown word goes on: with the nearest known one, or with all."""
    near = difflib.get_close_matches(word, known, 1)
    if near:
        return f": did you mean {near[0]}?"
    return f": choose from {', '.join(known)}" if known else ""
