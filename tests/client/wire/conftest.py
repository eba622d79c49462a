"""Connections that trust the peers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from peers.authority import Authority
from trilane import _core

from .opening import Opener, trusting


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
