"""How connections of HTTP/3 end: what the server is told, and what the user is."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

from aioquic.buffer import encode_uint_var
from aioquic.quic.events import ConnectionTerminated, QuicEvent

from client.wire import h3_chaos

from .loading import load

if TYPE_CHECKING:
    from peers.authority import Leaf

NO_ERROR, REQUEST_CANCELLED = 0x100, 0x10C
LIMIT_S = 60


def test_a_connection_that_goaway_has_drained_is_closed(leaf: Leaf) -> None:
    """Else the server would keep it until it has been idle for too long."""
    ends: queue.Queue[ConnectionTerminated] = queue.Queue()

    class Server(h3_chaos.Server):
        def quic_event_received(self, event: QuicEvent) -> None:
            super().quic_event_received(event)
            if isinstance(event, ConnectionTerminated):
                ends.put(event)

    def script(server: h3_chaos.Server, stream: int) -> None:
        server.send(stream, h3_chaos.response(), end=True)
        goaway = h3_chaos.frame(h3_chaos.GOAWAY, encode_uint_var(stream + 4))
        server.send(h3_chaos.CONTROL, goaway)

    with h3_chaos.serve(script, leaf, Server) as port:
        url = f"https://localhost:{port}/"
        run = load("--h3", "--cacert", str(leaf.ca), "-c", "1", "-n", "3", url)
        codes = [ends.get(timeout=LIMIT_S).error_code for _ in range(3)]
    assert run.good["requests"]["ok"] == 3
    assert run.good["connections"]["lost"].get("goaway", 0) >= 2
    assert codes == [NO_ERROR] * 3


def test_the_code_and_the_reason_of_a_close_are_told(leaf: Leaf) -> None:
    def script(server: h3_chaos.Server, _stream: int) -> None:
        server.end(REQUEST_CANCELLED)

    with h3_chaos.serve(script, leaf) as port:
        url = f"https://localhost:{port}/"
        run = load("--h3", "--cacert", str(leaf.ca), "-c", "1", "-n", "3", url)
    assert run.code == 4, run
    failures = run.checked["requests"]["failures"]
    assert set(failures) == {"closed"}
    example = failures["closed"]["example"]
    assert "0x10c" in example, example
    assert "a reason" in example, example
