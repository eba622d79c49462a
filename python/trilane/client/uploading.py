"""Sending the content of a request, block by block."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from trilane.client.errors import ReadTimeout, RemoteError

if TYPE_CHECKING:
    from trilane.client.outgoing import Request
    from trilane.client.response import Wait

_PATIENCE: Final = 1.0
"""Seconds to wait for 100 (Continue) before the content is sent without it; curl's choice."""


def upload(request: Request, wait: Wait) -> None:
    """Sends the content that the request brings with it, as far as the server wants it.

    A server that answers before it has all of it, or goes away, ends this without an error: the
    answer, or the error, is that of `get_response`.
    """
    exchange: Any = request.exchange
    content = request.content
    if content is None:
        return
    if request.expects and not _continues(exchange, wait):
        return
    blocks = ((content,) if content else ()) if isinstance(content, bytes) else content
    try:
        for block in blocks:
            if not exchange.upload_open:
                return
            exchange.write(block, wait.seconds)
        exchange.finish(request.trailers, wait.seconds)
    except RemoteError:
        return
    except BaseException:
        # An error of the caller's iterable, or Ctrl-C: what was sent is half a message.
        exchange.cancel()
        raise


def _continues(exchange: Any, wait: Wait) -> bool:
    """Whether the content is wanted (RFC 9110 §10.1.1): 100 came, or no answer at all.

    A server that answers 2xx without a 100 before it reads as it answers.
    """
    limit = _PATIENCE if wait.seconds is None else min(_PATIENCE, wait.seconds)
    deadline = time.monotonic() + limit
    try:
        while (left := deadline - time.monotonic()) > 0:
            status = exchange.wait_informational(left)
            if status is None:
                return 200 <= int(exchange.head(0)) <= 299
            if status == 100:
                return True
    except (ReadTimeout, TimeoutError):
        return True
    except RemoteError:
        return False
    return True


def conclude(request: Request, wait: Wait) -> None:
    """Ends content that was sent by `HTTPConnection.send` and whose end was not announced."""
    if request.streaming and request.content is None and request.exchange is not None:
        request.streaming = False
        if request.exchange.upload_open:
            try:
                request.exchange.finish(request.trailers, wait.seconds)
            except RemoteError:
                return
