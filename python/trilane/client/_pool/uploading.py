"""Content of a request that a thread of its own sends while the response is read."""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING, Final

from trilane.client._flow.uploading import is_answered
from trilane.client._uploading import send_blocks
from trilane.client.errors import Error, WriteTimeout

if TYPE_CHECKING:
    from trilane._core import Exchange
    from trilane.client._flow.request import Request
    from trilane.client._flow.timeouts import Timeouts

_JOIN_S: Final = 1.0
"""How long a thread that reads a file is waited for: the file may be a pipe."""


class Uploading:
    """The content of one request on its way."""

    __slots__ = ("_ended", "_request", "_thread", "error", "stalled")

    def __init__(self, exchange: Exchange, request: Request, limits: Timeouts) -> None:
        """Begin; the limits are for each wait for the server."""
        self.stalled: WriteTimeout | None = None
        """Why the rest of it was not sent though the response had begun."""
        self.error: BaseException | None = None
        """What ended the request: the content's own exception, or why it could not be sent."""
        self._request = request
        # Has something once its end was sent.
        self._ended: list[bool] = []
        # The content runs in the context of the one who sends it, as it would in its thread.
        run = contextvars.copy_context().run
        self._thread = threading.Thread(
            target=run,
            args=(_send, self, self._ended, exchange, request, limits),
            daemon=True,
            name="trilane-upload",
        )
        self._thread.start()

    @property
    def complete(self) -> bool:
        """Whether all of it was sent."""
        return bool(self._ended) and self.error is None and self.stalled is None

    @property
    def is_sending(self) -> bool:
        """Whether it is still being sent."""
        return self._thread.is_alive()

    def stop(self, *, repeats: bool = False) -> None:
        """See its end, after the exchange has ended or was cancelled.

        A file may be used again by its owner: what reads it is waited for, to its end where the
        request `repeats`. An iterable is not, as it may itself wait for its owner.
        """
        upload = self._request.upload
        if repeats:
            self._thread.join()
        elif upload is not None and upload.is_file:
            self._thread.join(_JOIN_S)


def _send(
    uploading: Uploading,
    ended: list[bool],
    exchange: Exchange,
    request: Request,
    limits: Timeouts,
) -> None:
    try:
        # Before its end is sent: the response to it may be read before that call returns.
        send_blocks(exchange, request, limits, lambda: ended.append(True))
    except BaseException as error:  # noqa: BLE001 - the thread that reads raises it
        if isinstance(error, Error) and is_answered(error, request, exchange):
            if isinstance(error, WriteTimeout):
                uploading.stalled = error
            return
        uploading.error = error
        # Whoever waits for the response is woken, and finds the error.
        exchange.cancel()
    finally:
        # The error holds this frame, and would be held by it: the content is let go of with them.
        del uploading
