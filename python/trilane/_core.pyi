"""The native part of Trilane."""

from collections.abc import Sequence
from typing import Final

__all__ = ["build_profile", "main", "revision", "version"]

version: Final[str]
"""Version of the native part, such as `0.1.0`."""

revision: Final[str]
"""Git revision that it was built from; empty when it was built outside a checkout."""

build_profile: Final[str]
"""`release` or `debug`; a benchmark of a debug build says nothing."""

def main(argv: Sequence[str]) -> int:
    """Run `trilane load` or `trilane serve` and return the exit code.

    `argv` holds the program's name first. The interpreter lock is released while the command runs,
    and SIGINT goes to the command, which prints its partial report.
    """
