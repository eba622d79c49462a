"""One request on its way, from the queue for a connection to the end of its response."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trilane._core import HEAD, INFORMATIONAL, WHOLE, Exchange
from trilane.client._flow.routes import Attempt, Entry, Ticket
from trilane.client._flow.uploading import is_answered
from trilane.client.errors import Full, WriteTimeout

from .deadlines import Limit
from .link import Link
from .uploading import send

if TYPE_CHECKING:
    from trilane.client._flow.preparing import How
    from trilane.client._flow.request import Request

    from .pool import Pool


class Call:
    """What is known of a request until its connection is given back. Its `pool` moves it.

    What most calls leave as it is stands in the class, and costs none of them anything.
    """

    known = 0
    """How many 1xx responses `told` was called for."""
    opener = False
    """Whether the connection was made for it."""
    began = 0.0
    """When it began to wait for a connection."""
    ticket: Ticket[Link] | None = None
    """Its place in the queue."""
    entry: Entry[Link] | None = None
    """The lease of its connection, until it is given back."""
    used: Entry[Link] | None = None
    """The connection that it was on last."""
    link: Link | None = None
    exchange: Exchange | None = None
    sending: asyncio.Future[None] | None = None
    """What writes its content, where that follows the head."""
    sent = True
    """Whether its content has been written to the end."""
    stalled: WriteTimeout | None = None
    """Why the rest of its content was not sent though the response had begun."""
    error: BaseException | None = None
    """What ends it."""
    future: asyncio.Future[bool] | None = None
    """What its task waits for; False: for too long."""
    limit: Limit | None = None

    def __init__(self, pool: Pool, request: Request, how: How, *, whole: bool) -> None:
        """`whole`: whether its task wants all of the response at once."""
        self.pool = pool
        self.request = request
        self.route = how.route
        self.timeouts = how.limits
        self.told = how.on_informational
        """Called for each 1xx response."""
        self.on_step = how.on_step
        """Told of each step on its way."""
        self.watched = how.watched
        """What is seen of it, where anything is to be."""
        self.whole = whole
        self.wanted = WHOLE if whole else HEAD
        """What its task waits for first: the head, the end of what is short, or a 1xx response."""
        if self.told is not None:
            self.wanted = INFORMATIONAL

    def patience(self, exchange: Exchange) -> float | None:
        """How long to wait for more of the response, where its task takes what comes at once.

        That counts from the last bytes: they may have come while more than they was waited for.
        """
        seconds = self.timeouts.read
        if seconds is None or not self.whole:
            return seconds
        return max(0.0, seconds - exchange.quiet)

    @property
    def is_sending(self) -> bool:
        """Whether its content is being written."""
        return self.sending is not None and not self.sending.done()

    def submit(self, link: Link) -> bool:
        """Send it on a connection; False: it has no room. `error` says if that fails."""
        self.link = link
        request, timed = self.request, False
        try:
            if self.watched is not None:
                self.watched.submitting(link.facts if self.opener else None)
                timed = self.watched.timed
            exchange = request.submit(link.connection, link.alt_used, flush=False, timed=timed)
        except Full:
            return False
        except Exception as error:  # noqa: BLE001 - the task that waits raises it
            self.error = error
            return True
        self.exchange = exchange
        link.touch()
        if self.on_step is not None:
            self.on_step("submitted", link.connection)
            if not request.is_streaming:
                self.on_step("sent", None)
        if request.is_streaming:
            self.sent = False
            link.upload(exchange)
            self.sending = self.pool.loop.create_task(send(self, link, exchange))
            self.sending.add_done_callback(self._sent)
        return True

    def listen(self) -> None:
        """Wait for the head of the response, on the future that there is."""
        exchange, link = self.exchange, self.link
        if (
            self.error is not None
            or exchange is None
            or link is None
            or link.expect(exchange, self.wanted, self.future, reads=True) is None
        ):
            self.wake()
        else:
            self.clock(self.pool.limit(self.timeouts.read))

    def tell(self, exchange: Exchange) -> None:
        """Call `told` for each 1xx response that has come since."""
        if self.told is not None:
            responses = exchange.informational
            new, self.known = responses[self.known :], len(responses)
            with self.request.callers_own():
                for status, fields in new:
                    self.told(status, fields)

    def granted(self) -> None:
        """The router has an answer for the ticket. This is called inside of the router."""
        ticket, future = self.ticket, self.future
        if ticket is None or future is None or future.done():
            return  # Given up, and not told yet: `cancel` passes it on.
        self.pool.queued -= 1
        self.ticket = None
        outcome = ticket.outcome
        if isinstance(outcome, Entry):
            # At once: the router goes on for as long as the connection says that it has room.
            self.entry = self.used = outcome
            if self.submit(outcome.connection):
                self.listen()
            else:
                self.pool.park(self, outcome.connection)
        elif isinstance(outcome, Attempt):
            self.clock(None)
            self.pool.open(outcome, self)
        elif outcome is not None:
            self.fail(outcome)

    def clock(self, limit: Limit | None) -> None:
        """Let the wait have another limit, counted from now."""
        future = self.future
        if future is None:
            return
        if self.limit is not None:
            self.limit.discard(future)
        self.limit = limit
        if limit is not None:
            limit.add(future)

    def wake(self) -> None:
        """End the wait."""
        if self.future is not None and not self.future.done():
            self.future.set_result(True)

    def fail(self, error: BaseException) -> None:
        """End the wait with an error."""
        if self.error is None:
            self.error = error
        self.wake()

    def _sent(self, task: asyncio.Future[None]) -> None:
        """The content has been written, or could not be."""
        if task.cancelled():
            return
        error = task.exception()
        link, exchange = self.link, self.exchange
        if error is None and self.on_step is not None and self.sent:
            self.on_step("sent", None)
        if error is None or link is None or exchange is None:
            return
        if exchange.watch(HEAD) and is_answered(error, self.request, exchange):
            if isinstance(error, WriteTimeout):
                self.stalled = error
            link.wake(exchange)
            return
        # The response may be waited for, or read: that ends too, with this error.
        if self.error is None:
            self.error = error
        exchange.cancel()
        link.wake(exchange)
        link.touch()

    async def stopped(self) -> None:
        """Wait until its content is not being sent any more."""
        sending = self.sending
        if sending is None or sending.done():
            return
        ended: asyncio.Future[bool] = self.pool.loop.create_future()

        def end(_: object) -> None:
            if not ended.done():
                ended.set_result(True)

        sending.add_done_callback(end)
        await ended
