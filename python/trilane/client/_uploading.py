"""Sending content from the thread whose request it is, for `Client` and `HTTPConnection`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from trilane.client._flow.timeouts import Timeouts
from trilane.client._flow.uploading import Outgoing, consent_until, wants_content
from trilane.client.errors import WriteTimeout


def upload(exchange: Any, request: Outgoing, limits: Timeouts) -> bool:
    """Send the content. False: the peer answered, or wants no more of it, before its end.

    `exchange` is one of `_core`, or has its methods; the limits are for each wait.

    Raises:
        WriteTimeout: the time for the whole request is over; also what the exchange raises.
    """
    return is_wanted(exchange, request, limits.read) and send_blocks(exchange, request, limits)


def send_blocks(
    exchange: Any,
    request: Outgoing,
    limits: Timeouts,
    ending: Callable[[], object] | None = None,
) -> bool:
    """Send content that is wanted, as `upload`; `ending` is called right before its end is sent."""
    counts = request.progress is not None
    if counts:
        request.count(0, request.total)
    for block in request.blocks():
        if not exchange.upload_open:
            return False
        if limits.is_over():
            raise WriteTimeout("the time for the whole request is over")
        exchange.write(block, limits.write)
        if counts:
            request.count(memoryview(block).nbytes, request.total)
    if not exchange.upload_open:
        return False
    if ending is not None:
        ending()
    exchange.finish(request.trailers, limits.write)
    return True


def is_wanted(exchange: Any, request: Outgoing, limit: float | None) -> bool:
    """Whether the server wants the content.

    Where the request `expects` to be told, the server says so, or nothing for a while.
    """
    if not request.expects:
        return True
    deadline = consent_until(time.monotonic(), limit)
    try:
        while (left := deadline - time.monotonic()) > 0:
            status = exchange.wait_informational(left)
            wanted = wants_content(exchange.head(0) if status is None else status)
            if wanted is not None:
                return wanted
    except TimeoutError:
        pass
    return True
