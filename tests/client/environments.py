"""Environments of the scripts that run in one of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trilane.lab.programs import environments

LIMIT_S = 900
"""For a test that may have to make an environment first."""


def interpreter(script: Path) -> Path:
    """The interpreter of a script's environment; a skip with its reason where it cannot be made."""
    try:
        return environments.interpreter(script)
    except environments.EnvironmentFailed as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
