"""SIGHUP as a terminal has it, or as `nohup` does, for what a test starts."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hangups(disposition: signal.Handlers) -> Iterator[None]:
    """What is started within inherits it, whoever started the tests."""
    before = signal.signal(signal.SIGHUP, disposition)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
