"""`Client`: requests by URL over a pool of connections that threads share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Literal, Self, Unpack, overload

from trilane.client._flow.content import Content
from trilane.client._flow.keywords import refuse
from trilane.client._flow.options import BARE, BareOptions, shown
from trilane.client._flow.preparing import Prepared
from trilane.client._flow.steps import Flow
from trilane.client._pool.driving import Ask, drive
from trilane.client._pool.leasing import Pool
from trilane.client._pool.response import Response
from trilane.client._pool.sending import send
from trilane.client._pool.several import send_all
from trilane.client._pool.streams import Streams

_SEND_DUPLEX: Final = partial(send, duplex=True)


class Client(Streams):
    """An HTTP client for HTTP/1.1, HTTP/2 and HTTP/3. Any number of threads may use it at once.

    Connections are kept and shared: one for all requests to an origin that speaks HTTP/2 or HTTP/3.
    A request that the server provably did not process is sent again. Cookies are kept; redirects
    are followed where `follow_redirects` says so.
    """

    def _begin(self) -> None:
        settings = self._settings
        self._pool = Pool(settings.policy, settings.tls, settings.source)

    def _whole(self, method: str, url: str, options: Mapping[str, Any]) -> Response:
        response = self._answered(method, url, options, whole=True)
        response.load_at_once()
        return response

    def _answered(
        self,
        method: str,
        url: str,
        options: Mapping[str, Any],
        *,
        whole: bool,
        ask: Ask = send,
    ) -> Response:
        session = self._session
        begun = session.begin(method, url, options, whole=whole)
        if not isinstance(begun, Prepared):
            return drive(self._pool, begun, ask=ask)
        response = ask(self._pool, begun)
        session.notice(response)
        return response

    def _opened(self, prepare: Callable[[], Prepared]) -> Response:
        return send(self._pool, prepare())

    @contextmanager
    def _context(self, method: str, url: str, options: Mapping[str, Any]) -> Iterator[Response]:
        with self._answered(method, url, options, whole=False, ask=_SEND_DUPLEX) as response:
            yield response

    @staticmethod
    def _sendable(content: Content) -> Content:
        return content

    @overload
    def get_all(
        self,
        urls: Iterable[str],
        *,
        ahead: int = 100,
        return_exceptions: Literal[False] = False,
        **options: Unpack[BareOptions],
    ) -> Iterator[Response]: ...
    @overload
    def get_all(
        self,
        urls: Iterable[str],
        *,
        ahead: int = 100,
        return_exceptions: bool,
        **options: Unpack[BareOptions],
    ) -> Iterator[Response | Exception]: ...
    @shown
    def get_all(
        self,
        urls: Iterable[str],
        *,
        ahead: int = 100,
        return_exceptions: bool = False,
        **options: Unpack[BareOptions],
    ) -> Iterator[Response | Exception]:
        """GET many URLs from one thread: their responses in order, content and all.

        Up to `ahead` requests are on their way before the oldest response is read, on one
        connection where it is HTTP/2 or HTTP/3, and on six of HTTP/1.1, as browsers have. The URLs
        are taken from their iterable as requests are sent. When the iteration is left, what is on
        its way is cancelled.

        return_exceptions: give an error in the place of its response, as `asyncio.gather` does, and
            go on. Otherwise it is raised there, after the responses before it, and ends the
            iteration.

        Raises:
            ValueError: `ahead` is less than 1.
            Error: as `request`.
        """
        if not options.keys() <= BARE:
            refuse(type(self), "get_all", options.keys() - BARE)
        if ahead < 1:
            raise ValueError(f"get_all(ahead={ahead}): give at least 1")
        session = self._session

        def prepare(url: str) -> Prepared | Flow:
            return session.begin("GET", url, options, whole=True)

        return send_all(
            self._pool, urls, prepare, ahead, session.notice, keeps_errors=return_exceptions
        )

    @property
    def connections(self) -> list[tuple[str, str]]:
        """The open connections: origin and version of each."""
        return [(str(entry.route.origin), entry.version) for entry in self._pool.entries()]

    def network_changed(self) -> None:
        """Forget which alternatives of HTTP/3 were announced or broken, unless they persist."""
        self._pool.network_changed()

    def close(self, *, abort: bool = False) -> None:
        """Close the connections. Idempotent.

        Responses that are being read can be read to their end, and their connections close then;
        `abort` ends them too, with ConnectionClosed.
        """
        self._pool.close(abort=abort)
        if self._http_1 is not None:
            self._http_1.close(abort=abort)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {len(self.connections)} connections>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
