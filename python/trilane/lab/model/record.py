"""What all records share: how they are written, and the types that their members have in common."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

Count: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Amount: TypeAlias = Annotated[float, Meta(ge=0)]
PositiveAmount: TypeAlias = Annotated[float, Meta(gt=0)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Base64: TypeAlias = Annotated[str, Meta(pattern="^[A-Za-z0-9+/]+=*$")]
Crc32: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{8}$")]
Time: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z$"),
]
"""RFC 3339, UTC."""
Version: TypeAlias = Literal["h1", "h2", "h2c", "h3"]
SweepValue: TypeAlias = float | str
"""A value of a sweep: a number in the sweep's unit, or the settings of a network."""
StatusCode: TypeAlias = Annotated[str, Meta(pattern="^[1-9][0-9]{2}$")]
Unit: TypeAlias = Literal["1/s", "s", "us", "ns", "B", "%", "1"]
"""1 is a count."""
Verdict: TypeAlias = Literal["valid", "suspect", "invalid"]


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record that is kept as a JSON object.

    A member with a default is left out where it has that; all others are always written.
    """
