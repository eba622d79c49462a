"""Peers as the end-to-end tests have them, and a limit of time for every test."""

from __future__ import annotations

import faulthandler
import signal
import time
from collections.abc import Iterator
from types import FrameType

import pytest

from e2e.conftest import Peers, absent, authority, own, peers
from peers.authority import Authority
from trilane import _core

from .opening import Opener, trusting

__all__ = ["Peers", "absent", "authority", "own", "peers"]

LIMIT_S = 60
"""Seconds after which a wait counts as a hang; a hundred times what a test takes."""


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """Ends a hang: by an exception where signals are looked at, else with the process."""

    def hangs(_number: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"it hangs: nothing after {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    faulthandler.dump_traceback_later(LIMIT_S + 10, exit=True)
    began = time.monotonic()
    yield
    faulthandler.cancel_dump_traceback_later()
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - began < LIMIT_S


@pytest.fixture(scope="session")
def tls(authority: Authority) -> _core.Tls:
    """Trust in the private authority alone."""
    return trusting(authority.ca)


@pytest.fixture
def opener(tls: _core.Tls) -> Iterator[Opener]:
    """Opens connections that are closed after the test."""
    made = Opener(tls)
    yield made
    made.close()
