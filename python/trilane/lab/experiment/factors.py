"""Comparisons by factor: which arms differ in what is asked about, and in nothing else.

`version within client` sets those arms beside each other that have the same client and another
version. What is not named on the left is the same in both: strategy, server, message, session,
requests in flight, network, header fields, and whether there is TLS. So every ratio tells what one
factor does, where a table against one baseline mixes several.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from trilane.lab.experiment.vocabulary import FACTORS
from trilane.lab.experiment.words import is_not
from trilane.lab.experiment.workload import ArmSpec

# Of so many arms that differ in the factor alone every pair is compared, of more each with one.
_EVERY_PAIR = 4

# What an arm is, by factor: it must be equal where the factor is not asked about.
_SAME = {
    "version": ("version",),
    "client": ("client",),
    "strategy": ("strategy", "in_flight"),
    "server": ("server",),
    "message": ("message", "mode"),
    "session": ("session",),
}
# How a strategy keeps its requests in flight: tells two arms of one strategy apart, but what is
# natural differs by version, such as 200 connections of one stream and one of 200.
_SHAPE = ("connections", "streams", "threads", "processes", "chunk")
_ALWAYS = (
    *("network", "congestion_control", "gzip", "headers", "benchmark", "command"),
    *("flags", "server_flags"),
)


_FACTOR = f"({'|'.join(FACTORS)})"
COMPARISON = f"^{_FACTOR}( and {_FACTOR})* within {_FACTOR}( and {_FACTOR})*$"
"""Regular expression of what `ByFactor.parse` takes, but for a factor that stands twice."""


class BadFactor(ValueError):
    """A text that names no comparison by factor; the message says what to type."""


@dataclass(frozen=True, slots=True)
class ByFactor:
    """`varied within kept`: the factors that differ, and those that are told to be the same."""

    varied: tuple[str, ...]
    kept: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> ByFactor:
        """Of `version within client` or `strategy within client and version`."""
        sides = [re.split(r"\s+and\s+", side.strip()) for side in re.split(r"\bwithin\b", text)]
        if len(sides) != 2 or not all(word for side in sides for word in side):
            raise BadFactor(
                f"{text!r} has not the form FACTOR within FACTOR: write for example "
                "'version within client' or 'strategy within client and version'"
            )
        seen: set[str] = set()
        for word in (word for side in sides for word in side):
            if word not in FACTORS:
                raise BadFactor(is_not("factor", word, FACTORS))
            if word in seen:
                raise BadFactor(f"{word!r} stands twice: what differs is not the same")
            seen.add(word)
        return cls(tuple(sides[0]), tuple(sides[1]))

    def pairs(self, arms: Sequence[ArmSpec], baseline: str) -> tuple[tuple[str, str], ...]:
        """Arm and the one it is divided by, of all arms that differ in nothing else.

        Of up to four such arms every pair, the later divided by the earlier; of more each by the
        baseline, or by the first of them where that is none of them.
        """
        groups: dict[Any, list[ArmSpec]] = {}
        for arm in arms:
            groups.setdefault(self._rest(arm), []).append(arm)
        return tuple(
            (arm.name, to.name)
            for group in groups.values()
            for to, arm in _pairs(group, baseline)
            if self._differ(arm, to)
        )

    def _rest(self, arm: ArmSpec) -> tuple[Any, ...]:
        kept = [
            part for factor, parts in _SAME.items() if factor not in self.varied for part in parts
        ]
        cleartext = arm.version == "h2c" or not arm.tls
        return (cleartext, *(getattr(arm, part) for part in (*kept, *_ALWAYS)))

    def _differ(self, arm: ArmSpec, other: ArmSpec) -> bool:
        parts = [part for factor in self.varied for part in _SAME[factor]]
        if "strategy" in self.varied:
            parts += _SHAPE
        return any(getattr(arm, part) != getattr(other, part) for part in parts)


def _pairs(group: Sequence[ArmSpec], baseline: str) -> list[tuple[ArmSpec, ArmSpec]]:
    if len(group) <= _EVERY_PAIR:
        return list(combinations(group, 2))
    first = next((arm for arm in group if arm.name == baseline), group[0])
    return [(first, arm) for arm in group if arm is not first]
