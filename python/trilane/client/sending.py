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
from .request import Field, Request
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


def send(request: Request, how: Sending) -> Response:
    """The response, its content unread.

    Errors: every one of `errors`; exceptions of the content's own pass through.
    """
    attempts = 0
    while True:
        entry = how.pool.lease(how.route, how.limits)
        attempts += 1
        try:
            response = _send_on(entry, request, how)
        except Full:
            # Other threads took the last streams: queue up again, which is bounded by its timeout.
            attempts -= 1
            continue
        except Error as error:
            if entry.alternative is not None and isinstance(error, ConnectionClosed):
                how.pool.broken(entry)
            wait = pause(error, request.method, attempts, replayable=request.replayable)
            if wait is None:
                raise
            if wait:
                time.sleep(wait)
            continue
        if response.status == _MISDIRECTED and entry.alternative is not None:
            # RFC 9110 §15.5.20: not this server's business, so ask the origin itself.
            how.pool.misdirected(entry)
            if request.replayable:
                response.close()
                continue
        return response


def _send_on(entry: Entry[Connection], request: Request, how: Sending) -> Response:
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
    sent = True
    try:
        if streaming:
            sent = _upload(exchange, request, how.limits)
        if how.on_informational is not None:
            _tell(exchange, how.on_informational, how.limits.read)
        status = exchange.head(how.limits.read)
        fields_received = _learn(exchange, entry, how) if how.learns else None
    except BaseException:
        _end(how.pool, entry, exchange, sent=False)
        raise
    return Response(
        exchange,
        status,
        method=request.method,
        url=how.url,
        fields=fields_received,
        read_timeout=how.limits.read,
        decodes=how.decodes,
        decode_limit=how.max_decoded,
        release=functools.partial(_end, how.pool, entry, sent=sent),
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


__all__ = ["CONTINUE_S", "Field", "OnInformational", "Sending", "send"]
