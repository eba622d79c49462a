"""Whether content of a request is sent, and what it means that it cannot be."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from trilane.client.errors import Error, RemoteError, WriteTimeout

if TYPE_CHECKING:
    from trilane.client._flow.content import Block
    from trilane.client._flow.options import Progress

CONTINUE_S: Final = 1.0
"""How long content waits for `100 Continue`, as in curl: some servers never send it."""
_CONTINUE: Final = 100


class Outgoing(ABC):
    """A request, as far as the content is concerned that follows its head.

    Its content is the caller's, and may raise anything, also what the server's mistakes are called:
    what is the caller's own is neither judged nor an occasion to send the request again.
    """

    # They stand in the class, as most requests leave them as they are.
    expects = False
    """Whether the content waits for `100 Continue`."""
    trailers: Sequence[tuple[str, str]] = ()
    """Fields that follow the content."""
    raised: Exception | None = None
    """What the caller's own code raised last: the content, or a function that was called."""
    progress: Progress | None = None
    """Told how much of the content was sent."""
    _sent = 0

    def count(self, more: int, total: int | None) -> None:
        """So many more bytes of content were sent; 0 at the begin, also where it is sent again."""
        if self.progress is not None:
            self._sent = self._sent + more if more else 0
            with self.callers_own():
                self.progress(self._sent, total)

    @property
    def total(self) -> int | None:
        """Bytes of content, where they are known."""
        return None

    @contextmanager
    def callers_own(self) -> Iterator[None]:
        """A context in which the caller's own code runs."""
        try:
            yield
        except Exception as error:
            self.raised = error
            raise

    def blocks(self) -> Iterator[Block]:
        """The content that follows the head; no block is empty."""
        with self.callers_own():
            yield from self._content()

    @abstractmethod
    def _content(self) -> Iterator[Block]:
        """The content that follows the head, as the caller gives it."""


def consent_until(now: float, limit: float | None) -> float:
    """When content that waits for the server's consent since `now` is sent without.

    `limit` is how many seconds any wait for the server may last.
    """
    return now + (CONTINUE_S if limit is None else min(CONTINUE_S, limit))


def wants_content(status: int) -> bool | None:
    """Whether a server that answers so before it has the content wants it (RFC 9110 §10.1.1).

    None: other interim responses do not say. One that answers 2xx without a 100 reads while it
    answers, as an echo does; a redirect or an error needs no content.
    """
    if status < 200:
        return True if status == _CONTINUE else None
    return status < 300


def is_answered(error: BaseException, request: Outgoing, exchange: Any) -> bool:
    """Whether the response is there that tells why the request's content could not be sent.

    A server may answer, 413 perhaps, and then close or take no more, which is not an error.
    """
    if error is request.raised or not isinstance(error, RemoteError | WriteTimeout):
        return False
    try:
        exchange.head(0)
    except Error:
        return False
    return True
