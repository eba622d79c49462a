"""Whether a load may go on: for as long as the scheduler's clock answers, and does not say stop.

The clock ends with the scheduler, and when the scheduler loses the coordinator. So a load ends by
itself when either is gone, whether or not a connection tells it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from trilane.cluster import clock
from trilane.cluster.clock import Probe

BEAT_S = 0.25
"""How often the clock is asked."""
LOST_S = 1.5
"""After so long without an answer nobody is there any more."""


class Lease:
    """Asks the clock, in a thread of its own, until it is closed or lost."""

    def __init__(self, probe: Probe, on_lost: Callable[[], None], lost_s: float = LOST_S) -> None:
        """The lease owns `probe` from now on; `on_lost` is called once, in its thread.

        `lost_s` are the seconds without an answer after which it is lost.
        """
        self._probe = probe
        self._on_lost = on_lost
        self._lost_s = lost_s
        self._closed = threading.Event()
        self.lost = threading.Event()
        """Nobody answers any more: the load has to end at once."""
        self.stop = threading.Event()
        """The coordinator says that the load shall end, with its report."""
        self._thread = threading.Thread(target=self._beat, name="trilane-lease", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ask no more."""
        self._closed.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _beat(self) -> None:
        heard = time.monotonic()
        try:
            while not self._closed.is_set():
                self._probe.ask()
                began = time.monotonic()
                answer = self._probe.answer(BEAT_S)
                if answer is not None:
                    heard = time.monotonic()
                    if answer[1] == clock.STOP:
                        self.stop.set()
                    self._closed.wait(BEAT_S - (heard - began))
                elif time.monotonic() - heard > self._lost_s:
                    self.lost.set()
                    self._on_lost()
                    return
        finally:
            self._probe.close()
