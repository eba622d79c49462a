"""The connections of one client on one event loop, and the calls that wait for them.

`routing.Router` decides; this does what it says. A call has one future from its first wait to the
head of its response: a call that waits for room is submitted in the moment in which the router
grants it, and its task is woken only when the head has come. So a burst of any size neither wakes
all its tasks for each free place, nor needs a task beside the caller's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from trilane._core import HEAD, Connection, Exchange, Tls
from trilane.client._flow import log
from trilane.client._flow.origins import Origin
from trilane.client._flow.routes import Attempt, Entry, Policy
from trilane.client._flow.routing import Router
from trilane.client._flow.timeouts import pool_timeout, response_timeout
from trilane.client.errors import ClientClosed, Error

from .call import Call
from .connecting import Opener
from .deadlines import Deadlines, Limit, clock_of
from .link import Link

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

# A wait that has this many seconds left has none: timers are as late as that.
_GRAIN = 0.02


class Pool:
    """Connections and the calls that wait for them, all in the thread of the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        policy: Policy,
        tls: Callable[[], Tls],
        source: tuple[str, int] | None = None,
    ) -> None:
        """`tls` is called before each connection that needs it.

        `source` is the local address to connect from.
        """
        self.loop = loop
        self._time = clock_of(loop)
        self.router: Router[Link] = Router(policy)
        self.queued = 0
        """Calls that wait for a connection with room."""
        self._deadlines = Deadlines(loop)
        self._connecting: dict[Attempt, Call] = {}
        self._opener = Opener(loop, policy, tls, source)

    def limit(self, seconds: float | None) -> Limit | None:
        """A clock for waits."""
        return None if seconds is None else self._deadlines.limit(seconds)

    # What a task awaits that is no future of the loop's. `on_trio.TrioPool` has its own.

    async def sleep(self, seconds: float) -> None:
        """Wait; 0 seconds let other tasks have their turn."""
        await asyncio.sleep(seconds)

    async def to_thread(
        self, function: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> Result:
        """What the function gives, called in a thread."""
        return await asyncio.to_thread(function, *arguments)

    async def wait(self, future: asyncio.Future[bool], seconds: float | None) -> bool:
        """Whether the future came within so many seconds."""
        if seconds is None:
            return await future
        limit = self._deadlines.limit(seconds)
        limit.add(future)
        try:
            return await future
        finally:
            limit.discard(future)

    async def head(self, call: Call) -> int:  # noqa: C901 - one wait after another
        """Send a call and wait until the final head of its response is there: its status.

        Whatever is raised, the call is over then, and its connection is given back.
        """
        try:
            self._start(call)
            while (future := call.future) is not None:
                ready = await future
                if call.limit is not None:
                    call.limit.discard(future)
                    call.limit = None
                call.future = None
                if call.error is not None:
                    break
                if not ready:
                    self._expired(call)
                elif call.exchange is None or call.link is None:
                    # An attempt failed that was not the only way.
                    self._start(call)
                elif call.sending is not None or call.told is not None:
                    # It may have been woken for its upload, or for a 1xx response.
                    call.tell(call.exchange)
                    self._listen(call, call.link, call.exchange)
            if call.error is None and call.exchange is not None:
                status = call.exchange.head(0)
                if call.told is not None:
                    call.tell(call.exchange)
                return status
        except BaseException as error:
            self.abandon(call)
            if not isinstance(error, Error) or call.error is None:
                raise
        else:
            self.abandon(call)
        # The first cause; what the exchange says followed from it.
        raise call.error or ClientClosed("the client was closed while a request waited")

    def _start(self, call: Call) -> None:
        """Submit the call, let it wait for room, or open a connection for it."""
        while True:
            now = self._time()
            outcome = self.router.acquire(call.route, now)
            if self.router.discarded:
                self.discard()
            if type(outcome) is Entry:
                link: Link = outcome.connection
                # The loop has seen its end if it could; this is for what came since.
                if outcome.idle and not link.connection.is_alive():
                    self.router.release(outcome, now, reusable=False)
                    continue
                call.entry = call.used = outcome
                call.future = None
                if not call.submit(link):
                    self.park(call, link)
                    self._wait(call, now, call.timeouts.pool)
                elif call.exchange is not None:
                    self._listen(call, link, call.exchange)
            elif isinstance(outcome, Attempt):
                self._wait(call, now, None)
                self.open(outcome, call)
            else:
                self.queued += 1
                call.ticket = self.router.wait(call.route, call.granted)
                limits = (call.timeouts.connect, call.timeouts.pool)
                given = [limit for limit in limits if limit is not None]
                self._wait(call, now, min(given, default=None))
            return

    def _wait(self, call: Call, now: float, seconds: float | None) -> None:
        """Let the call wait for a place."""
        call.future = self.loop.create_future()
        call.began = now
        call.clock(self.limit(seconds))

    def _listen(self, call: Call, link: Link, exchange: Exchange) -> None:
        call.future = future = link.expect(exchange, call.wanted, reads=True)
        seconds = call.timeouts.read
        if seconds is not None and future is not None:
            call.limit = limit = self._deadlines.limit(seconds)
            limit.add(future)

    def _expired(self, call: Call) -> None:
        """A limit has passed: raise, or wait on where another one counts."""
        timeouts = call.timeouts
        if call.exchange is not None and call.link is not None:
            if call.whole and call.exchange.watch(HEAD):
                # It does come: reading the rest has a limit for each wait.
                left = call.patience(call.exchange)
                if left is not None and left > _GRAIN and not timeouts.is_over():
                    call.future = call.link.expect(call.exchange, call.wanted, reads=True)
                    if call.future is not None:
                        call.clock(self.limit(round(left, 2)))
                return
            if not call.is_sending or timeouts.is_over():
                origin, method = str(call.route.origin), call.request.method
                raise response_timeout(origin, method, timeouts.read, call.exchange.stream_id)
            # The content is still on its way; the limit of writing counts for it.
            self._listen(call, call.link, call.exchange)
            return
        ticket = call.ticket
        waited = self._time() - call.began
        if timeouts.total is not None:
            timeouts = timeouts.since(waited)
        allowed = timeouts.pool if ticket is None else ticket.limit(timeouts)
        if allowed is not None and waited >= allowed - _GRAIN:
            if ticket is None:
                raise pool_timeout(str(call.route.origin), allowed)
            raise ticket.late(timeouts)
        call.future = self.loop.create_future()
        call.clock(self.limit(None if allowed is None else round(allowed - waited, 2)))

    def open(self, attempt: Attempt, call: Call) -> None:
        """Open a connection; `call` takes it, unless it has given up until then."""
        self._connecting[attempt] = call
        if call.on_step is not None:
            call.on_step("connect", attempt)
        self._opener.open(attempt, attempt.timeout(call.timeouts), self._connected)

    def _connected(self, attempt: Attempt, outcome: Connection | Exception) -> None:
        """The attempt has ended."""
        call = self._connecting.pop(attempt, None)
        waits = call is not None and call.future is not None and not call.future.done()
        now = self._time()
        if call is not None and call.on_step is not None:
            failed = isinstance(outcome, Exception)
            call.on_step("failed" if failed else "connected", outcome)
        if isinstance(outcome, Exception):
            log.failed(attempt, outcome)
            error = attempt.told(outcome) if isinstance(outcome, Error) else None
            again = error is not None and self.router.failed(attempt, error, now)
            if error is None:
                self.router.abandoned(attempt, now)
            if call is not None and waits:
                if again:
                    call.wake()
                else:
                    call.fail(outcome)
        else:
            log.opened(attempt, outcome)
            if call is not None:
                call.opener = True
            link = Link(self.loop, outcome, changed=self._changed, ended=self._ended)
            link.alt_used = attempt.alt_used(link.version)
            # Before the router knows of it: it would give all of the room to others.
            submitted = call is not None and waits and call.submit(link)
            if call is not None and waits and not submitted:
                self.park(call, link)
            link.entry = entry = self.router.opened(attempt, link, now)
            if call is not None and waits:
                call.entry = call.used = entry
                if submitted:
                    call.listen()
            else:
                self.router.release(entry, now, reusable=not link.is_closing)
        self.discard()

    def _changed(self, link: Link) -> None:
        """The connection may have more room, by answers or by new settings of the peer."""
        if link.parked:
            self._unpark(link)
        entry = link.entry
        if self.queued and entry is not None and entry.shared and not entry.retired:
            # A lease that is given back makes the router look at the calls that wait.
            entry.leases += 1
            self.router.release(entry, self._time(), reusable=not link.is_closing)
            self.discard()

    def park(self, call: Call, link: Link) -> None:
        """The connection has refused the call: let it wait there, for as long as that helps."""
        link.parked.append(call)
        self.loop.call_soon(self._move_on, link)

    def _move_on(self, link: Link) -> None:
        """Send what is parked elsewhere where room only comes when other responses end."""
        connection = link.connection
        if link.is_closed or connection.capacity > 0 or not connection.outstanding:
            return
        while link.parked:
            call = link.parked.popleft()
            entry, future = call.entry, call.future
            if entry is not None and future is not None and not future.done():
                call.entry = call.used = call.link = None
                self.router.release(entry, self._time(), reusable=not link.is_closing)
                call.wake()  # It begins again.
        self.discard()

    def _unpark(self, link: Link) -> None:
        """Submit what the connection had refused, in its order, as far as it goes."""
        while link.parked:
            call = link.parked[0]
            waits = call.entry is not None and call.future is not None and not call.future.done()
            if waits and not call.submit(link):
                return
            link.parked.popleft()
            if waits:
                call.listen()

    def _ended(self, link: Link) -> None:
        """The connection is closed: it is not to be counted, or handed out, any more."""
        self._unpark(link)
        entry = link.entry
        if entry is not None and not entry.retired:
            entry.leases += 1
            self.router.release(entry, self._time(), reusable=False)
            self.discard()

    def abandon(self, call: Call) -> None:
        """The call is given up, wherever it is. May be called again."""
        call.clock(None)
        if call.ticket is not None:
            self.queued -= 1
            ticket, call.ticket = call.ticket, None
            self.router.cancel(ticket, self._time())
            self.discard()
        self.finish(call)

    def finish(self, call: Call, *, complete: bool | None = None) -> None:
        """Give the connection back: the response has ended, or is given up. May be called again.

        `complete` is True where it is known that the response has arrived to its end.
        """
        entry, link, exchange = call.entry, call.link, call.exchange
        if entry is None:
            return
        call.entry = None
        if complete is None:
            complete = exchange is not None and exchange.complete
        if call.sending is not None:
            # A server may answer before it has all of the content: the rest is not sent.
            complete = complete and call.sent
            call.sending.cancel()
            if exchange is not None and link is not None:
                link.forget(exchange)
        if not complete and exchange is not None and link is not None:
            link.cancel(exchange)
        self.router.release(
            entry,
            self._time(),
            reusable=entry.is_reusable(complete=complete),
        )
        if self.router.discarded:
            self.discard()

    def learn(self, origin: Origin, value: str, age_s: float) -> None:
        """Take in the field `alt-svc`."""
        self.router.alternatives.learn(origin, value, self._time(), age_s=age_s)

    def misdirected(self, entry: Entry[Link]) -> None:
        """The alternative answered 421."""
        self.router.misdirected(entry, self._time())
        self.discard()

    def answered(self, entry: Entry[Link]) -> None:
        """The alternative has answered for the first time."""
        self.router.answered(entry)

    def broken(self, entry: Entry[Link]) -> None:
        """The alternative has failed."""
        self.router.broken(entry, self._time())
        self.discard()

    def discard(self) -> None:
        """Close what has left the router."""
        while self.router.discarded:
            self.router.discarded.pop().close()

    def close(self) -> None:
        """Close every connection; calls that wait get ClientClosed. Idempotent."""
        self.router.close(abort=True)
        self.discard()
        self._opener.close()
        connecting, self._connecting = self._connecting, {}
        for call in connecting.values():
            call.fail(ClientClosed("the client was closed while a request waited"))
        self._deadlines.close()
