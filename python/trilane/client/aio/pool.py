"""The connections of one client on one event loop, and the calls that wait for them.

`routing.Router` decides; this does what it says. A call has one future from its first wait to the
head of its response: who waits for room is submitted in the moment in which the router grants it,
and only woken when the head has come. So a burst of any size is neither a herd that runs for each
free place, nor a task more than the caller's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from trilane._core import HEAD, Connection, Exchange, Tls, connect
from trilane.client.errors import ClientClosed, ConnectTimeout, Error, PoolTimeout, ReadTimeout
from trilane.client.routing import Attempt, Entry, Policy, Route, Router, Ticket
from trilane.client.timeouts import Timeouts

from .deadlines import Deadlines, Limit
from .link import Field, Link

# Connections that are opened at once; more attempts wait for a thread.
_THREADS = 32
_GRAIN = 0.01


class Call:
    """One request on its way, from the queue to the end of its response."""

    __slots__ = (
        "authority",
        "began",
        "body",
        "entry",
        "error",
        "exchange",
        "fields",
        "future",
        "length",
        "limit",
        "link",
        "method",
        "pool",
        "route",
        "sending",
        "streaming",
        "target",
        "ticket",
        "timeouts",
    )

    def __init__(
        self,
        pool: Pool,
        route: Route,
        method: str,
        target: str,
        fields: Sequence[Field],
        body: bytes | None,
        *,
        authority: str,
        timeouts: Timeouts,
        streaming: bool = False,
        length: int | None = None,
    ) -> None:
        self.pool = pool
        self.route = route
        self.method = method
        self.target = target
        self.fields = fields
        self.body = body
        self.authority = authority
        self.timeouts = timeouts
        self.streaming = streaming
        self.length = length
        self.began = 0.0
        self.entry: Entry[Link] | None = None
        self.link: Link | None = None
        self.exchange: Exchange | None = None
        self.ticket: Ticket[Link] | None = None
        self.error: BaseException | None = None
        self.future: asyncio.Future[bool] | None = None
        self.limit: Limit | None = None
        self.sending: asyncio.Task[None] | None = None
        """The upload of content that streams."""

    def submit(self, link: Link) -> None:
        """Send it on a connection that is leased to it; `error` says if that fails."""
        self.link = link
        try:
            self.exchange = link.submit(
                self.method,
                self.target,
                self.fields,
                self.body,
                authority=self.authority,
                streaming=self.streaming,
                length=self.length,
            )
        except Error as error:
            self.error = error

    def fail(self, error: BaseException) -> None:
        """End the wait with an error."""
        if self.error is None:
            self.error = error
        self.wake()

    def wake(self) -> None:
        """End the wait."""
        if self.future is not None and not self.future.done():
            self.future.set_result(True)

    def clock(self, limit: Limit | None) -> None:
        """Let the wait from here on have another limit."""
        future = self.future
        if future is None:
            return
        if self.limit is not None:
            self.limit.discard(future)
        self.limit = limit
        if limit is not None:
            limit.add(future)

    def granted(self) -> None:
        """The router has an answer for the ticket. This is called inside of the router."""
        ticket, future = self.ticket, self.future
        if ticket is None or future is None or future.done():
            return  # Given up, and not told yet: `cancel` passes it on.
        self.pool.queued -= 1
        self.ticket = None
        outcome = ticket.outcome
        if isinstance(outcome, Entry):
            # At once: the router goes on as long as the connection says that it has room.
            self.entry = outcome
            self.submit(outcome.connection)
            self.listen()
        elif isinstance(outcome, Attempt):
            self.clock(None)
            self.pool.open(outcome, self)
        elif outcome is not None:
            self.fail(outcome)

    def listen(self) -> None:
        """Wait for the head, on the future that there is."""
        exchange, link = self.exchange, self.link
        if (
            exchange is None
            or link is None
            or self.error is not None
            or link.expect(exchange, HEAD, self.future) is None
        ):
            self.wake()
        else:
            self.clock(self.pool.limit(self.timeouts.read))


class Pool:
    """Connections, and who waits for them. Everything happens in the thread of the loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, policy: Policy, tls: Callable[[], Tls]
    ) -> None:
        """`tls` is called in a thread, before the first connection that needs it."""
        self.loop = loop
        self.router: Router[Link] = Router(policy)
        self.queued = 0
        """Calls that wait for a connection with room."""
        self._tls = tls
        self._deadlines = Deadlines(loop)
        self._connecting: dict[Attempt, Call] = {}
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="trilane-connect")

    def limit(self, seconds: float | None) -> Limit | None:
        """A clock for waits."""
        return None if seconds is None else self._deadlines.limit(seconds)

    async def head(self, call: Call) -> int:
        """Send a call and wait until the final head of its response is there: its status.

        Whatever is raised, the call is over then, and its connection is given back.
        """
        try:
            self._start(call)
            while call.future is not None:
                future = call.future
                ready = await future
                if call.limit is not None:
                    call.limit.discard(future)
                    call.limit = None
                call.future = None
                if call.error is not None:
                    raise call.error
                if not ready:
                    self._expired(call)
                elif call.exchange is None:
                    self._start(call)
            if call.exchange is None:
                raise call.error or ClientClosed("the client was closed")
            return call.exchange.head(0)
        except BaseException:
            self.abandon(call)
            raise

    def _start(self, call: Call) -> None:
        """Submit the call, let it wait for room, or open a connection for it."""
        while True:
            now = self.loop.time()
            outcome = self.router.acquire(call.route, now)
            if self.router.discarded:
                self.discard()
            if type(outcome) is Entry:
                link = outcome.connection
                # The loop has seen its end if it could; this is for what came since.
                if outcome.idle and not outcome.shared and not link.connection.is_alive():
                    self.router.release(outcome, now, reusable=False)
                    continue
                call.entry = outcome
                call.submit(link)
                if call.exchange is None:
                    raise call.error or ClientClosed("the client was closed")
                call.future = link.expect(call.exchange, HEAD)
                if call.timeouts.read is not None:
                    call.clock(self._deadlines.limit(call.timeouts.read))
                return
            call.future = self.loop.create_future()
            call.began = now
            if isinstance(outcome, Attempt):
                self.open(outcome, call)
            else:
                self.queued += 1
                call.ticket = self.router.wait(call.route, call.granted)
                limits = [call.timeouts.connect, call.timeouts.pool]
                call.clock(self.limit(min((each for each in limits if each is not None), default=None)))
            return

    def _expired(self, call: Call) -> None:
        """A limit has passed: raise, or wait on where another one counts."""
        timeouts = call.timeouts
        if call.exchange is not None and call.link is not None:
            if call.sending is None or call.sending.done():
                raise ReadTimeout(
                    f"{call.route.origin} sent no response to {call.method} within"
                    f" {timeouts.read} s: allow more with Timeouts(read=...)",
                    stream_id=call.exchange.stream_id,
                )
            # The content is still on its way; the limit of writing counts for it.
            call.future = call.link.expect(call.exchange, HEAD)
            call.clock(self.limit(timeouts.read))
            return
        connecting = call.ticket is not None and call.ticket.connecting
        allowed = timeouts.connect if connecting else timeouts.pool
        waited = self.loop.time() - call.began
        if allowed is not None and waited >= allowed - _GRAIN:
            if connecting:
                raise ConnectTimeout(
                    f"no connection to {call.route.origin} within {allowed} s:"
                    " allow more with Timeouts(connect=...)"
                )
            raise PoolTimeout(
                f"no connection to {call.route.origin} was free within {allowed} s: allow more with"
                " Timeouts(pool=...), or more connections"
            )
        call.future = self.loop.create_future()
        call.clock(self.limit(None if allowed is None else round(allowed - waited, 2)))

    def open(self, attempt: Attempt, call: Call) -> None:
        """Open a connection in a thread; `call` takes it, unless it has given up until then."""
        connect_s = call.timeouts.connect
        limits = [each for each in (connect_s, attempt.limit_s) if each is not None]
        self._connecting[attempt] = call
        self._executor.submit(self._connect, attempt, min(limits, default=None))

    def _connect(self, attempt: Attempt, timeout: float | None) -> None:
        """In a thread: connect and tell the loop."""
        outcome: Connection | Exception
        try:
            tunnel = attempt.tunnel
            outcome = connect(
                attempt.host,
                attempt.port,
                scheme=attempt.scheme,
                versions=attempt.versions,
                tls=self._tls() if attempt.scheme == "https" or tunnel is not None else None,
                server_name=attempt.server_name,
                timeout=timeout,
                proxy=None
                if tunnel is None
                else (tunnel.origin.host, tunnel.origin.port, tunnel.fields),
                race=attempt.race_s,
                unix=attempt.unix,
            )
        except Exception as error:  # noqa: BLE001 # it is raised in the task that waits
            outcome = error
        try:
            self.loop.call_soon_threadsafe(self._connected, attempt, outcome)
        except RuntimeError:
            # The loop was closed meanwhile; nobody waits.
            if isinstance(outcome, Connection):
                outcome.close()

    def _connected(self, attempt: Attempt, outcome: Connection | Exception) -> None:
        """The attempt has ended; in the loop again."""
        call = self._connecting.pop(attempt, None)
        waits = call is not None and call.future is not None and not call.future.done()
        now = self.loop.time()
        if isinstance(outcome, Exception):
            error = outcome if isinstance(outcome, Error) else None
            again = error is not None and self.router.failed(attempt, error, now)
            if error is None:
                self.router.abandoned(attempt, now)
            if call is not None and waits:
                if again:
                    call.wake()
                else:
                    call.fail(outcome)
        else:
            link = Link(self.loop, outcome, changed=self._changed, ended=self._ended)
            if call is not None and waits:
                # Before the router hears of it: it would hand all of the room to others.
                call.submit(link)
            link.entry = entry = self.router.opened(attempt, link, now)
            if call is not None and waits:
                call.entry = entry
                call.listen()
            else:
                self.router.release(entry, now, reusable=not link.is_closing)
        self.discard()

    def _changed(self, link: Link) -> None:
        """The connection may have more room, by answers or by new settings of the peer."""
        entry = link.entry
        if self.queued and entry is not None and entry.shared and not entry.retired:
            # A lease that is given back makes the router look at who waits.
            entry.leases += 1
            self.router.release(entry, self.loop.time(), reusable=not link.is_closing)
            self.discard()

    def _ended(self, link: Link) -> None:
        """The connection is closed: it is not to be counted, or handed out, any more."""
        entry = link.entry
        if entry is not None and not entry.retired:
            entry.leases += 1
            self.router.release(entry, self.loop.time(), reusable=False)
            self.discard()

    def abandon(self, call: Call) -> None:
        """The call is given up, wherever it is. May be called again."""
        if call.sending is not None:
            call.sending.cancel()
        if call.limit is not None and call.future is not None:
            call.limit.discard(call.future)
            call.limit = None
        if call.ticket is not None:
            if call.ticket.outcome is None:
                self.queued -= 1
            self.router.cancel(call.ticket, self.loop.time())
            call.ticket = None
            self.discard()
        self.finish(call)

    def finish(self, call: Call) -> None:
        """Give the connection back: the response has ended, or is given up. May be called again."""
        entry, link, exchange = call.entry, call.link, call.exchange
        if entry is None or link is None:
            return
        call.entry = None
        complete = exchange is not None and exchange.complete
        if exchange is not None and not (complete and not exchange.upload_open):
            link.cancel(exchange)
            complete = False
        self.router.release(
            entry, self.loop.time(), reusable=entry.shared or (complete and not link.is_closing)
        )
        if self.router.discarded:
            self.discard()

    def discard(self) -> None:
        """Close what has left the router."""
        while self.router.discarded:
            self.router.discarded.pop().close()

    def close(self) -> None:
        """Close every connection; who waits gets ClientClosed. Idempotent."""
        self.router.close()
        self.discard()
        self._executor.shutdown(wait=False, cancel_futures=True)
        connecting, self._connecting = self._connecting, {}
        for call in connecting.values():
            call.fail(ClientClosed("the client was closed while a request waited"))
        self._deadlines.close()
