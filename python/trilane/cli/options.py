"""What several commands share: options in one spelling, and where a report goes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

State = Annotated[
    Path | None,
    typer.Option("--state", metavar="DIR", help="State folder. [default: $XDG_STATE_HOME/trilane]"),
]
Fresh = Annotated[
    bool, typer.Option("--new", help="Begin anew, do not continue an interrupted run.")
]
Output = Annotated[Literal["text", "json"], typer.Option("--format", help="What stdout gets.")]


def keep_report(page: str, folder: Path, wanted: Path | None) -> Path:
    """Write a report beside its runs, and where it was wanted; the path to tell the user."""
    from trilane.lab.storage import store

    kept = folder / "report.html"
    store.write_text(kept, page)
    if wanted is None:
        return kept
    try:
        store.write_text(wanted, page)
    except OSError as error:
        sys.stderr.write(f"trilane: could not write {wanted}: {error.strerror}; it is in {kept}\n")
        return kept
    return wanted
