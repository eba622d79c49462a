"""What `Client` and `AsyncClient` are asked: settings, methods, and the keywords of these.

A subclass says what it gives for a request (a response, or what has to be awaited for one), and
what it takes as content.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Never, TypeAlias, TypeVar

from trilane._core import Tls
from trilane.client._flow.altsvc import Scope
from trilane.client._flow.content import Content, Upload
from trilane.client._flow.keywords import refuse
from trilane.client._flow.preparing import OnInformational, Options, Prepared, Settings, how_to
from trilane.client._flow.proxies import Proxies
from trilane.client._flow.request import Field, Fields
from trilane.client._flow.routes import VERSIONS, Policy, Proxy
from trilane.client._flow.timeouts import TimeoutGiven, Timeouts, timeouts
from trilane.client._flow.whole import MOST_CONTENT, Bounds
from trilane.client.tls import Certificate, Verify, tls_of

Answer = TypeVar("Answer")
Context = TypeVar("Context")
ContentGiven = TypeVar("ContentGiven")
Prepare: TypeAlias = Callable[[], Prepared]


class BaseClient(ABC, Generic[Answer, Context, ContentGiven]):
    """The settings and methods of a client."""

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
            origin may have all of them; browsers allow 6 for HTTP/1.1. With `max_per_origin=1` all
            requests share one connection, and wait for its streams where the server allows fewer.
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

        Raises:
            ValueError: a setting is out of range.
            InvalidRequest: a proxy is of another kind.
            TypeError: there is no such setting; the message says what to write.
        """
        if unknown:
            refuse(type(self), "__init__", unknown)
        policy = Policy(
            versions=tuple(versions),
            max_connections=max_connections,
            max_per_origin=max_connections if max_per_origin is None else max_per_origin,
            idle_s=idle_timeout,
            alternatives=alternatives,
            race_unannounced=race,
            unix=unix,
        )
        limits, bounds = timeouts(timeout, Timeouts()), Bounds.of(max_content, max_decoded)
        learns = "h3" in policy.versions and alternatives != "off"
        self._settings = Settings(
            policy,
            partial(tls_of, verify, cert) if tls is None else lambda: tls,
            source,
            headers,
            how_to(Proxies.of(proxies), limits, bounds, learns=learns),
            limits,
        )
        self._begin()

    @abstractmethod
    def _begin(self) -> None:
        """The settings are there; nothing was asked yet."""

    @abstractmethod
    def _whole(self, prepare: Prepare) -> Answer:
        """Send what `prepare` gives, and read its response, content and all."""

    @abstractmethod
    def _opened(self, prepare: Prepare) -> Answer:
        """Send what `prepare` gives; the content of its response is left unread."""

    @abstractmethod
    def _context(self, prepare: Prepare) -> Context:
        """`_opened` as a context, with whose end the response is closed."""

    @abstractmethod
    def _sendable(self, content: ContentGiven | None) -> Content | Upload:
        """Content as `Settings` takes it."""

    def request(  # noqa: PLR0913 - each is an option of its own, by name
        self,
        method: str,
        url: str,
        *,
        headers: Fields | None = None,
        content: ContentGiven | None = None,
        json: Any = None,
        timeout: TimeoutGiven = ...,
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Answer:
        """Send a request and read its response, content and all.

        content: bytes, str (in UTF-8), a file, or an iterable of bytes, which is sent as it comes.
            `AsyncClient` takes asynchronous iterables too; it reads files in threads, and ordinary
            iterables run on its loop.
        json: sent instead of `content`, with its content-type.
        timeout: `Timeouts`, seconds for each of its four, or (connect, read); else the client's.
        trailers: fields that follow the content.
        expect_continue: whether content waits, up to a second, for `100 Continue`.
        on_informational: called with status and fields of each 1xx response as it comes.
        decode: False leaves gzip and others as they are.

        Raises:
            Error: any of `trilane.client.errors`. What the content itself, or `on_informational`,
                raises passes through.
            TypeError: there is no such keyword; the message says what to write.
        """
        options = timeout, trailers, expect_continue, on_informational, decode
        given = headers, content, json, options
        return self._whole(self._prepare("request", method, url, *given, unknown))

    def stream(  # noqa: PLR0913 - as `request`
        self,
        method: str,
        url: str,
        *,
        headers: Fields | None = None,
        content: ContentGiven | None = None,
        json: Any = None,
        timeout: TimeoutGiven = ...,
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Context:
        """A context with a response whose content has not been read; it ends with the context.

        Content of the request that is still being sent goes on meanwhile, so both directions can
        stream at once; `Client` sends what is not in memory, or is large, from a thread of its own.
        Arguments are those of `request`.

        Raises:
            Error, TypeError: as `request`.
        """
        options = timeout, trailers, expect_continue, on_informational, decode
        given = headers, content, json, options
        return self._context(self._prepare("stream", method, url, *given, unknown))

    def send(  # noqa: PLR0913 - as `request`
        self,
        method: str,
        url: str,
        fields: Sequence[Field] = (),
        content: ContentGiven | None = None,
        *,
        target: str | None = None,
        timeout: TimeoutGiven = ...,
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        on_informational: OnInformational | None = None,
        decode: bool = False,
        **unknown: Never,
    ) -> Answer:
        """For adapters: send exactly these fields, and leave the content unread and undecoded.

        Nothing is added to the fields but what frames the message, and what the proxy is to be
        told. `target` replaces path and query of the URL, which go out as `origins.parse` has them.
        The caller closes the response.

        Raises:
            Error, TypeError: as `request`.
        """
        if unknown:
            refuse(type(self), "send", unknown)
        options = timeout, trailers, expect_continue, on_informational, decode
        given = fields, self._sendable(content), target, options
        return self._opened(partial(self._settings.exactly, method, url, *given))

    def get(
        self,
        url: str,
        *,
        headers: Fields | None = None,
        timeout: TimeoutGiven = ...,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Answer:
        """`request("GET", url)`."""
        options = timeout, (), False, on_informational, decode
        given = headers, None, None, options
        return self._whole(self._prepare("get", "GET", url, *given, unknown))

    def head(
        self,
        url: str,
        *,
        headers: Fields | None = None,
        timeout: TimeoutGiven = ...,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Answer:
        """`request("HEAD", url)`."""
        options = timeout, (), False, on_informational, decode
        given = headers, None, None, options
        return self._whole(self._prepare("head", "HEAD", url, *given, unknown))

    def options(
        self,
        url: str,
        *,
        headers: Fields | None = None,
        timeout: TimeoutGiven = ...,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Answer:
        """`request("OPTIONS", url)`."""
        options = timeout, (), False, on_informational, decode
        given = headers, None, None, options
        return self._whole(self._prepare("options", "OPTIONS", url, *given, unknown))

    def delete(
        self,
        url: str,
        *,
        headers: Fields | None = None,
        timeout: TimeoutGiven = ...,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Answer:
        """`request("DELETE", url)`."""
        options = timeout, (), False, on_informational, decode
        given = headers, None, None, options
        return self._whole(self._prepare("delete", "DELETE", url, *given, unknown))

    def post(  # noqa: PLR0913 - as `request`
        self,
        url: str,
        content: ContentGiven | None = None,
        *,
        headers: Fields | None = None,
        json: Any = None,
        timeout: TimeoutGiven = ...,
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Answer:
        """`request("POST", url)`."""
        options = timeout, trailers, expect_continue, on_informational, decode
        given = headers, content, json, options
        return self._whole(self._prepare("post", "POST", url, *given, unknown))

    def put(  # noqa: PLR0913 - as `request`
        self,
        url: str,
        content: ContentGiven | None = None,
        *,
        headers: Fields | None = None,
        json: Any = None,
        timeout: TimeoutGiven = ...,
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Answer:
        """`request("PUT", url)`."""
        options = timeout, trailers, expect_continue, on_informational, decode
        given = headers, content, json, options
        return self._whole(self._prepare("put", "PUT", url, *given, unknown))

    def patch(  # noqa: PLR0913 - as `request`
        self,
        url: str,
        content: ContentGiven | None = None,
        *,
        headers: Fields | None = None,
        json: Any = None,
        timeout: TimeoutGiven = ...,
        trailers: Sequence[tuple[str, str]] = (),
        expect_continue: bool = False,
        on_informational: OnInformational | None = None,
        decode: bool = True,
        **unknown: Never,
    ) -> Answer:
        """`request("PATCH", url)`."""
        options = timeout, trailers, expect_continue, on_informational, decode
        given = headers, content, json, options
        return self._whole(self._prepare("patch", "PATCH", url, *given, unknown))

    def _prepare(
        self,
        name: str,
        method: str,
        url: str,
        headers: Fields | None,
        content: ContentGiven | None,
        json: Any,
        options: Options,
        unknown: Mapping[str, Never],
    ) -> Prepare:
        """What makes the request that the method of that name was asked for."""
        if unknown:
            refuse(type(self), name, unknown)
        given = headers, self._sendable(content), json, options
        return partial(self._settings.prepare, method, url, *given)
