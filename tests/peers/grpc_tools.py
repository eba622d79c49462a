"""grpcurl and ghz, at the versions that `grpc-tools/go.mod` pins, built when first asked for."""

from __future__ import annotations

import functools

from . import go_tool

_MODULE = "grpc-tools"
_PACKAGES = {
    "ghz": "github.com/bojand/ghz/cmd/ghz",
    "grpcurl": "github.com/fullstorydev/grpcurl/cmd/grpcurl",
}


@functools.cache
def program(name: str) -> str:
    """Path of `grpcurl` or `ghz`; raises `MissingProgramError` where Go cannot build it."""
    return go_tool.build(_MODULE, _PACKAGES[name])


def version(name: str) -> str:
    """The version that the module pins."""
    return go_tool.version(_MODULE, _PACKAGES[name])
