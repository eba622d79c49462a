"""What the logger `trilane.client` is told."""

from __future__ import annotations

import logging

import pytest

from trilane.client._flow import log

from .pretend import Bench


def test_the_logger_is_asked_for_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # That takes a lock, and what a signal handler raises then leaves it taken for all threads.
    caplog.set_level(logging.DEBUG, "trilane.client")
    attempt = Bench().attempt()
    log.failed(attempt, OSError("first"))
    with monkeypatch.context() as patch:
        patch.setattr(logging, "getLogger", None)
        log.failed(attempt, OSError("second"))
    assert [line.rpartition(": ")[2] for line in caplog.messages] == ["first", "second"]
