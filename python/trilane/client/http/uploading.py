"""Sending the content of a request, block by block."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from trilane.client.errors import RemoteError
from trilane.client.flow.uploading import consent_until, is_answered, wants_content

if TYPE_CHECKING:
    from trilane.client.http.outgoing import Request
    from trilane.client.http.response import Wait


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
    except BaseException as error:
        if is_answered(error, exchange):
            return
        # An error of the caller's iterable, or Ctrl-C: what was sent is half a message.
        exchange.cancel()
        raise


def _continues(exchange: Any, wait: Wait) -> bool:
    """Whether the server wants the content: it says so, or nothing for a while."""
    deadline = consent_until(time.monotonic(), wait.seconds)
    try:
        while (left := deadline - time.monotonic()) > 0:
            status = exchange.wait_informational(left)
            wanted = wants_content(exchange.head(0) if status is None else status)
            if wanted is not None:
                return wanted
    except TimeoutError:
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
