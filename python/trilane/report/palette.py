"""Colours and shapes of arms: told apart by colour-blind readers, on white and on near-black."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trilane.lab.model.arm import TITLES
from trilane.lab.model.comparison import JudgedArm

# Okabe-Ito hues, moved so that each keeps 3:1 contrast on white and on near-black.
VERSIONS = {"h1": "#3f87c8", "h2": "#d97f14", "h2c": "#d97f14", "h3": "#27987a"}
ARMS = (
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
MANY = len(ARMS)
"""More arms than this are coloured by version: nobody tells thirty colours apart."""


@dataclass(frozen=True, slots=True)
class Hue:
    """How an arm is drawn."""

    entry: str
    """The legend entry that it belongs to."""
    colour: str
    shape: str


def hues(arms: Sequence[JudgedArm]) -> dict[str, Hue]:
    """The hue of each arm by its name, in the order of a legend.

    Each arm has one of its own, in the colour of its version where no two share that. Of more than
    `MANY` those of one version share theirs.
    """
    versions = [arm.version for arm in arms]
    if len(arms) <= MANY:
        own = len(set(versions)) == len(versions) and not {"h2", "h2c"} <= set(versions)
        colours = [VERSIONS[version] for version in versions] if own else ARMS
        drawn = zip(arms, colours, _SHAPES, strict=False)
        return {arm.name: Hue(arm.title, colour, shape) for arm, colour, shape in drawn}
    seen = [version for version in TITLES if version in versions]
    of = {
        version: Hue(TITLES[version], VERSIONS[version], shape)
        for version, shape in zip(seen, _SHAPES, strict=False)
    }
    ordered = sorted(arms, key=lambda arm: seen.index(arm.version))
    return {arm.name: of[arm.version] for arm in ordered}
