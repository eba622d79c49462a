"""One request, sent over a pool until it has a response or cannot have one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from trilane._core import Connection, Exchange

from .answer import Response
from .content import Block
from .early import Early
from .errors import (
    ConnectionClosed,
    Error,
    Full,
    InvalidRequest,
    PoolTimeout,
    ReadTimeout,
    RemoteError,
    WriteTimeout,
)
from .leasing import Pool
from .origins import Address, authority
from .request import Request
from .retry import MOST_ATTEMPTS, asks_elsewhere, misdirected, pause
from .routing import Entry, Route
from .timeouts import Timeouts
from .whole import Bounds

CONTINUE_S: Final = 1.0
"""How long content waits for `100 Continue`, as in curl: some servers never send it."""
_GRANT_S: Final = 0.005
"""How often a connection is looked at whose peer grants no stream."""

OnInformational: TypeAlias = Callable[[int, list[tuple[str, str]]], object]


class Sending(NamedTuple):
    """How one request is sent."""

    pool: Pool
    route: Route
    limits: Timeouts
    decodes: bool = True
    bounds: Bounds = Bounds()
    learns: bool = False
    """Whether `alt-svc` is wanted."""
    on_informational: OnInformational | None = None


class Call(NamedTuple):
    """One request to be sent."""

    request: Request
    address: Address
    how: Sending


class Sent:
    """A request on its way."""

    __slots__ = ("call", "complete", "entry", "exchange")

    def __init__(
        self, call: Call, entry: Entry[Connection], exchange: Exchange | Early, *, complete: bool
    ) -> None:
        self.call = call
        self.entry = entry
        self.exchange = exchange
        self.complete = complete
        """Whether all of its content was sent."""

    def end(self) -> None:
        """It is over, one way or the other: others can have the connection. To be called once."""
        exchange, entry = self.exchange, self.entry
        if entry.inherited:
            return
        complete = self.complete and exchange.complete
        if not complete:
            exchange.cancel()
        reusable = (complete or entry.shared) and not entry.connection.is_closing
        self.call.how.pool.give_back(entry, reusable=reusable)


def send(call: Call) -> Response:
    """The response, its content unread.

    Errors: every one of `errors`; exceptions of the content's own pass through.
    """
    return _persist(call, 0)


def begin(call: Call, *, wait: bool) -> Sent | None:
    """Send it, and leave the response for `finish`. None: it would have to `wait`, and may not."""
    how = call.how
    deadline = None
    unsent = 0
    while True:
        entry = how.pool.lease(how.route, how.limits, wait=wait)
        if entry is None:
            return None
        try:
            exchange = _submit(entry, call)
        except Full:
            # Other threads took the last streams, or the peer grants none yet.
            if not how.pool.full(entry):
                continue
            if deadline is None:
                limit = how.limits.pool
                deadline = math.inf if limit is None else time.monotonic() + limit
            if time.monotonic() > deadline:
                raise PoolTimeout(
                    f"{how.route.origin} granted no stream in {how.limits.pool} s"
                ) from None
            entry.connection.is_alive()  # It looks at the socket, where the grant may lie.
            time.sleep(_GRANT_S)
            continue
        except BaseException as error:
            how.pool.give_back(entry, reusable=not entry.connection.is_closing)
            # The connection ended before the request was on it: any method may have another.
            unsent += 1
            if isinstance(error, RemoteError) and error.retryable and unsent < MOST_ATTEMPTS:
                continue
            raise
        return _sent(call, entry, exchange)


def finish(sent: Sent) -> Response:
    """The response to what `begin` has sent, its content unread; errors as those of `send`."""
    try:
        response = _answer(sent)
    except Error as error:
        _try_again(error, sent, 1, sent.call.request)
        return _persist(sent.call, 1)
    return _persist(sent.call, 1) if _is_passed_over(response, sent, 1) else response


def _persist(call: Call, attempts: int) -> Response:
    """Send until there is a response, or an error that stays; it was sent `attempts` times."""
    while True:
        attempts += 1
        sent = None
        try:
            sent = begin(call, wait=True)
            assert sent is not None  # noqa: S101 - it may wait
            response = _answer(sent)
        except Error as error:
            _try_again(error, sent, attempts, call.request)
            continue
        if not _is_passed_over(response, sent, attempts):
            return response


def _try_again(error: Error, sent: Sent | None, attempts: int, request: Request) -> None:
    """Return when the request may be sent again; else raise the error."""
    if sent is not None and isinstance(error, ConnectionClosed):
        sent.call.how.pool.broken(sent.entry)
    wait = pause(error, request.method, attempts, replayable=request.replayable)
    if wait is None:
        raise error
    if wait:
        time.sleep(wait)


def _is_passed_over(response: Response, sent: Sent, attempts: int) -> bool:
    """Whether an alternative says that it is none: the origin itself has to be asked."""
    if not misdirected(response.status, alternative=sent.entry.alternative is not None):
        return False
    sent.call.how.pool.misdirected(sent.entry)
    if not asks_elsewhere(attempts, replayable=sent.call.request.replayable):
        return False
    response.close()
    return True


def _submit(entry: Entry[Connection], call: Call) -> Exchange:
    request, _, how = call
    streaming = request.is_streaming
    fields = request.fields
    alternative = entry.alternative
    if alternative is not None and (alternative.host, alternative.port) != how.route.origin[1:]:
        # RFC 7838 §5.
        place = authority(alternative.host, alternative.port, 443)
        fields = [*fields, ("alt-used", place)]
    return entry.connection.submit(
        request.method,
        request.target,
        fields,
        None if streaming else request.body,
        authority=request.authority,
        streaming=streaming,
        length=request.length,
    )


def _sent(call: Call, entry: Entry[Connection], exchange: Exchange) -> Sent:
    """Send the content that follows."""
    request = call.request
    streaming = request.is_streaming
    sent = Sent(call, entry, exchange, complete=not streaming)
    if streaming:
        early = Early(exchange, call.address.url, call.how.bounds.whole)
        try:
            sent.complete = _upload(early, request, call.how.limits)
        except BaseException:
            sent.end()
            raise
        if early.holds:
            sent.exchange = early
    return sent


def _answer(sent: Sent) -> Response:
    how, exchange = sent.call.how, sent.exchange
    try:
        if how.on_informational is not None:
            _tell(exchange, how.on_informational, how.limits.read)
        status = exchange.head(how.limits.read)
        fields = _learn(exchange, sent.entry, how) if how.learns else None
    except BaseException:
        sent.end()
        raise
    return Response(sent, status, fields)


def _upload(exchange: Early, request: Request, limits: Timeouts) -> bool:
    """Send the content. False: the peer answered, or stopped taking it, before its end."""
    if request.expects and not _is_wanted(exchange):
        return False
    try:
        if request.upload is not None:
            left = request.announced
            for block in request.upload.blocks():
                if not exchange.upload_open:
                    return False
                left = _rest(left, block)
                exchange.write(block, limits.write)
            if left:
                raise InvalidRequest(
                    f"the content is {left} bytes shorter than its content-length: send all of it"
                )
        if not exchange.upload_open:
            return False
        exchange.finish(request.trailers, limits.write)
    except (RemoteError, WriteTimeout) as error:
        if exchange.is_over:
            raise
        # A server may answer, 413 perhaps, and then close or take no more: that is the response.
        with suppress(Error):
            exchange.head(0)
            return False
        raise error from None
    return True


def _rest(left: int | None, block: Block) -> int | None:
    """How much may follow the block; more would be read as the next request."""
    if left is None:
        return None
    rest = left - memoryview(block).nbytes
    if rest < 0:
        raise InvalidRequest(
            f"the content is {-rest} bytes or more longer than its content-length: send no more"
        )
    return rest


def _is_wanted(exchange: Early) -> bool:
    """Whether the server wants the content (RFC 9110 §10.1.1)."""
    deadline = time.monotonic() + CONTINUE_S
    try:
        while (left := deadline - time.monotonic()) > 0:
            status = exchange.wait_informational(left)
            if status is None:
                return False  # The final response is there.
            if status == 100:
                return True
    except ReadTimeout:
        pass
    return True


def _tell(exchange: Exchange | Early, told: OnInformational, timeout: float | None) -> None:
    known = 0
    while True:
        more = exchange.wait_informational(timeout)
        responses = exchange.informational
        for status, fields in responses[known:]:
            told(status, fields)
        known = len(responses)
        if more is None:
            return


def _learn(
    exchange: Exchange | Early, entry: Entry[Connection], how: Sending
) -> list[tuple[str, str]]:
    """The response's fields; `alt-svc` among them is remembered (RFC 7838 §3)."""
    fields = exchange.fields()
    values = [value for name, value in fields if len(name) == 7 and name.lower() == "alt-svc"]
    if values:
        ages = [value for name, value in fields if name.lower() == "age" and value.isdecimal()]
        how.pool.learn(entry.route.origin, ", ".join(values), float(ages[0][:10]) if ages else 0.0)
    return fields
