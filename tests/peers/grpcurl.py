"""grpcurl, at the version that `grpcurl/go.mod` pins, built when first asked for."""

from __future__ import annotations

import functools

from . import go_tool

_PACKAGE = "github.com/fullstorydev/grpcurl/cmd/grpcurl"


@functools.cache
def program() -> str:
    """Path of `grpcurl`; raises `MissingProgramError` where Go cannot build it."""
    return go_tool.build("grpcurl", _PACKAGE)
