"""What a contender says that is not all there."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from trilane_contender.protocol import own_stdout, say


def need(package: str) -> None:
    """Decline any plan, and end the process, where the package is not installed beside Trilane."""
    if find_spec(package) is None:
        reason = f"{package} is not installed beside trilane: python -m pip install {package}"
        sys.exit(say(own_stdout(), event="cannot", reason=reason))
