"""Calls by server and format down, versions across: forty arms as one small table per measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trilane.lab.experiment.vocabulary import MESSAGES
from trilane.lab.model.comparison import Comparison, JudgedArm
from trilane.report import cells, view
from trilane.report.cells import Cell

SHOWN = 4
"""Measures of which there is a table; the others stand in the list of all arms."""
_PLAIN = "h1 plain"
# Without TLS first, then with: neighbours differ in the version only.
_COLUMNS = (_PLAIN, "h2c", "h1", "h2", "h3")


@dataclass(frozen=True, slots=True)
class Line:
    """A server and a format of messages."""

    server: str
    message: str
    cells: list[Cell | None]
    """One per version; None where there is no such arm."""


@dataclass(frozen=True, slots=True)
class Grid:
    """One measure of all arms."""

    label: str
    unit: str
    columns: list[str]
    lines: list[Line]


def grids(comparison: Comparison) -> list[Grid]:
    """A grid for each of the first measures; none where arms make no calls or are few.

    A cell has the median and, against the baseline, what was found.
    """
    arms = comparison.arms
    if len(arms) <= view.FEW or not all(arm.message for arm in arms):
        return []
    places = {
        (_server(arm), _message(arm), arm.version if arm.tls else _PLAIN): n
        for n, arm in enumerate(arms)
    }
    columns = [name for name in _COLUMNS if any(place[2] == name for place in places)]
    # A server's lines stand together, in the order of its first arm; formats in that of their list.
    servers = list(dict.fromkeys(place[0] for place in places))
    messages = sorted({place[1] for place in places}, key=_order(arms).__getitem__)
    named = [
        (server, message)
        for server in servers
        for message in messages
        if any(place[:2] == (server, message) for place in places)
    ]
    return [
        Grid(
            row.measure.label,
            row.unit,
            columns,
            [
                Line(
                    server,
                    message,
                    [
                        None if at is None else row.cells[at]
                        for at in (places.get((server, message, name)) for name in columns)
                    ],
                )
                for server, message in named
            ],
        )
        for row in cells.rows(comparison)[:SHOWN]
    ]


def cell_text(cell: Cell | None) -> str:
    """The median, and how it stands to the baseline; empty where there is no arm."""
    if cell is None:
        return ""
    if cell.finding is None or cell.ratio is None:
        return cell.value
    return f"{cell.value} {cells.MARKS[cell.finding]}"


def _server(arm: JudgedArm) -> str:
    return "embedded" if arm.server in {None, "trilane"} else str(arm.server)


def _message(arm: JudgedArm) -> str:
    written = MESSAGES.get(arm.message or "", str(arm.message))
    return f"{written}, {arm.mode}" if arm.mode else written


def _order(arms: Sequence[JudgedArm]) -> dict[str, tuple[int, bool]]:
    known = list(MESSAGES)
    return {_message(arm): (known.index(arm.message or ""), bool(arm.mode)) for arm in arms}
