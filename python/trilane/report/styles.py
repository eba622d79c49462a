"""How commands look on a terminal: their tables, and the colours of verdicts and findings."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from trilane.lab.model.comparison import Finding

VALIDITY = {"valid": "green", "suspect": "yellow", "invalid": "bold red"}


def table() -> Table:
    """A table without columns: a line below its head, no frame."""
    return Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))


def of_finding(finding: Finding | None, tone: str) -> str:
    """The style of what was found; `tone` is that of `cells.tone`."""
    if finding in ("higher", "lower"):
        return f"not dim bold {'green' if tone == 'good' else 'red'}"
    return "red" if finding == "invalid" else ""
