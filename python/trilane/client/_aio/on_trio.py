"""What the pool asks of an event loop, in a run of Trio.

The pool is written for an `asyncio` loop and needs little of it: callbacks at the end of a turn and
at an instant, callbacks when a descriptor is ready, futures, and tasks for content of requests.
`TrioLoop` has these, by system tasks of the run. A future is asyncio's own, which needs no loop
that runs; only the way to await it is Trio's. So the pool, its calls and its links are the same
code on both, and who awaits them is cancelled by Trio's cancel scopes.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, TypeVar, TypeVarTuple

import trio

from .pool import Pool

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

_LOG: Final = logging.getLogger("trilane.client")
# Cancelled timers that may lie in the heap before it is made anew.
_MOST_STALE: Final = 64


class TrioFuture(asyncio.Future[Result]):
    """A future that one task of Trio awaits. A task that is cancelled meanwhile cancels it."""

    _waiter: trio.lowlevel.Task | None = None

    def set_result(self, result: Result, /) -> None:
        """Let the task that awaits it go on."""
        super().set_result(result)
        self._wake()

    def set_exception(self, exception: type | BaseException, /) -> None:
        """Raise it in the task that awaits."""
        super().set_exception(exception)
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            trio.lowlevel.reschedule(waiter)

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._waiter = None
        # Whoever has something for the task sees that nobody waits any more.
        self.cancel()
        return trio.lowlevel.Abort.SUCCEEDED

    def __await__(self) -> Generator[Any, None, Result]:
        """Wait until it is done. This is a checkpoint also where it is done already."""
        return self._wait().__await__()

    async def _wait(self) -> Result:
        if self.done():
            await trio.lowlevel.checkpoint()
        else:
            self._waiter = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort)
        return self.result()


class _Job(TrioFuture[Result]):
    """A coroutine that runs in a task of its own, as `asyncio.Task`."""

    def __init__(self, loop: TrioLoop, coroutine: Coroutine[Any, Any, Result]) -> None:
        super().__init__(loop=loop)
        self._coroutine = coroutine
        self._scope = trio.CancelScope()

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - as a future has it
        """Cancel the coroutine; this is cancelled when that has ended."""
        if self.done():
            return False
        self._scope.cancel()
        return True

    async def run(self) -> None:
        """Run it to its end. Of its exceptions none but Trio's own leaves."""
        try:
            with self._scope:
                try:
                    result = await self._coroutine
                except trio.Cancelled:
                    raise
                except BaseException as error:  # noqa: BLE001 - for whoever asks for the result
                    self.set_exception(error)
                else:
                    self.set_result(result)
        finally:
            if not self.done():
                super().cancel()


class _Watch:
    """Calls back whenever a descriptor is ready, until `stop`."""

    def __init__(
        self, loop: TrioLoop, wait: Callable[[int], Any], descriptor: int, callback: asyncio.Handle
    ) -> None:
        self._loop = loop
        self._wait = wait
        self._descriptor = descriptor
        self._callback = callback
        self._scope = trio.CancelScope()
        self._stopped = False
        trio.lowlevel.spawn_system_task(self._run, name="trilane: wait for a socket")

    def stop(self) -> None:
        """Call back no more; the descriptor may be closed right after this."""
        self._stopped = True
        # What waits in epoll is taken out of it by this call, not later.
        self._scope.cancel()

    async def _run(self) -> None:
        with self._scope:
            while not self._stopped:
                try:
                    await self._wait(self._descriptor)
                except (OSError, trio.ClosedResourceError):
                    # It is no open descriptor any more: whoever reads it sees that, once.
                    self._stopped = True
                    self._loop.run(self._callback)
                if not self._stopped:
                    self._loop.run(self._callback)


