"""When a WebSocket's server is asked whether it is there, in virtual time."""

from __future__ import annotations

import pytest

pytest.importorskip("websockets")

from websockets.protocol import State
from websockets.server import ServerProtocol

from trilane.client._flow.websocket import Talk


def test_a_server_that_answers_pings_may_be_silent() -> None:
    talk, server = Talk("ws://a/", ping_interval=10.0), ServerProtocol(state=State.OPEN)
    for silent in (10.0, 25.0, 40.0):
        assert talk.silence(silent - 1.0) == 1.0
        assert talk.is_alive(silent)
        server.receive_data(talk.output())
        assert talk.is_alive(silent + 4.0)
        talk.receive(b"".join(server.data_to_send()), silent + 5.0)


def test_a_server_that_answers_none_is_given_up() -> None:
    talk = Talk("ws://a/", ping_interval=10.0)
    assert talk.is_alive(10.0)
    assert talk.is_alive(19.0)
    assert not talk.is_alive(20.0)
    assert "did not answer a Ping within 10.0 s" in str(talk.dead())
