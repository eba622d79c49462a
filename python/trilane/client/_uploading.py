"""Sending content from the thread whose request it is, for `Client` and `HTTPConnection`."""

from __future__ import annotations

import time
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
    if request.expects and not _is_wanted(exchange, limits.read):
        return False
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
    exchange.finish(request.trailers, limits.write)
    return True


def _is_wanted(exchange: Any, limit: float | None) -> bool:
    """Whether the server wants the content: it says so, or nothing for a while."""
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
