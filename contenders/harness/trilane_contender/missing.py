"""What a contender says that is not all there."""

from __future__ import annotations

from trilane_contender.protocol import own_stdout, say


def cannot(reason: str) -> int:
    """Decline any plan, with the reason and the way out. Returns the exit code of the process."""
    return say(own_stdout(), event="cannot", reason=reason)
