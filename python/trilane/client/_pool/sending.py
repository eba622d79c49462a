"""One request, sent over a pool until it has a response or cannot have one."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Final

from trilane._core import Connection, Exchange
from trilane.client._early import Early
from trilane.client._flow.altsvc import learn
from trilane.client._flow.preparing import How, OnInformational, Prepared
from trilane.client._flow.repeating import failed, passes_over
from trilane.client._flow.request import Request
from trilane.client._flow.routes import Entry
from trilane.client._flow.timeouts import pool_timeout, response_timeout, write_timeout
from trilane.client._flow.uploading import is_answered
from trilane.client._pool.leasing import Pool
from trilane.client._pool.response import Response
from trilane.client._pool.uploading import Uploading
from trilane.client._uploading import is_wanted, upload
from trilane.client.errors import Error, Full, ReadTimeout, WriteTimeout

_GRANT_S: Final = 0.005
"""How often a connection is looked at whose peer grants no stream."""


@dataclass(slots=True, eq=False, repr=False)
class Sent:
    """A request on its way."""

    pool: Pool
    prepared: Prepared
    entry: Entry[Connection]
    exchange: Exchange | Early
    attempts: int
    """How often it was tried, this time counted."""
    complete: bool
    """Whether all of its content was sent."""
    stalled: WriteTimeout | None = None
    """Why the rest of its content was not sent though the response had begun."""
    duplex: bool = False
    """Whether its content is sent while the response is read."""
    uploading: Uploading | None = None
    """What sends it then."""

    @property
    def is_sending(self) -> bool:
        """Whether its content is still being sent."""
        return self.uploading is not None and self.uploading.is_sending

    def failure(self, error: BaseException) -> BaseException | None:
        """Why its content could not be sent, where the exchange's `error` followed from it."""
        uploading = self.uploading
        if uploading is None or not isinstance(error, Error):
            return None
        cause = uploading.error
        if isinstance(cause, WriteTimeout) and cause is not self.prepared.request.raised:
            return _stalled(self.prepared, cause)
        return cause

    def why_stalled(self) -> WriteTimeout | None:
        """Why the rest of its content was not sent though the response had begun."""
        uploading = self.uploading
        if uploading is None or uploading.stalled is None:
            return self.stalled
        return _stalled(self.prepared, uploading.stalled)

    def end(self, *, repeats: bool = False) -> None:
        """Give the connection back: the request is over, in whatever way. To be called once.

        `repeats`: whether it may be sent again.
        """
        exchange, entry, uploading = self.exchange, self.entry, self.uploading
        if entry.inherited:
            return
        complete = self.complete if uploading is None else uploading.complete
        complete = complete and exchange.complete
        if not complete:
            exchange.cancel()
            if uploading is not None:
                uploading.stop(repeats=repeats and self.prepared.request.replayable)
        self.pool.give_back(entry, reusable=entry.is_reusable(complete=complete))


def send(pool: Pool, prepared: Prepared, *, duplex: bool = False) -> Response:
    """The response, its content unread.

    duplex: whether content that follows the head is sent by a thread of its own, so that it goes on
        while the response is read.

    Raises:
        Error: any of `errors`; exceptions of the content's own pass through.
    """
    sent = begin(pool, prepared, wait=True, duplex=duplex)
    assert sent is not None  # noqa: S101 - it may wait
    return finish(sent)


def begin(
    pool: Pool, prepared: Prepared, *, wait: bool, attempts: int = 0, duplex: bool = False
) -> Sent | None:
    """Send it, and leave the response for `finish`. None: it would have to `wait`, and may not.

    `attempts` is how often it was tried before; errors and `duplex` are those of `send`.
    """
    request, _, how = prepared
    deadline = None
    while True:
        entry = pool.lease(how.route, how.limits, wait=wait)
        if entry is None:
            return None
        sent = None
        try:
            exchange = request.submit(entry.connection, entry.alt_used)
            complete = not request.is_streaming
            sent = Sent(pool, prepared, entry, exchange, attempts + 1, complete)
            if not complete:
                sent.duplex = duplex
                _send_content(sent, exchange)
        except BaseException as error:
            if sent is None and isinstance(error, Full):
                deadline = _leave_a_moment(pool, how, entry, deadline)
                continue
            attempts += 1
            if sent is None:
                pool.give_back(entry, reusable=not entry.connection.is_closing)
            else:
                sent.end()
            if not _again(pool, entry, error, request, attempts, sent=sent is not None):
                raise
        else:
            return sent


