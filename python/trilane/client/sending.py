"""One request, sent over a pool until it has a response or cannot have one."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from trilane._core import Connection, Exchange

from . import origins
from .answer import Response
from .content import Block
from .errors import (
    ConnectionClosed,
    Error,
    Full,
    InvalidRequest,
    ReadTimeout,
    RemoteError,
    WriteTimeout,
)
from .leasing import Pool
from .request import Request
from .retry import pause
from .routing import Entry, Route
from .timeouts import Timeouts

CONTINUE_S: Final = 1.0
"""How long content waits for `100 Continue`, as in curl: some servers never send it."""
_MISDIRECTED: Final = 421

OnInformational: TypeAlias = Callable[[int, list[tuple[str, str]]], object]


class Sending(NamedTuple):
    """How one request is sent."""

    pool: Pool
    route: Route
    url: str
    limits: Timeouts
    decodes: bool = False
    max_decoded: int | None = None
    learns: bool = False
    """Whether `alt-svc` is wanted."""
    on_informational: OnInformational | None = None


class Sent(NamedTuple):
    """A request on its way."""

    request: Request
    how: Sending
    entry: Entry[Connection]
    exchange: Exchange
    complete: bool
    """Whether all of its content was sent."""


def send(request: Request, how: Sending) -> Response:
    """The response, its content unread.

    Errors: every one of `errors`; exceptions of the content's own pass through.
    """
    return _persist(request, how, 0)


def begin(request: Request, how: Sending, *, wait: bool) -> Sent | None:
    """Send it, and leave the response for `finish`. None: it would have to `wait`, and may not."""
    while True:
        entry = how.pool.lease(how.route, how.limits, wait=wait)
        if entry is None:
            return None
        try:
            return _submit(entry, request, how)
        except Full:
            # Other threads took the last streams: queue up again, which is bounded by its timeout.
            continue


def finish(sent: Sent) -> Response:
    """The response to what `begin` has sent, its content unread; errors as those of `send`."""
    try:
        response = _answer(sent)
    except Error as error:
        _try_again(error, sent, 1, sent.request)
        return _persist(sent.request, sent.how, 1)
    return _persist(sent.request, sent.how, 1) if _is_misdirected(response, sent) else response


def abandon(sent: Sent) -> None:
    """Nobody wants the response."""
    _end(sent.how.pool, sent.entry, sent.exchange, sent=False)


def _persist(request: Request, how: Sending, attempts: int) -> Response:
    """Send until there is a response, or an error that stays; it was sent `attempts` times."""
    while True:
        attempts += 1
        sent = None
        try:
            sent = begin(request, how, wait=True)
            assert sent is not None  # noqa: S101 - it may wait
            response = _answer(sent)
        except Error as error:
            _try_again(error, sent, attempts, request)
            continue
        if not _is_misdirected(response, sent):
            return response


def _try_again(error: Error, sent: Sent | None, attempts: int, request: Request) -> None:
    """Return when the request may be sent again; else raise the error."""
    if sent is not None and isinstance(error, ConnectionClosed):
        sent.how.pool.broken(sent.entry)
    wait = pause(error, request.method, attempts, replayable=request.replayable)
    if wait is None:
        raise error
    if wait:
        time.sleep(wait)


def _is_misdirected(response: Response, sent: Sent) -> bool:
    """Whether an alternative says that it is none: the origin itself has to be asked."""
    if response.status != _MISDIRECTED or sent.entry.alternative is None:
        return False
    # RFC 9110 §15.5.20.
    sent.how.pool.misdirected(sent.entry)
    if not sent.request.replayable:
        return False
    response.close()
    return True


def _submit(entry: Entry[Connection], request: Request, how: Sending) -> Sent:
    connection = entry.connection
    streaming = request.upload is not None or bool(request.trailers)
    fields = request.fields
    alternative = entry.alternative
    if alternative is not None and (alternative.host, alternative.port) != how.route.origin[1:]:
        # RFC 7838 §5.
        place = origins.authority(alternative.host, alternative.port, 443)
        fields = [*fields, ("alt-used", place)]
    try:
        exchange = connection.submit(
            request.method,
            request.target,
            fields,
            None if streaming else request.body,
            authority=request.authority,
            streaming=streaming,
            length=request.length,
        )
    except BaseException:
        how.pool.give_back(entry, reusable=not connection.is_closing)
        raise
    complete = True
    if streaming:
        try:
            complete = _upload(exchange, request, how.limits)
        except BaseException:
            _end(how.pool, entry, exchange, sent=False)
            raise
    return Sent(request, how, entry, exchange, complete)


def _answer(sent: Sent) -> Response:
    request, how, entry, exchange, complete = sent
    try:
        if how.on_informational is not None:
            _tell(exchange, how.on_informational, how.limits.read)
        status = exchange.head(how.limits.read)
        fields = _learn(exchange, entry, how) if how.learns else None
    except BaseException:
        _end(how.pool, entry, exchange, sent=False)
        raise
    return Response(
        exchange,
        status,
        method=request.method,
        url=how.url,
        fields=fields,
        read_timeout=how.limits.read,
        decodes=how.decodes,
        decode_limit=how.max_decoded,
        release=functools.partial(_end, how.pool, entry, sent=complete),
    )


def _end(pool: Pool, entry: Entry[Connection], exchange: Exchange, *, sent: bool) -> None:
    """The exchange is over, one way or the other; `sent`: the request's content is, all of it."""
    complete = exchange.complete and sent
    if not complete:
        exchange.cancel()
    pool.give_back(entry, reusable=(complete or entry.shared) and not entry.connection.is_closing)


def _upload(exchange: Exchange, request: Request, limits: Timeouts) -> bool:
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


def _is_wanted(exchange: Exchange) -> bool:
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


def _tell(exchange: Exchange, told: OnInformational, timeout: float | None) -> None:
    known = 0
    while True:
        more = exchange.wait_informational(timeout)
        responses = exchange.informational
        for status, fields in responses[known:]:
            told(status, fields)
        known = len(responses)
        if more is None:
            return


def _learn(exchange: Exchange, entry: Entry[Connection], how: Sending) -> list[tuple[str, str]]:
    """The response's fields; `alt-svc` among them is remembered (RFC 7838 §3)."""
    fields = exchange.fields()
    values = [value for name, value in fields if len(name) == 7 and name.lower() == "alt-svc"]
    if values:
        ages = [value for name, value in fields if name.lower() == "age" and value.isdecimal()]
        how.pool.learn(entry.route.origin, ", ".join(values), float(ages[0][:10]) if ages else 0.0)
    return fields


__all__ = ["CONTINUE_S", "OnInformational", "Sending", "Sent", "abandon", "begin", "finish", "send"]
