"""Sending content from the thread whose request it is, for `Client` and `HTTPConnection`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from trilane.client._flow.uploading import Outgoing, consent_until, wants_content


def upload(exchange: Any, request: Outgoing, read_s: float | None, write_s: float | None) -> bool:
    """Send the content. False: the peer answered, or wants no more of it, before its end.

    `exchange` is one of `_core`, or has its methods; the limits are for each wait.
    """
    return is_wanted(exchange, request, read_s) and send_blocks(exchange, request, write_s)


def send_blocks(
    exchange: Any,
    request: Outgoing,
    write_s: float | None,
    ending: Callable[[], object] | None = None,
) -> bool:
    """Send content that is wanted, as `upload`; `ending` is called right before its end is sent."""
    for block in request.blocks():
        if not exchange.upload_open:
            return False
        exchange.write(block, write_s)
    if not exchange.upload_open:
        return False
    if ending is not None:
        ending()
    exchange.finish(request.trailers, write_s)
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
