"""What `Client` and `AsyncClient` are asked: settings, methods, and the keywords of these.

A subclass says what it gives for a request (a response, or what has to be awaited for one), and
what it takes as content.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Never, TypeVar, Unpack
from warnings import warn

from trilane._core import Tls
from trilane.client._flow.altsvc import Scope
from trilane.client._flow.content import Content, Upload
from trilane.client._flow.keywords import refuse, refuse_attribute, refuse_positional
from trilane.client._flow.options import (
    ANY,
    BARE,
    FORM,
    BareOptions,
    ContentGiven,
    FormOptions,
    RequestOptions,
    shown,
)
from trilane.client._flow.preparing import OnInformational, OnStep, Prepared, Settings, how_to
from trilane.client._flow.proxies import Proxies
from trilane.client._flow.redirects import MOST
from trilane.client._flow.repeating import Retries
from trilane.client._flow.request import Field, Fields
from trilane.client._flow.resolving import Resolver
from trilane.client._flow.routes import VERSIONS, Policy, Proxy
from trilane.client._flow.session import Session
from trilane.client._flow.settable import Settable
from trilane.client._flow.text import DefaultEncoding, checked
from trilane.client._flow.timeouts import TimeoutGiven, Timeouts, timeouts
from trilane.client._flow.watching import Hooks, Observer, Watch
from trilane.client._flow.whole import MOST_CONTENT, Bounds
from trilane.client.errors import InsecureWarning

if TYPE_CHECKING:
    from trilane.client._flow.cookies import CookiesGiven
    from trilane.client._flow.forms import Params
    from trilane.client.auth import AuthGiven
    from trilane.client.cached import CacheGiven
    from trilane.client.tls import Certificate, Pins, Verify

Answer = TypeVar("Answer")
Context = TypeVar("Context")
_LIMITS: Final = Timeouts()


class BaseClient(Settable, ABC, Generic[Answer, Context, ContentGiven]):
    """The settings and methods of a client."""

    def __init__(  # noqa: PLR0913 - each is a setting of its own, by name
        self,
        *,
        versions: Sequence[str] = VERSIONS,
        verify: Verify = True,
        cert: Certificate = None,
        tls: Tls | None = None,
        timeout: TimeoutGiven = _LIMITS,
        headers: Fields | None = None,
        proxies: Mapping[str, str | Proxy] | Proxy | str | None = "environment",
        max_connections: int = 100,
        max_per_origin: int | None = None,
        idle_timeout: float = 60.0,
        alternatives: Scope = "same-host",
        race: bool = False,
        max_content: int | None = MOST_CONTENT,
        max_decoded: int | None = None,
        default_encoding: DefaultEncoding = "utf-8",
        source: tuple[str, int] | None = None,
        unix: str | None = None,
        base_url: str = "",
        auth: AuthGiven = None,
        cookies: CookiesGiven = None,
        params: Params | None = None,
        follow_redirects: bool = False,
        max_redirects: int = MOST,
        retries: Retries | int | None = None,
        cache: CacheGiven = None,
        resolver: Resolver | None = None,
        ech: bool = False,
        pins: Pins | None = None,
        minimum_tls: str | None = None,
        timings: bool = False,
        event_hooks: Hooks | None = None,
        telemetry: Observer | None = None,
        **unknown: Never,
    ) -> None:
        """Nothing is opened or read before the first request, but for `proxies`.

        versions: which may be spoken. HTTP/3 is found by `Alt-Svc`, or tried at once where it is
            the only one or `race` says so. Without TLS it is HTTP/1.1, or HTTP/2 where h1 is out.
        verify, cert, tls: see `trilane.client.tls.tls_of`; `tls` is a `_core.Tls` of your own.
        timeout: `Timeouts`, or seconds for each of its first four; `Timeouts(total=...)` limits the
            whole request.
        headers: sent with each request; they replace user-agent, accept and accept-encoding.
        proxies: "environment" reads HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY now, as
            `urllib.request` does; or a URL, or a mapping of `http`, `https` and `all` to URLs, with
            `no` for hosts, networks and addresses without a proxy; None for none.
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
        default_encoding: what `text` and lines are decoded by where `content-type` names no
            encoding; or a function that guesses it from the content, as of HTTPX.
        source: local address to connect from. unix: path of a socket for every connection.
        base_url: stands before each URL that names no host.
        auth: (user, password) for Basic, `BearerAuth(token)`, `DigestAuth(user, password)`,
            `NetRCAuth()`, or a function that changes the headers of the request it is called with.
            It is sent to every host that is asked, but not to one that a redirect leads to.
        cookies: sent to every host: a mapping or pairs; or a `http.cookiejar.CookieJar`, which is
            changed too. Those that servers set are kept, and sent where they belong.
        params: added to the query of each URL.
        follow_redirects: whether redirects are followed, up to `max_redirects`. Credentials go no
            further than the origin that was asked.
        retries: how often a request is sent again, or `Retries(...)`, beyond what the server
            provably did not process.
        cache: True for one in memory, the path of a file, or a `trilane.client.cached.Cache`: what
            is fresh is answered from it, what is not is validated (RFC 9111). It needs the library
            `hishel`: `trilane[cache]`.
        resolver: called with host and port, in the thread that connects, or a mapping of `host` or
            `host:port`: the addresses to connect to, and instances of `HTTPSRecord` where there
            are such (RFC 9460); None for what the system's resolver says. One that asks DNS for
            both is `trilane.client.dns.Resolver()`.
        ech: whether Encrypted Client Hello (RFC 9849) keeps the server's name from the network
            where an HTTPS record has the keys; such connections are over TCP, by TLS 1.3.
        pins: SHA-256 of keys that servers must have: `sha256//BASE64`, one or several, for all
            hosts, or in a mapping by host.
        minimum_tls: "TLSv1.2", which is the default, or "TLSv1.3".
        timings: whether responses have `timings` and `traffic`.
        event_hooks: `{"request": [...], "response": [...]}`, called as by HTTPX: before a request
            is sent, and when the head of its response is there. `AsyncClient` awaits what they
            give, where it can be awaited.
        telemetry: what is told of each request, such as `trilane.client.otel.Telemetry()`.

        Raises:
            ValueError: a setting is out of range.
            InvalidRequest: a proxy is of another kind, or `base_url` is none.
            TypeError: there is no such setting; the message says what to write.
        """
        if unknown:
            refuse(type(self), "__init__", unknown)
        if verify is False and tls is None:
            warn(
                "verify=False: anybody on the way can read and change what this client sends and"
                ' gets; trust the server\'s authority, or its own certificate, by verify="FILE"',
                InsecureWarning,
                stacklevel=2,
            )
        policy = Policy(
            versions=tuple(versions),
            max_connections=max_connections,
            max_per_origin=max_connections if max_per_origin is None else max_per_origin,
            idle_s=idle_timeout,
            alternatives=alternatives,
            race_unannounced=race,
            unix=unix,
            resolver=resolver,
            ech=ech,
        ).checked()
        watch = Watch.of(event_hooks, telemetry, timed=timings)
        encoding = checked(default_encoding)
        limits, bounds = timeouts(timeout, _LIMITS), Bounds.of(max_content, max_decoded)
        learns = "h3" in policy.versions and alternatives != "off"
        self._settings = Settings(
            policy,
            _tls_maker(verify, cert, pins, minimum_tls) if tls is None else lambda: tls,
            source,
            headers,
            how_to(
                Proxies.of(proxies),
                limits,
                bounds,
                learns=learns,
                watch=watch,
                default_encoding=encoding,
            ),
            limits,
        )
        self._session = Session(
            self._settings,
            base_url=base_url,
            auth=auth,
            cookies=cookies,
            params=params,
            follow_redirects=follow_redirects,
            max_redirects=max_redirects,
            retries=retries,
            cache=cache,
            sendable=self._sendable,
        )
        self._begin()

    @abstractmethod
    def _begin(self) -> None:
        """The settings are there; nothing was asked yet."""

    @abstractmethod
    def _whole(self, method: str, url: str, options: Mapping[str, Any]) -> Answer:
        """Send a request, and what it leads to, and read the response, content and all."""

    @abstractmethod
    def _opened(self, prepare: Callable[[], Prepared]) -> Answer:
        """Send what `prepare` gives; the content of its response is left unread."""

    @abstractmethod
    def _context(self, method: str, url: str, options: Mapping[str, Any]) -> Context:
        """Send a request, and what it leads to; with the end of the context the response closes."""

    @staticmethod
    @abstractmethod
    def _sendable(content: ContentGiven | None) -> Content | Upload:
        """Content as `Settings` takes it."""

    @shown
    def request(
        self,
        method: str,
        url: str,
        *more: Never,
        **options: Unpack[RequestOptions[ContentGiven]],
    ) -> Answer:
        """Send a request and read its response, content and all.

        headers: replace those of the client that have the same names.
        content: bytes, str (in UTF-8), a file, or an iterable of bytes, which is sent as it comes.
            `AsyncClient` takes asynchronous iterables too; it reads files in threads, and ordinary
            iterables run on its loop.
        json: sent instead of `content`, with its content-type.
        data: a form: names and values, a list where a name has several.
        files: files of a form: by name an open file, bytes or text, or (file name, content), (…,
            content type) or (…, more fields). They are read as they are sent.
        params: added to the query of the URL. None is left out, and booleans are in lower case.
        auth: as for the client, in place of its own; None for none.
        cookies: sent beside those of the client, with this request alone.
        follow_redirects, retries: as for the client, in place of its own.
        progress: called with the bytes of content sent so far, and how many there are in all or
            None; with 0 at the begin, also where it begins again.
        timeout: `Timeouts`, seconds for each of its first four, or (connect, read); else the
            client's.
        trailers: fields that follow the content.
        expect_continue: whether content waits, up to a second, for `100 Continue`.
        on_informational: called with status and fields of each 1xx response as it comes.
        decode: False leaves gzip and others as they are.

        Raises:
            Error: any of `trilane.client.errors`. What the content itself, or a function of the
                caller's, raises passes through.
            TypeError: there is no such keyword; the message says what to write.
        """
        if more:
            refuse_positional(type(self), "request", more)
        if options and not options.keys() <= ANY:
            refuse(type(self), "request", options.keys() - ANY)
        return self._whole(method, url, options)

    @shown
    def stream(
        self,
        method: str,
        url: str,
        *more: Never,
        **options: Unpack[RequestOptions[ContentGiven]],
    ) -> Context:
        """A context with a response whose content has not been read; it ends with the context.

        Content of the request that is still being sent goes on meanwhile, so both directions can
        stream at once; `Client` sends what is not in memory, or is large, from a thread of its own.
        Arguments are those of `request`.

        Raises:
            Error, TypeError: as `request`.
        """
        if more:
            refuse_positional(type(self), "stream", more)
        if options and not options.keys() <= ANY:
            refuse(type(self), "stream", options.keys() - ANY)
        return self._context(method, url, options)

    def send(  # noqa: PLR0913 - each is an option of its own, by name
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
        server_name: str | None = None,
        on_step: OnStep | None = None,
        **unknown: Never,
    ) -> Answer:
        """For adapters: send exactly these fields, and leave the content unread and undecoded.

        Nothing is added to the fields but what frames the message, and what the proxy is to be
        told: no cookies, no authorization, and no redirect is followed. `target` replaces path and
        query of the URL, which go out as `origins.parse` has them. `server_name` is what the
        certificate is to cover in place of the URL's host; requests with another one share no
        connection. `on_step` is told of each step. The caller closes the response.

        Raises:
            Error, TypeError: as `request`.
        """
        if unknown:
            refuse(type(self), "send", unknown)
        options = timeout, trailers, expect_continue, on_informational, decode
        given = fields, self._sendable(content), target, options, server_name, on_step
        return self._opened(partial(self._settings.exactly, method, url, *given))

    @shown
    def get(self, url: str, *more: Never, **options: Unpack[BareOptions]) -> Answer:
        """`request("GET", url)`."""
        if more:
            refuse_positional(type(self), "get", more)
        if options and not options.keys() <= BARE:
            refuse(type(self), "get", options.keys() - BARE)
        return self._whole("GET", url, options)

    @shown
    def head(self, url: str, *more: Never, **options: Unpack[BareOptions]) -> Answer:
        """`request("HEAD", url)`."""
        if more:
            refuse_positional(type(self), "head", more)
        if options and not options.keys() <= BARE:
            refuse(type(self), "head", options.keys() - BARE)
        return self._whole("HEAD", url, options)

    @shown
    def options(self, url: str, *more: Never, **options: Unpack[BareOptions]) -> Answer:
        """`request("OPTIONS", url)`."""
        if more:
            refuse_positional(type(self), "options", more)
        if options and not options.keys() <= BARE:
            refuse(type(self), "options", options.keys() - BARE)
        return self._whole("OPTIONS", url, options)

    @shown
    def delete(self, url: str, *more: Never, **options: Unpack[BareOptions]) -> Answer:
        """`request("DELETE", url)`."""
        if more:
            refuse_positional(type(self), "delete", more)
        if options and not options.keys() <= BARE:
            refuse(type(self), "delete", options.keys() - BARE)
        return self._whole("DELETE", url, options)

    @shown
    def post(
        self,
        url: str,
        content: ContentGiven | None = None,
        *more: Never,
        **options: Unpack[FormOptions],
    ) -> Answer:
        """`request("POST", url)`."""
        if more:
            refuse_positional(type(self), "post", more)
        return self._whole("POST", url, self._with(content, "post", options))

    @shown
    def put(
        self,
        url: str,
        content: ContentGiven | None = None,
        *more: Never,
        **options: Unpack[FormOptions],
    ) -> Answer:
        """`request("PUT", url)`."""
        if more:
            refuse_positional(type(self), "put", more)
        return self._whole("PUT", url, self._with(content, "put", options))

    @shown
    def patch(
        self,
        url: str,
        content: ContentGiven | None = None,
        *more: Never,
        **options: Unpack[FormOptions],
    ) -> Answer:
        """`request("PATCH", url)`."""
        if more:
            refuse_positional(type(self), "patch", more)
        return self._whole("PATCH", url, self._with(content, "patch", options))

    def _with(
        self, content: ContentGiven | None, name: str, options: FormOptions
    ) -> Mapping[str, Any]:
        """The options of the method of that name, and its content."""
        if options and not options.keys() <= FORM:
            refuse(type(self), name, options.keys() - FORM)
        return options if content is None else {**options, "content": content}

    def __reduce__(self) -> Never:
        kind = type(self).__name__
        raise TypeError(
            f"a {kind} can be neither pickled nor copied, for its connections belong to this"
            f" process: make one where it is used, as {kind}(...) at the begin of a worker"
        )

    if not TYPE_CHECKING:  # For checkers there is no other name.

        def __getattr__(self, name: str) -> Never:
            refuse_attribute(self, name)

        def __setattr__(self, name: str, value: object) -> None:
            if not name.startswith("_") and not hasattr(type(self), name):
                refuse_attribute(self, name)
            object.__setattr__(self, name, value)


def _tls_maker(
    verify: Verify, cert: Certificate, pins: Pins | None, minimum: str | None
) -> Callable[[], Tls]:
    if verify is True and cert is None and pins is None and minimum is None:
        return _tls
    from trilane.client.tls import tls_maker  # noqa: PLC0415 - it needs `ssl`

    return tls_maker(verify, cert, pins, minimum)


def _tls() -> Tls:
    from trilane.client.tls import tls_of  # noqa: PLC0415 - it needs `ssl`, many clients do not

    return tls_of()
