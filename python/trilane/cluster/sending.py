"""Frames on their way from a worker to the scheduler, in a thread that may wait for it."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, Self

from distributed import Worker

from trilane.cluster.frames import Frame
from trilane.cluster.relay import Sent

HELD_BYTES = 64 << 20
"""What waits in a worker at most, beside one frame."""

_LIMIT_S = 30.0
_LOOK_S = 0.5


class Sender:
    """A context in which frames are sent; what waits when one has come goes with it at once.

    So a scheduler that is slow gets fewer messages, not more.
    """

    def __init__(self, run: str, token: bytes, worker: Worker) -> None:
        """`token` is what the relay knows the sender by."""
        self._run = run
        self._token = token
        self._worker = worker
        self._waiting: list[Frame] = []
        self._sending: list[Frame] = []
        self._changed = threading.Condition()
        self._closed = False
        self.failed = threading.Event()
        """The scheduler takes no more frames of this run."""
        self._thread = threading.Thread(target=self._send, name="trilane-frames", daemon=True)

    def __enter__(self) -> Self:
        """Begin to send."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Send no more; what is being sent is not waited for."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def add(self, frame: Frame) -> None:
        """Send a frame, after those before it."""
        with self._changed:
            self._waiting.append(frame)
            self._changed.notify_all()

    def is_full(self) -> bool:
        """Whether no frame should be added for now."""
        with self._changed:
            held = sum(len(frame.content) for frame in (*self._waiting, *self._sending))
        return held >= HELD_BYTES

    def finish(self, limit_s: float) -> None:
        """Wait until all is sent, `limit_s` seconds at most."""
        with self._changed:
            self._changed.wait_for(
                lambda: not (self._waiting or self._sending) or self.failed.is_set(), limit_s
            )

    def _send(self) -> None:
        while True:
            with self._changed:
                self._sending = []
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                self._sending, self._waiting = self._waiting, []
                sent = [(frame.kind, frame.content) for frame in self._sending]
            if not self._accepted(sent):
                with self._changed:
                    self.failed.set()
                    self._changed.notify_all()
                return

    def _accepted(self, frames: list[Sent]) -> bool:
        """Whether the scheduler took them; it may make us wait, while the coordinator is slow."""

        async def send() -> Any:
            return await self._worker.scheduler.trilane_send(
                run=self._run, token=self._token, frames=frames
            )

        # That of Tornado wraps one of asyncio.
        loop: Any = self._worker.loop
        sent = asyncio.run_coroutine_threadsafe(send(), loop.asyncio_loop)
        deadline = time.monotonic() + _LIMIT_S
        while not self._closed and time.monotonic() < deadline:
            try:
                return bool(sent.result(_LOOK_S))
            except TimeoutError:
                # Also what the scheduler may answer: then it has not taken them.
                if sent.done():
                    return False
            except Exception:  # noqa: BLE001 - whatever it is, the scheduler has not taken them
                return False
        sent.cancel()
        return False
