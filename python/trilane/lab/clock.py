"""How long an experiment will still take."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Protocol

_FIRST_GUESS_S = 2.0


class Planned(Protocol):
    """A run to be made."""

    @property
    def point(self) -> int:
        """Number of its point."""

    @property
    def arm(self) -> str:
        """Name of its arm."""

    @property
    def key(self) -> Hashable:
        """What tells it from all others."""


class Clock:
    """Seconds left, from what runs of the same arm at the same point took."""

    def __init__(self, planned: Collection[Planned], made: Collection[Hashable]) -> None:
        self._open = [entry for entry in planned if entry.key not in made]
        self._seen: dict[tuple[int, str], list[float]] = {}

    def took(self, entry: Planned, seconds: float) -> None:
        """A run is made."""
        self._open.remove(entry)
        self._seen.setdefault((entry.point, entry.arm), []).append(seconds)

    def left_s(self) -> float:
        """What the others will take."""
        known = [seconds for some in self._seen.values() for seconds in some]
        default = sum(known) / len(known) if known else _FIRST_GUESS_S
        return sum(
            sum(some) / len(some) if (some := self._seen.get((entry.point, entry.arm))) else default
            for entry in self._open
        )