class TrioLoop(asyncio.AbstractEventLoop):
    """The part of an event loop that the pool uses, in one run of Trio; see `current`."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._soon: deque[asyncio.Handle] = deque()
        self._idle: trio.lowlevel.Task | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._stale = 0
        self._alarm = trio.CancelScope()
        self._readers: dict[int, _Watch] = {}
        self._writers: dict[int, _Watch] = {}
        self._closed = False
        trio.lowlevel.spawn_system_task(self._turns, name="trilane: callbacks")
        trio.lowlevel.spawn_system_task(self._clock, name="trilane: timers")

    @classmethod
    def current(cls) -> TrioLoop:
        """That of the run that this task belongs to: always the same one."""
        try:
            return _of_run.get()
        except LookupError:
            loop = cls()
            _of_run.set(loop)
            return loop

    def time(self) -> float:
        """Seconds of Trio's clock."""
        return trio.current_time()

    def get_debug(self) -> bool:
        """Futures ask: no."""
        return False

    def is_closed(self) -> bool:
        """Whether the run has ended, or is about to."""
        return self._closed

    def create_future(self) -> TrioFuture[Any]:
        """A future for one task of this run."""
        return TrioFuture(loop=self)

    def create_task(self, coro: Any, **_: Any) -> Any:
        """Run a coroutine in a task of its own, with the context variables of the caller.

        What is given is a future of its result that can be cancelled, and no `asyncio.Task`.
        """
        job: _Job[Any] = _Job(self, coro)
        context = contextvars.copy_context()
        trio.lowlevel.spawn_system_task(job.run, context=context, name="trilane: a task")
        return job

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Call it in the next turn, after those that were given before."""
        handle = asyncio.Handle(callback, args, self, context)
        self._put(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """`call_soon`, from any thread.

        Raises:
            RuntimeError: the run has ended.
        """
        handle = asyncio.Handle(callback, args, self, context)
        # Behind what was given before it: Trio runs tasks of one turn in any order.
        self._token.run_sync_soon(self._put, handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call it at an instant of `time`."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, handle)
        self._alarm.deadline = min(self._alarm.deadline, when)
        return handle

    def add_reader(
        self,
        fd: Any,
        callback: Callable[[*Arguments], Any],
        *args: *Arguments,
    ) -> None:
        """Call back whenever the descriptor is readable."""
        self.remove_reader(fd)
        handle = asyncio.Handle(callback, args, self)
        self._readers[fd] = _Watch(self, trio.lowlevel.wait_readable, fd, handle)

    def remove_reader(self, fd: Any) -> bool:
        """Look no more whether the descriptor is readable."""
        return _stop(self._readers, fd)

    def add_writer(
        self,
        fd: Any,
        callback: Callable[[*Arguments], Any],
        *args: *Arguments,
    ) -> None:
        """Call back whenever the descriptor is writable."""
        self.remove_writer(fd)
        handle = asyncio.Handle(callback, args, self)
        self._writers[fd] = _Watch(self, trio.lowlevel.wait_writable, fd, handle)

    def remove_writer(self, fd: Any) -> bool:
        """Look no more whether the descriptor is writable."""
        return _stop(self._writers, fd)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A callback has failed: as with asyncio, that is logged, and the run goes on."""
        _LOG.error("%s", context.get("message"), exc_info=context.get("exception"))

    def _put(self, handle: asyncio.Handle) -> None:
        self._soon.append(handle)
        idle, self._idle = self._idle, None
        if idle is not None:
            trio.lowlevel.reschedule(idle)

    def run(self, handle: asyncio.Handle) -> None:
        """Call back, unless it was cancelled."""
        if not handle.cancelled():
            handle._run()  # noqa: SLF001 - what a loop is to do with it

    def _timer_handle_cancelled(self, _: asyncio.TimerHandle) -> None:
        self._stale += 1
        if self._stale > max(_MOST_STALE, len(self._timers) // 2):
            self._timers = [timer for timer in self._timers if not timer.cancelled()]
            heapq.heapify(self._timers)
            self._stale = 0

    async def _turns(self) -> None:
        """Run the callbacks that are due, turn by turn."""
        try:
            while True:
                if self._soon:
                    # What these give is for the next turn: others have theirs in between.
                    await trio.lowlevel.checkpoint()
                else:
                    self._idle = trio.lowlevel.current_task()
                    await trio.lowlevel.wait_task_rescheduled(self._interrupted)
                for _ in range(len(self._soon)):
                    self.run(self._soon.popleft())
        finally:
            self._closed = True

    def _interrupted(self, _: object) -> trio.lowlevel.Abort:
        self._idle = None
        return trio.lowlevel.Abort.SUCCEEDED

    async def _clock(self) -> None:
        """Run the timers that are due."""
        while True:
            timers = self._timers
            first = timers[0].when() if timers else float("inf")
            with trio.CancelScope(deadline=first) as self._alarm:
                await trio.sleep_forever()
            now = self.time()
            while self._timers and self._timers[0].when() <= now:
                timer = heapq.heappop(self._timers)
                if timer.cancelled():
                    self._stale = max(0, self._stale - 1)
                self.run(timer)


class TrioPool(Pool):
    """A pool in a run of Trio."""

    async def sleep(self, seconds: float) -> None:
        """As `Pool.sleep`."""
        await trio.sleep(seconds)

    async def to_thread(
        self, function: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> Result:
        """As `Pool.to_thread`."""
        return await trio.to_thread.run_sync(function, *arguments)


_of_run: Final[trio.lowlevel.RunVar[TrioLoop]] = trio.lowlevel.RunVar("trilane")


def _stop(watches: dict[int, _Watch], descriptor: int) -> bool:
    watch = watches.pop(descriptor, None)
    if watch is not None:
        watch.stop()
    return watch is not None
