"""What tests of `trilane history` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from trilane.cli import run as command

Trilane = Callable[..., tuple[int, str, str]]


@pytest.fixture
def trilane(
    capsys: pytest.CaptureFixture[str], state: Path, monkeypatch: pytest.MonkeyPatch
) -> Trilane:
    """`trilane history` over the state folder of the tests; exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "160")

    def call(*arguments: str, at: Path = state) -> tuple[int, str, str]:
        code = command(["history", *arguments, "--state", str(at)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call
