"""Requests of threads that wait for their turn on one connection of HTTP/1.1."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from trilane.client.http import _pipeline as pipeline
from trilane.client.http._outgoing import Request


def test_who_was_started_by_another_thread_waits_for_no_more_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request: Any = Request.__new__(Request)
    request.exchange = None
    looks = 0

    class Poll:
        def register(self, *_: object) -> None:
            pass

        def poll(self, _milliseconds: float) -> None:
            """Another thread has read its response meanwhile, and started the next request."""
            nonlocal looks
            looks += 1
            assert looks == 1, "it waits for room that its own request has taken"
            request.exchange = Mock()

    monkeypatch.setattr("select.poll", Poll)
    waiting = pipeline.Pipeline()
    monkeypatch.setattr(waiting, "fileno", lambda: 0)
    connection = Mock(spec=["capacity", "is_closing", "timeout", "drive"])
    connection.capacity, connection.is_closing, connection.timeout = 0, False, None
    waiting._make_room(connection, request)
    assert looks == 1
