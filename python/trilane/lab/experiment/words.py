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


def is_not(what: str, word: str, known: Collection[str]) -> str:
    """The message on a word that is none of the known ones."""
    return f"{word!r} is not a {what}{meant(word, known)}"
