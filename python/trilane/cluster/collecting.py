"""One load while it runs: its orders as Dask's tasks, and what becomes of each worker."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

import distributed

from trilane.cluster import agent, frames
from trilane.cluster.agent import Order
from trilane.cluster.connecting import ClusterFailed
from trilane.cluster.frames import Frame

T = TypeVar("T")

SILENT_S = 5.0
"""A worker that has not asked the clock for so long is lost; its load has ended then (`lease`)."""

_TAKES_S = 0.25
# For a load that was told to end, beyond the limits that its workers keep.
_ENDS_S = 90.0


class SchedulerLost(ClusterFailed):
    """The scheduler does not answer any more."""


class Ask(Protocol):
    """Asks the scheduler, and waits for the answer."""

    def __call__(
        self, make: Callable[[], Awaitable[T]], what: str, limit_s: float | None = None
    ) -> T:
        """Raises SchedulerLost."""


class Collection:
    """The frames of a load's workers; each has a last one, of reports, an error or its loss."""

    def __init__(
        self, ask: Ask, client: distributed.Client, run: str, addresses: Sequence[str]
    ) -> None:
        """`addresses` are those of the workers, by their index."""
        self._ask = ask
        self._client = client
        self._scheduler: Any = client.scheduler
        self._run = run
        self._addresses = addresses
        self._pending: dict[int, distributed.Future[Any]] = {}
        self._stopped_at: float | None = None

    def begin(self, orders: Sequence[Order]) -> None:
        """Give each worker its order: one task for each, for that worker alone, once."""
        for order in orders:
            self._pending[order.index] = self._client.submit(
                agent.carry_out,
                order,
                key=f"trilane-{self._run}-{order.index}",
                workers=[self._addresses[order.index]],
                allow_other_workers=False,
                pure=False,
                retries=0,
            )

    def is_done(self) -> bool:
        """Whether each worker has had its last frame."""
        return not self._pending

    def next(self, interrupts: Sequence[int]) -> list[tuple[int, Frame]]:
        """What has come next, with the index of its worker; waits for a moment.

        An interrupt ends the load, another one ends the wait for what its workers still say.
        """
        if len(interrupts) > 1:
            return self._lose_all("it was not waited for, as the command was interrupted twice")
        if interrupts and self._stopped_at is None:
            self._stopped_at = time.monotonic()
        if self._stopped_at is not None and time.monotonic() - self._stopped_at > _ENDS_S:
            return self._lose_all(f"it did not end within {_ENDS_S:g} s of being told to")
        try:
            ended = [index for index, future in self._pending.items() if future.done()]
            taken, told = self._take(0.0 if ended else _TAKES_S)
            # What a worker sent before it ended has come before its end is known here.
            while ended and told["more"]:
                more, told = self._take(0.0)
                taken += more
            taken += [(index, self._last(index)) for index in ended]
        except SchedulerLost:
            return self._lose_all("the scheduler was lost")
        return taken + self._lost(told)

    def _take(self, limit_s: float) -> tuple[list[tuple[int, Frame]], dict[str, Any]]:
        stop = self._stopped_at is not None
        told = self._ask(
            lambda: self._scheduler.trilane_take(run=self._run, limit_s=limit_s, stop=stop),
            "hand over what was measured",
        )
        return [
            (index, Frame(bytes(kind), bytes(content)))
            for index, kind, content in told["frames"]
            if index in self._pending
        ], told

    def _last(self, index: int) -> Frame:
        """The last frame of a worker whose task has ended."""
        future = self._pending.pop(index)
        if future.status == "finished":
            try:
                kind, content = self._ask(
                    lambda: self._client.gather(future, direct=False), "hand over a result"
                )
            except SchedulerLost:
                return frames.lost("its result was lost with it")
            return Frame(kind, content)
        if future.status == "error":
            error = self._ask(future.exception, "say what went wrong")
            if isinstance(error, distributed.scheduler.KilledWorker):
                return frames.lost("its process ended")
            return frames.failed(str(error) or type(error).__name__)
        return frames.lost("its task was cancelled")

    def _lost(self, told: dict[str, Any]) -> list[tuple[int, Frame]]:
        """Those of the pending workers that are gone."""
        gone, silent = set(told["gone"]), dict(told["silent_s"])
        lost = []
        for index in list(self._pending):
            if self._addresses[index] in gone:
                lost.append((index, frames.lost("it left the cluster, or its process ended")))
            elif silent.get(index, 0.0) > SILENT_S:
                why = f"it was not heard of for {SILENT_S:g} s"
                lost.append((index, frames.lost(why)))
        for index, _ in lost:
            # Dask forgets a task that nobody waits for: it is not given to another process.
            self._pending.pop(index).release()
        return lost

    def _lose_all(self, why: str) -> list[tuple[int, Frame]]:
        lost = [(index, frames.lost(why)) for index in self._pending]
        self._pending.clear()
        return lost
