"""Sending the content of a request, whose end `get_response` tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilane.client._flow.uploading import is_answered
from trilane.client._uploading import upload as send_content
from trilane.client.errors import RemoteError

if TYPE_CHECKING:
    from trilane.client.http._content import Wait
    from trilane.client.http._outgoing import Request


def upload(request: Request, wait: Wait) -> None:
    """Sends the content that the request brings with it, as far as the server wants it.

    A server that answers before it has all of it, or goes away, ends this without an error: the
    answer, or the error, is that of `get_response`.
    """
    exchange: Any = request.exchange
    if request.content is None:
        return
    try:
        send_content(exchange, request, wait.seconds, wait.seconds)
    except BaseException as error:
        own = error is request.raised or exchange.is_over
        if not own and (isinstance(error, RemoteError) or is_answered(error, request, exchange)):
            return
        # An error of the caller's iterable, or Ctrl-C: what was sent is half a message.
        exchange.cancel()
        raise


def conclude(request: Request, wait: Wait) -> None:
    """Ends content that was sent by `HTTPConnection.send` and whose end was not announced."""
    if request.streaming and request.content is None and request.exchange is not None:
        request.streaming = False
        if request.exchange.upload_open:
            try:
                request.exchange.finish(request.trailers, wait.seconds)
            except RemoteError:
                return
