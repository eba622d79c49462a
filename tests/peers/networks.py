"""Whether this machine can have an emulated network, which takes root or /dev/net/tun for all."""

from __future__ import annotations

import functools
import subprocess

import pytest

from repository import native


@functools.cache
def refused() -> str | None:
    """Why there can be none; None where there can."""
    command = [native(), "network", "run", "", "--server", "true", "--client", "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.stderr.strip() if done.returncode != 0 and "cannot make" in done.stderr else None


def need() -> None:
    """Skip the test where there can be none, with what the machine lacks."""
    if (reason := refused()) is not None:
        pytest.skip(reason)