def finish(sent: Sent) -> Response:
    """The response to what `begin` has sent, its content unread; errors as those of `send`."""
    pool, request = sent.pool, sent.prepared.request
    while True:
        try:
            response = _answer(sent)
        except Error as error:
            if not _again(pool, sent.entry, error, request, sent.attempts, sent=True):
                raise
        else:
            if not passes_over(pool, sent.entry, response.status, request, sent.attempts):
                return response
            response.close()
        following = begin(
            pool, sent.prepared, wait=True, attempts=sent.attempts, duplex=sent.duplex
        )
        assert following is not None  # noqa: S101 - it may wait
        sent = following


def _leave_a_moment(
    pool: Pool, how: How, entry: Entry[Connection], deadline: float | None
) -> float | None:
    """Return when a connection that took no request may be asked again; until when that goes on."""
    # Other threads took the last streams, or the peer grants none yet.
    if not pool.full(entry):
        return deadline
    now = time.monotonic()
    if deadline is None:
        limit = how.limits.pool
        deadline = math.inf if limit is None else now + limit
    if now > deadline:
        raise pool_timeout(str(how.route.origin), how.limits.pool) from None
    entry.connection.is_alive()  # It looks at the socket, where the grant may lie.
    time.sleep(_GRANT_S)
    return deadline


def _again(
    pool: Pool,
    entry: Entry[Connection],
    error: BaseException,
    request: Request,
    attempts: int,
    *,
    sent: bool,
) -> bool:
    """Whether the request is sent again, after a pause where one is due."""
    wait = failed(pool, entry, error, request, attempts, sent=sent)
    if wait:
        time.sleep(wait)
    return wait is not None


def _send_content(sent: Sent, exchange: Exchange) -> None:
    """Send the content that follows the head."""
    request, address, how = sent.prepared
    if sent.duplex:
        if is_wanted(exchange, request, how.limits.read):
            sent.uploading = Uploading(exchange, request, how.limits.write)
        return
    early = Early(exchange, address.url, how.bounds.whole)
    try:
        sent.complete = upload(early, request, how.limits.read, how.limits.write)
    except Error as error:
        answered = not early.is_over and is_answered(error, request, exchange)
        if isinstance(error, WriteTimeout) and error is not request.raised:
            stalled = _stalled(sent.prepared, error)
            if not answered:
                raise stalled from None
            sent.stalled = stalled
        elif not answered:
            raise
    sent.exchange = early.settled


def _answer(sent: Sent) -> Response:
    how, exchange = sent.prepared.how, sent.exchange
    try:
        if how.on_informational is not None:
            _tell(sent, how.on_informational)
        status = _status(sent)
        fields = None
        if how.learns:
            fields = exchange.fields()
            learn(sent.pool, how.route.origin, fields)
    except BaseException as error:
        failure = sent.failure(error)
        sent.end(repeats=True)
        if failure is not None:
            raise failure from None
        raise
    return Response(sent, status, fields)


def _status(sent: Sent) -> int:
    """Wait for the head of the response."""
    while True:
        try:
            return sent.exchange.head(sent.prepared.how.limits.read)
        except ReadTimeout:
            # While content of the request is on its way, the limit of writing counts.
            if not sent.is_sending:
                raise _late(sent) from None


def _stalled(prepared: Prepared, error: WriteTimeout) -> WriteTimeout:
    """The error for content of which the server took no more, in the words of a client."""
    request, _, how = prepared
    origin, limit = str(how.route.origin), how.limits.write
    return write_timeout(origin, request.method, limit, error.stream_id)


def _late(sent: Sent) -> ReadTimeout:
    request, _, how = sent.prepared
    origin, limit = str(how.route.origin), how.limits.read
    return response_timeout(origin, request.method, limit, sent.exchange.stream_id)


def _tell(sent: Sent, told: OnInformational) -> None:
    exchange, limit = sent.exchange, sent.prepared.how.limits.read
    known = 0
    while True:
        try:
            more = exchange.wait_informational(limit)
        except ReadTimeout:
            if sent.is_sending:
                continue
            raise _late(sent) from None
        responses = exchange.informational
        with sent.prepared.request.callers_own():
            for status, fields in responses[known:]:
                told(status, fields)
        known = len(responses)
        if more is None:
            return
