"""Where the tests find what they test: the tree, and the native program that cargo built."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


@cache
def native() -> str:
    """The native program: `$TRILANE_BIN`, or what cargo built, release before debug."""
    if named := os.environ.get("TRILANE_BIN"):
        return str(Path(named).resolve())
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for profile in ("release", "debug"):
        path = target / profile / "trilane"
        if path.is_file():
            return str(path.resolve())
    raise FileNotFoundError("no trilane binary: cargo build --package trilane-cli")
