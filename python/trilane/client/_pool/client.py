"""`Client`: requests by URL over a pool of connections that threads share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Never, Self

from trilane.client._flow.client import Prepare
from trilane.client._flow.content import Content
from trilane.client._flow.keywords import refuse
from trilane.client._flow.preparing import OnInformational, Options
from trilane.client._flow.request import Fields, pairs
from trilane.client._flow.timeouts import TimeoutGiven
from trilane.client._pool.leasing import Pool
from trilane.client._pool.response import Response
from trilane.client._pool.sending import send
from trilane.client._pool.several import send_all
from trilane.client._pool.streams import Streams


class Client(Streams):
    """An HTTP client for HTTP/1.1, HTTP/2 and HTTP/3. Any number of threads may use it at once.

    Connections are kept and shared: one for all requests to an origin that speaks HTTP/2 or HTTP/3.
    A request that the server provably did not process is sent again. There are no redirects and no
    cookies: Requests and HTTPX have them, on adapters of this package.
    """

    def _begin(self) -> None:
        settings = self._settings
        self._pool = Pool(settings.policy, settings.tls, settings.source)

    def _whole(self, prepare: Prepare) -> Response:
        response = send(self._pool, prepare())
        response.load_at_once()
        return response

    def _opened(self, prepare: Prepare) -> Response:
        return send(self._pool, prepare())

    @contextmanager
    def _context(self, prepare: Prepare) -> Iterator[Response]:
        with send(self._pool, prepare(), duplex=True) as response:
            yield response

    def _sendable(self, content: Content) -> Content:
        return content

    def get_all(
        self,
        urls: Iterable[str],
        *,
        ahead: int = 100,
        headers: Fields | None = None,
        timeout: TimeoutGiven = ...,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Iterator[Response]:
        """GET many URLs from one thread: their responses in order, content and all.

        Up to `ahead` requests are on their way before the oldest response is read, on one
        connection where it is HTTP/2 or HTTP/3, and on six of HTTP/1.1, as browsers have. The URLs
        are taken from their iterable as requests are sent. An error ends the iteration, and what
        is on its way is cancelled, as when the iteration is left.

        Raises:
            ValueError: `ahead` is less than 1.
            Error: as `request`.
        """
        if unknown:
            refuse(type(self), "get_all", unknown)
        if ahead < 1:
            raise ValueError(f"get_all(ahead={ahead}): give at least 1")
        given = pairs(headers)
        options: Options = timeout, (), False, on_informational, decode
        prepare = self._settings.prepare
        made = (prepare("GET", url, given, None, None, options) for url in urls)
        return send_all(self._pool, made, ahead)

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
