"""One direction of a relayed connection, at times of the test's own."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from trilane.lab.network import relay_tcp
from trilane.lab.network.relay_tcp import Flow

ROUND_TRIP_S = 1.0
CONNECTED_AT = 100.0
KIB = b"x" * 1024


@dataclass
class Road:
    """What a flow asks of the loop, and when."""

    delay_s: float = ROUND_TRIP_S
    one_way_s: float = ROUND_TRIP_S / 2
    limit: int = 1 << 30
    now: float = CONNECTED_AT
    due: list[float] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = SimpleNamespace(bytes=0, held_back=0, late=self.late_s.append)

    def schedule(self, _queue: object, due: float) -> None:
        """Remember when."""
        self.due.append(due)

    def again(self, _source: object, _handler: object) -> None:
        """The tests come again by themselves."""


@dataclass
class Ends:
    """A flow between two connections, and their outer ends."""

    flow: Flow
    road: Road
    sender: socket.socket
    receiver: socket.socket

    def arrive(self, data: bytes, at: float) -> None:
        """Bytes come to the relay."""
        self.sender.sendall(data)
        self.road.now = at
        self.flow.readable()


@pytest.fixture
def ends() -> Iterator[Ends]:
    road = Road()
    with contextlib.ExitStack() as stack:
        near, far = socket.socketpair(), socket.socketpair()
        for one in (*near, *far):
            stack.enter_context(one)
            one.setblocking(False)
        pair = SimpleNamespace(connected=True, handler=lambda _source: None)
        # A connect takes a round trip: nothing leaves before.
        flow = Flow(cast("Any", road), cast("Any", pair), CONNECTED_AT + ROUND_TRIP_S)
        flow.source, flow.sink = near[1], far[1]
        yield Ends(flow, road, near[0], far[0])


def test_the_first_bytes_pay_for_the_connect(ends: Ends) -> None:
    ends.arrive(KIB, CONNECTED_AT + 0.3)
    assert ends.road.due == [CONNECTED_AT + 1.5]


def test_who_connects_ahead_pays_once(ends: Ends) -> None:
    """The connect has been paid for when it is older than a round trip."""
    ends.arrive(KIB, CONNECTED_AT + 1.5)
    assert ends.road.due == [CONNECTED_AT + 2.0]
    ends.flow.deliver(CONNECTED_AT + 2.25)
    assert ends.receiver.recv(4096) == KIB
    assert ends.road.late_s == [0.25]


def test_waiting_for_the_receiver_is_not_lateness(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    filler = bytes(1 << 16)
    with contextlib.suppress(BlockingIOError):
        while True:
            ends.flow.sink.send(filler)
    ends.arrive(KIB, CONNECTED_AT + 2)
    ends.flow.deliver(CONNECTED_AT + 2.5)
    assert ends.road.late_s == []
    with contextlib.suppress(BlockingIOError):
        while ends.receiver.recv(1 << 20):
            pass
    # An hour later the receiver has read.
    later = CONNECTED_AT + 3600
    monkeypatch.setattr(relay_tcp, "time", SimpleNamespace(monotonic=lambda: later))
    ends.flow.writable()
    assert ends.receiver.recv(4096) == KIB
    assert ends.road.late_s == [0.0]
