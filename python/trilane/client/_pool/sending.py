"""One request, sent over a pool until it has a response or cannot have one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Coroutine, Sequence
from sys import is_finalizing
from threading import get_ident
from typing import Final

from trilane._core import Connection, Exchange
from trilane.client._early import Early
from trilane.client._flow import log
from trilane.client._flow.altsvc import learn
from trilane.client._flow.preparing import How, OnInformational, OnStep, Prepared
from trilane.client._flow.repeating import failed, passes_over
from trilane.client._flow.request import Request
from trilane.client._flow.routes import Entry
from trilane.client._flow.timeouts import pool_timeout, response_timeout, write_timeout
from trilane.client._flow.uploading import is_answered
from trilane.client._flow.watching import Hook, Watch, Watched
from trilane.client._pool.leasing import Lease, Pool
from trilane.client._pool.response import Response
from trilane.client._pool.uploading import Uploading
from trilane.client._uploading import is_wanted, upload
from trilane.client.errors import Error, Full, ReadTimeout, WriteTimeout

_GRANT_S: Final = 0.005
"""How often a connection is looked at whose peer grants no stream."""


class _Cancels:
    """Cancels an exchange when nobody reads it any more: the thread that sends has it too."""

    __slots__ = ("_exchange",)

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def __del__(self, is_finalizing: Callable[[], bool] = is_finalizing) -> None:
        # A daemon thread ends where it stands when the interpreter does, with the locks that it
        # holds: a thread that takes one then waits forever.
        if not is_finalizing():
            self._exchange.cancel()


class Sent:
    """A request on its way.

    What most requests leave as it is stands in the class, and costs none of them anything.
    """

    stalled: WriteTimeout | None = None
    """Why the rest of its content was not sent though the response had begun."""
    duplex = False
    """Whether its content is sent while the response is read."""
    uploading: Uploading | None = None
    """What sends it then."""
    _cancels: _Cancels | None = None

    def __init__(
        self,
        pool: Pool,
        prepared: Prepared,
        lease: Lease,
        exchange: Exchange | Early,
        attempts: int,
        began: float,
    ) -> None:
        self.pool = pool
        self.prepared = prepared
        self.lease = lease
        self.entry = lease.entry
        self.exchange = exchange
        self.attempts = attempts
        """How often it was tried, this time counted."""
        self.began = began
        """When its call began."""
        self.complete = not prepared.request.is_streaming
        """Whether all of its content was sent."""

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
        self.pool.give_back(self.lease, reusable=entry.is_reusable(complete=complete))


def send(pool: Pool, prepared: Prepared, *, duplex: bool = False) -> Response:
    """The response, its content unread.

    duplex: whether content that follows the head is sent by a thread of its own, so that it goes on
        while the response is read.

    Raises:
        Error: any of `errors`; exceptions of the content's own pass through.
    """
    if prepared.how.watch is not None:
        prepared, watched = watch(prepared, prepared.how.watch)
        sent = begin_watched(pool, prepared, watched, wait=True, duplex=duplex)
    else:
        sent = begin(pool, prepared, wait=True, duplex=duplex, began=time.monotonic())
    assert sent is not None  # noqa: S101 - it may wait
    return finish(sent)


def watch(prepared: Prepared, wanted: Watch) -> tuple[Prepared, Watched]:
    """The request as it is watched, once its hooks have been called; errors are theirs."""
    prepared, watched = wanted.over(prepared)
    with watched:
        _call(wanted.on_request, watched.request)
        watched.begin()
    return prepared, watched


def begin_watched(
    pool: Pool, prepared: Prepared, watched: Watched, *, wait: bool, duplex: bool = False
) -> Sent | None:
    """`begin`, seen by those who watch."""
    with watched:
        return begin(pool, prepared, wait=wait, duplex=duplex, began=time.monotonic())


def begin(  # noqa: C901 - one attempt after another
    pool: Pool,
    prepared: Prepared,
    *,
    wait: bool,
    duplex: bool = False,
    began: float,
    attempts: int = 0,
) -> Sent | None:
    """Send it, and leave the response for `finish`. None: it would have to `wait`, and may not.

    `attempts` is how often it was tried before, and `began` when its call did; errors and
    `duplex` are those of `send`.
    """
    request, _, how = prepared
    watched, timed = how.watched, False
    deadline, on_step = None, how.on_step
    while True:
        lease = pool.lease(how.route, how.limits, wait=wait, on_step=on_step)
        if lease is None:
            return None
        entry = lease.entry
        sent = None
        try:
            if watched is not None:
                timed = watched.timed
                opened = entry.opener == get_ident()
                watched.submitting(entry.facts if opened else None)
                entry.opener = 0
            exchange = request.submit(entry.connection, entry.alt_used, timed=timed)
            sent = Sent(pool, prepared, lease, exchange, attempts + 1, began)
            if duplex:
                sent.duplex = True
            if on_step is not None:
                _step_by_step(sent, exchange, on_step)
            elif not sent.complete:
                _send_content(sent, exchange)
        except BaseException as error:
            if sent is None and isinstance(error, Full):
                deadline = _leave_a_moment(pool, how, lease, deadline)
                continue
            attempts += 1
            if sent is None:
                pool.give_back(lease, reusable=not entry.connection.is_closing)
            else:
                sent.end()
            if not _again(pool, how, entry, error, request, attempts, sent=sent is not None):
                raise
        else:
            return sent


def finish(sent: Sent) -> Response:
    """The response to what `begin` has sent, its content unread, with the time that it took.

    Errors are those of `send`.
    """
    watched = sent.prepared.how.watched
    if watched is None:
        return _finish(sent)
    with watched:
        response = _finish(sent)
        try:
            watched.answered(response)
            _call(watched.watch.on_response, response)
        except BaseException:
            response.close()
            raise
        return response


def _call(hooks: Sequence[Hook], argument: object) -> None:
    for hook in hooks:
        given = hook(argument)
        if isinstance(given, Coroutine):
            given.close()
            raise TypeError(f"the hook {hook!r} is a coroutine function: AsyncClient awaits such")


def _finish(sent: Sent) -> Response:
    pool, request = sent.pool, sent.prepared.request
    while True:
        try:
            status = _status(sent)
        except Error as error:
            how = sent.prepared.how
            if not _again(pool, how, sent.entry, error, request, sent.attempts, sent=True):
                raise
        else:
            response = Response(sent, status)
            if not passes_over(pool, sent.entry, status, request, sent.attempts):
                response.took = time.monotonic() - sent.began
                return response
            log.again(request, sent.entry, None, sent.attempts)
            response.close()
        following = begin(
            pool,
            sent.prepared,
            wait=True,
            duplex=sent.duplex,
            began=sent.began,
            attempts=sent.attempts,
        )
        assert following is not None  # noqa: S101 - it may wait
        sent = following


def _leave_a_moment(pool: Pool, how: How, lease: Lease, deadline: float | None) -> float | None:
    """Return when a connection that took no request may be asked again; until when that goes on."""
    # Other threads took the last streams, or the peer grants none yet.
    if not pool.full(lease):
        return deadline
    now = time.monotonic()
    if deadline is None:
        limit = how.limits.pool
        deadline = math.inf if limit is None else now + limit
    if now > deadline:
        raise pool_timeout(str(how.route.origin), how.limits.pool) from None
    lease.entry.connection.is_alive()  # It looks at the socket, where the grant may lie.
    time.sleep(_GRANT_S)
    return deadline


def _again(
    pool: Pool,
    how: How,
    entry: Entry[Connection],
    error: BaseException,
    request: Request,
    attempts: int,
    *,
    sent: bool,
) -> bool:
    """Whether the request is sent again, after a pause where one is due."""
    if how.on_step is not None:
        how.on_step("failed", error)
    wait = failed(pool, entry, error, request, attempts, sent=sent)
    if wait is None:
        return False
    log.again(request, entry, error, attempts)
    if wait:
        time.sleep(wait)
    return True


def _step_by_step(sent: Sent, exchange: Exchange, on_step: OnStep) -> None:
    """Send the content that follows the head, if any, and tell of it."""
    on_step("submitted", sent.entry.connection)
    if not sent.complete:
        _send_content(sent, exchange)
    on_step("sent", None)


def _send_content(sent: Sent, exchange: Exchange) -> None:
    """Send the content that follows the head."""
    request, address, how = sent.prepared
    if sent.duplex:
        if is_wanted(exchange, request, how.limits.read):
            sent.uploading = Uploading(exchange, request, how.limits)
            sent._cancels = _Cancels(exchange)  # noqa: SLF001 - of this module
        return
    early = Early(exchange, address.url, how.bounds.whole)
    try:
        sent.complete = upload(early, request, how.limits)
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


def _status(sent: Sent) -> int:
    """Wait for the head of the response, and take in what its connection is told there."""
    how, exchange = sent.prepared.how, sent.exchange
    try:
        if how.on_informational is not None:
            _tell(sent, how.on_informational)
        try:
            status = exchange.head(how.limits.read)
        except ReadTimeout:
            status = _late_status(sent)
        if how.learns and exchange.has("alt-svc"):
            learn(sent.pool, how.route.origin, exchange.fields())
    except BaseException as error:
        failure = sent.failure(error)
        sent.end(repeats=True)
        if failure is not None:
            raise failure from None
        raise
    return status


def _late_status(sent: Sent) -> int:
    """Wait on for the head of a response that did not come in time, where one may."""
    limits = sent.prepared.how.limits
    # While content of the request is on its way, the limit of writing counts.
    while sent.is_sending and not limits.is_over():
        try:
            return sent.exchange.head(limits.read)
        except ReadTimeout:
            pass
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
    exchange, limits = sent.exchange, sent.prepared.how.limits
    known = 0
    while True:
        try:
            more = exchange.wait_informational(limits.read)
        except ReadTimeout:
            if sent.is_sending and not limits.is_over():
                continue
            raise _late(sent) from None
        responses = exchange.informational
        with sent.prepared.request.callers_own():
            for status, fields in responses[known:]:
                told(status, fields)
        known = len(responses)
        if more is None:
            return
