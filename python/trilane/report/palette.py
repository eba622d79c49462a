"""Colours and shapes of arms: told apart by colour-blind readers, on white and on near-black."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trilane.lab.model.arm import TITLES
from trilane.lab.model.comparison import JudgedArm

# Okabe-Ito hues, moved so that each keeps 3:1 contrast on white and on near-black.
VERSIONS = {"h1": "#3f87c8", "h2": "#d97f14", "h2c": "#d97f14", "h3": "#27987a"}
_ARMS = (
    "#3f87c8",
    "#d97f14",
    "#27987a",
    "#b4609c",
    "#c9473b",
    "#8d8310",
    "#7a6fe0",
    "#8f6f57",
)
_SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
MANY = len(_ARMS)
"""More arms than this are coloured by version: nobody tells thirty colours apart."""


@dataclass(frozen=True, slots=True)
class Hues:
    """How the arms of one chart are coloured."""

    by_arm: dict[str, str]
    """Name of an arm -> the legend entry that it belongs to."""
    domain: list[str]
    colours: list[str]
    shapes: list[str]
    each: bool
    """Whether every arm has an entry of its own."""


def hues(arms: Sequence[JudgedArm]) -> Hues:
    """Colours for these arms: versions keep theirs where each arm has its own."""
    versions = [arm.version for arm in arms]
    if len(arms) <= MANY:
        own = len(set(versions)) == len(versions) and not {"h2", "h2c"} <= set(versions)
        return Hues(
            {arm.name: arm.title for arm in arms},
            [arm.title for arm in arms],
            [VERSIONS.get(version, _ARMS[3]) for version in versions]
            if own
            else list(_ARMS[: len(arms)]),
            list(_SHAPES[: len(arms)]),
            each=True,
        )
    seen = [version for version in TITLES if version in versions]
    return Hues(
        {arm.name: str(TITLES.get(arm.version, arm.version)) for arm in arms},
        [TITLES[version] for version in seen],
        [VERSIONS[version] for version in seen],
        list(_SHAPES[: len(seen)]),
        each=False,
    )
