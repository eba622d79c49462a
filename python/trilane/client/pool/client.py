"""`Client`: requests by URL over a pool of connections that threads share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Never, Self

from trilane._core import Tls
from trilane.client.flow.altsvc import Scope
from trilane.client.flow.content import Content
from trilane.client.flow.lanes import VERSIONS, Proxy
from trilane.client.flow.preparing import OnInformational, Options, Settings
from trilane.client.flow.request import Field, Fields, pairs
from trilane.client.flow.timeouts import TimeoutGiven, Timeouts
from trilane.client.flow.whole import MOST_CONTENT
from trilane.client.keywords import refusal
from trilane.client.pool.leasing import Pool
from trilane.client.pool.response import Response
from trilane.client.pool.sending import send
from trilane.client.pool.several import send_all
from trilane.client.tls import Certificate, Verify

__all__ = ["Client", "Proxy", "Response", "Timeouts"]


class Client:
    """An HTTP client for HTTP/1.1, HTTP/2 and HTTP/3. Any number of threads may use it at once.

    Connections are kept and shared: one for all requests to an origin that speaks HTTP/2 or HTTP/3.
    A request that the server provably did not process is sent again. There are no redirects and no
    cookies: Requests and HTTPX have them, on adapters of this package.
    """

    def __init__(  # noqa: PLR0913 - each is a setting of its own, by name
        self,
        *,
        versions: Sequence[str] = VERSIONS,
        verify: Verify = True,
        cert: Certificate = None,
        tls: Tls | None = None,
        timeout: TimeoutGiven = ...,
        headers: Fields | None = None,
        proxies: Mapping[str, str | Proxy] | Proxy | str | None = "environment",
        max_connections: int = 100,
        max_per_origin: int | None = None,
        idle_timeout: float = 60.0,
        alternatives: Scope = "same-host",
        race: bool = False,
        max_content: int | None = MOST_CONTENT,
        max_decoded: int | None = None,
        source: tuple[str, int] | None = None,
        unix: str | None = None,
        **unknown: Never,
    ) -> None:
        """Nothing is opened or read before the first request, but for `proxies`.

        versions: which may be spoken. HTTP/3 is found by `Alt-Svc`, or tried at once where it is
            the only one or `race` says so. Without TLS it is HTTP/1.1, or HTTP/2 where h1 is out.
        verify, cert, tls: see `trilane.client.tls.tls_of`; `tls` is a `_core.Tls` of your own.
        timeout: `Timeouts`, or seconds for each of its four.
        headers: sent with each request; they replace user-agent, accept and accept-encoding.
        proxies: "environment" reads HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY now, as
            `urllib.request` does; or a URL, or one per scheme of the request; None for none.
        max_connections, max_per_origin: beyond them requests wait (`Timeouts.pool`). By default an
            origin may have all of them; browsers allow 6 for HTTP/1.1.
        idle_timeout: seconds after which an unused connection is closed, at the next request.
        alternatives: hosts on which HTTP/3 that `Alt-Svc` announces is used: "same-host", "any"
            (the certificate has to cover the origin's name), or "off".
        max_content: bytes of content that are put together in memory, by `content`, `text`, `json`
            `read()` and a line of `iter_lines`: a server may send without end. The default of 1 GiB
            is more than anything that is used as one object; what is larger is read in pieces, by
            `stream`, with no limit but to what comes while content is sent. None: no limit.
        max_decoded: bytes that content may have once it is decoded, coded or not, also in pieces;
            expansion beyond 1000-fold never passes.
        source: local address to connect from. unix: path of a socket for every connection.

        Errors: ValueError for settings out of range; InvalidRequest for a proxy of another kind;
        TypeError for other settings, with what to write instead.
        """
        if unknown:
            raise refusal(Client, "__init__", unknown)
        self._settings = Settings(
            versions=versions,
            verify=verify,
            cert=cert,
            tls=tls,
            timeout=timeout,
            headers=headers,
            proxies=proxies,
            max_connections=max_connections,
            max_per_origin=max_per_origin,
            idle_timeout=idle_timeout,
            alternatives=alternatives,
            race=race,
            max_content=max_content,
            max_decoded=max_decoded,
            source=source,
            unix=unix,
        )
        self._pool = Pool(self._settings.policy, self._settings.tls, source)

    def request(  # noqa: PLR0913 - each is an option of its own, by name
        self,
        method: str,
        url: str,
        *,
        headers: Fields | None = None,
        content: Content = None,
        json: Any = None,
        timeout: TimeoutGiven = ...,
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Response:
        """Send a request and read its response, content and all.

        content: bytes, str (in UTF-8), a file, or an iterable of bytes, which is sent as it comes.
        json: sent instead of `content`, with its content-type.
        timeout: `Timeouts`, seconds for each of its four, or (connect, read); else the client's.
        trailers: fields that follow the content.
        expect_continue: whether content waits, up to a second, for `100 Continue`.
        on_informational: called with status and fields of each 1xx response as it comes.
        decode: False leaves gzip and others as they are.

        Errors: every one of `trilane.client.errors`; exceptions of the content's own pass through;
        TypeError for other keywords, with what to write instead.
        """
        if unknown:
            raise refusal(Client, "request", unknown)
        options = timeout, trailers, expect_continue, on_informational, decode
        prepared = self._settings.prepare(method, url, pairs(headers), content, json, options)
        response = send(self._pool, prepared)
        response.load_at_once()
        return response

    @contextmanager
    def stream(  # noqa: PLR0913 - as `request`
        self,
        method: str,
        url: str,
        *,
        headers: Fields | None = None,
        content: Content = None,
        json: Any = None,
        timeout: TimeoutGiven = ...,
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Iterator[Response]:
        """A context with a response whose content has not been read; it ends with the context.

        Arguments and errors are those of `request`.
        """
        if unknown:
            raise refusal(Client, "stream", unknown)
        options = timeout, trailers, expect_continue, on_informational, decode
        prepared = self._settings.prepare(method, url, pairs(headers), content, json, options)
        with send(self._pool, prepared) as response:
            yield response

    def send(  # noqa: PLR0913 - as `request`
        self,
        method: str,
        url: str,
        fields: Sequence[Field] = (),
        content: Content = None,
        *,
        target: str | None = None,
        timeout: TimeoutGiven = ...,
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        on_informational: OnInformational | None = None,
        decode: bool = False,
        **unknown: Never,
    ) -> Response:
        """For adapters: send exactly these fields, and leave the content unread and undecoded.

        Nothing is added to the fields but what frames the message, and what the proxy is to be
        told. `target` replaces path and query of the URL, which go out as `origins.parse` has them.
        """
        if unknown:
            raise refusal(Client, "send", unknown)
        options = timeout, trailers, expect_continue, on_informational, decode
        prepared = self._settings.exactly(method, url, fields, content, target, options)
        return send(self._pool, prepared)

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

        Errors: those of `request`; ValueError where `ahead` is less than 1.
        """
        if unknown:
            raise refusal(Client, "get_all", unknown)
        if ahead < 1:
            raise ValueError(f"get_all(ahead={ahead}): give at least 1")
        given = pairs(headers)
        options: Options = timeout, (), False, on_informational, decode
        prepare = self._settings.prepare
        made = (prepare("GET", url, given, None, None, options) for url in urls)
        return send_all(self._pool, made, ahead)

    def get(
        self,
        url: str,
        *,
        headers: Fields | None = None,
        timeout: TimeoutGiven = ...,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Response:
        """`request("GET", url)`."""
        if unknown:
            raise refusal(Client, "get", unknown)
        return self.request(
            "GET",
            url,
            headers=headers,
            timeout=timeout,
            on_informational=on_informational,
            decode=decode,
        )

    def head(
        self,
        url: str,
        *,
        headers: Fields | None = None,
        timeout: TimeoutGiven = ...,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Response:
        """`request("HEAD", url)`."""
        if unknown:
            raise refusal(Client, "head", unknown)
        return self.request(
            "HEAD",
            url,
            headers=headers,
            timeout=timeout,
            on_informational=on_informational,
            decode=decode,
        )

    def options(
        self,
        url: str,
        *,
        headers: Fields | None = None,
        timeout: TimeoutGiven = ...,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Response:
        """`request("OPTIONS", url)`."""
        if unknown:
            raise refusal(Client, "options", unknown)
        return self.request(
            "OPTIONS",
            url,
            headers=headers,
            timeout=timeout,
            on_informational=on_informational,
            decode=decode,
        )

    def delete(
        self,
        url: str,
        *,
        headers: Fields | None = None,
        timeout: TimeoutGiven = ...,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Response:
        """`request("DELETE", url)`."""
        if unknown:
            raise refusal(Client, "delete", unknown)
        return self.request(
            "DELETE",
            url,
            headers=headers,
            timeout=timeout,
            on_informational=on_informational,
            decode=decode,
        )

    def post(  # noqa: PLR0913 - as `request`
        self,
        url: str,
        content: Content = None,
        *,
        headers: Fields | None = None,
        json: Any = None,
        timeout: TimeoutGiven = ...,
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Response:
        """`request("POST", url)`."""
        if unknown:
            raise refusal(Client, "post", unknown)
        return self.request(
            "POST",
            url,
            headers=headers,
            content=content,
            json=json,
            timeout=timeout,
            trailers=trailers,
            expect_continue=expect_continue,
            on_informational=on_informational,
            decode=decode,
        )

    def put(  # noqa: PLR0913 - as `request`
        self,
        url: str,
        content: Content = None,
        *,
        headers: Fields | None = None,
        json: Any = None,
        timeout: TimeoutGiven = ...,
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Response:
        """`request("PUT", url)`."""
        if unknown:
            raise refusal(Client, "put", unknown)
        return self.request(
            "PUT",
            url,
            headers=headers,
            content=content,
            json=json,
            timeout=timeout,
            trailers=trailers,
            expect_continue=expect_continue,
            on_informational=on_informational,
            decode=decode,
        )

    def patch(  # noqa: PLR0913 - as `request`
        self,
        url: str,
        content: Content = None,
        *,
        headers: Fields | None = None,
        json: Any = None,
        timeout: TimeoutGiven = ...,
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Response:
        """`request("PATCH", url)`."""
        if unknown:
            raise refusal(Client, "patch", unknown)
        return self.request(
            "PATCH",
            url,
            headers=headers,
            content=content,
            json=json,
            timeout=timeout,
            trailers=trailers,
            expect_continue=expect_continue,
            on_informational=on_informational,
            decode=decode,
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
