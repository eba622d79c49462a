"""Options that several commands have, in one spelling."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

State = Annotated[
    Path | None,
    typer.Option("--state", metavar="DIR", help="State folder. [default: $XDG_STATE_HOME/trilane]"),
]
Output = Annotated[Literal["text", "json"], typer.Option("--format", help="What stdout gets.")]
