"""The book that a call of the library asks for, as servers answer with it."""

from __future__ import annotations

import json
from typing import Any

from trilane.lab.targets.library_book import BOOK

# shelves/1/books/1, Author 8, Book 1 of shelf 1, 101 pages, not read.
ENCODED = b"\x0a\x11shelves/1/books/1\x12\x08Author 8\x1a\x11Book 1 of shelf 1\x20\x65"


def as_json(**changes: Any) -> bytes:
    """With some fields as they should not be."""
    return json.dumps({**BOOK, **changes}).encode()
