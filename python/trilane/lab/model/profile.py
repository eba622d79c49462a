"""Where the processor time of both ends went: sampled stacks, added up."""

from __future__ import annotations

from typing import Literal, TypeAlias

from trilane.lab.model.arm import ArmName
from trilane.lab.model.record import Count, Positive, Record, Text

End: TypeAlias = Literal["client", "server"]
Code: TypeAlias = Literal["program", "library", "kernel"]


class Frame(Record, frozen=True):
    """A function where it was called by the same functions."""

    name: Text
    """The function, or in brackets the file whose functions have no names."""
    code: Code
    """Whose code it is."""
    depth: Count
    """Callers above it."""
    start: Count
    """Samples of the frames left of it: where it begins."""
    samples: Positive
    """Samples in it, and in what it called."""


class Profile(Record, frozen=True):
    """One end of one arm."""

    arm: ArmName
    """The arm."""
    end: End
    """Which end."""
    samples: Positive
    """All of them."""
    per_s: Positive
    """Samples that were asked for per second of a processor's time."""
    frames: list[Frame]
    """Callers before what they called; those with less than 1 in 200 samples are left out."""


class Profiles(Record, frozen=True):
    """The profiles of a result, of runs of their own that measure nothing else."""

    made: list[Profile]
    """In the order of the arms, the client first."""
    missing: list[str]
    """Why some are missing, and what to do."""
