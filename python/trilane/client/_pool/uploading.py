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

_JOIN_S: Final = 1.0
"""How long a thread that reads a file is waited for: the file may be a pipe."""


class Uploading:
    """The content of one request on its way."""

    __slots__ = ("_exchange", "_limit", "_request", "_thread", "complete", "error", "stalled")

    def __init__(self, exchange: Exchange, request: Request, limit: float | None) -> None:
        """Begin; `limit` is how many seconds each wait for the server may last."""
        self.complete = False
        """Whether all of it was sent."""
        self.stalled: WriteTimeout | None = None
        """Why the rest of it was not sent though the response had begun."""
        self.error: BaseException | None = None
        """What ended the request: the content's own exception, or why it could not be sent."""
        self._exchange = exchange
        self._request = request
        self._limit = limit
        # The content runs in the context of the one who sends it, as it would in its thread.
        run = contextvars.copy_context().run
        self._thread = threading.Thread(
            target=run, args=(self._send,), daemon=True, name="trilane-upload"
        )
        self._thread.start()

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

    def _send(self) -> None:
        exchange, request = self._exchange, self._request
        try:
            send_blocks(exchange, request, self._limit, self._ending)
        except BaseException as error:  # noqa: BLE001 - the thread that reads raises it
            self.complete = False
            if isinstance(error, Error) and is_answered(error, request, exchange):
                if isinstance(error, WriteTimeout):
                    self.stalled = error
                return
            self.error = error
            # Whoever waits for the response is woken, and finds the error.
            exchange.cancel()

    def _ending(self) -> None:
        # Before the end is sent: the response to it may be read before `finish` has returned here.
        self.complete = True
