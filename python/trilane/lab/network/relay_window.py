"""TCP's slow start, for a relay whose own connections are too short to have one.

On a network, a TCP sender may have ten segments in flight at first, and what has been
acknowledged more after every acknowledgement (RFC 6928, RFC 5681); QUIC, whose packets go through
the relay from end to end, does the same by itself. Without this, a large answer would take several
round trips over HTTP/3 and one over TCP.

As in Linux, the window grows only while it is used (RFC 7661), and shrinks by half for every
retransmission timeout of idleness (`tcp_slow_start_after_idle`). There is no loss, so nothing else
makes it smaller. Once it allows more than the relay does, it is out of the way.
"""

from __future__ import annotations

from collections import deque

INITIAL = 10 * 1460
"""Bytes that a sender may send before the first acknowledgement."""
# Linux: the smoothed round-trip time and at least this.
_TIMEOUT_FLOOR_S = 0.2


class Window:
    """How much one direction of a connection may have in flight. Times in seconds."""

    def __init__(self, round_trip_s: float, limit: int) -> None:
        self._round_trip_s = round_trip_s
        self._timeout_s = round_trip_s + _TIMEOUT_FLOOR_S
        self._limit = limit
        self._size = INITIAL
        self._under_way = 0
        self._most = 0
        self._last = 0.0
        self._acknowledgements: deque[tuple[float, int]] = deque()

    def room(self, now: float) -> int:
        """Bytes that may leave at `now`, which never goes back."""
        while self._acknowledgements and self._acknowledgements[0][0] <= now:
            size = self._acknowledgements.popleft()[1]
            self._under_way -= size
            if self._size < 2 * self._most:
                self._size += size
        if not self._under_way:
            self._rest(now)
        return min(self._size, self._limit) - self._under_way

    def leave(self, now: float, size: int) -> None:
        """So many bytes have left; their acknowledgement comes a round trip later."""
        self._last = now
        if self._size >= self._limit:
            # The relay bounds what is under way: no need to count any more.
            return
        self._under_way += size
        self._most = max(self._most, self._under_way)
        self._acknowledgements.append((now + self._round_trip_s, size))

    def next_room(self) -> float:
        """When the next acknowledgement comes; to be asked only where there is no room."""
        return self._acknowledgements[0][0]

    def _rest(self, now: float) -> None:
        idle_s = now - self._last
        while idle_s > self._timeout_s and self._size > INITIAL:
            idle_s -= self._timeout_s
            self._size = max(INITIAL, self._size // 2)
            self._most = min(self._most, self._size)
