"""`Client`: requests by URL over a pool of connections that threads share."""

from __future__ import annotations

import functools
import json as json_codec
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Never, Self, TypeAlias

from trilane._core import Tls
from trilane._core import version as _version

from .altsvc import Scope
from .answer import Response
from .content import Content
from .keywords import refusal
from .lanes import VERSIONS, Policy, Proxy, Route
from .leasing import Pool
from .origins import Address, Origin, parse
from .proxies import Proxies
from .request import OF_SENDING, Field, Fields, Request, lower, pairs, with_defaults
from .sending import Call, OnInformational, Sending, send
from .several import send_all
from .timeouts import TimeoutGiven, Timeouts, timeouts
from .tls import Certificate, Verify, tls_of
from .whole import MOST_CONTENT, Bounds

__all__ = ["Client", "Proxy", "Response", "Timeouts"]

USER_AGENT: Final = f"trilane/{_version}"
ACCEPT_ENCODING: Final = "gzip, deflate, br, zstd"
_DEFAULTS: Final[tuple[Field, ...]] = (
    ("user-agent", USER_AGENT),
    ("accept", "*/*"),
    ("accept-encoding", ACCEPT_ENCODING),
)


_Options: TypeAlias = tuple[
    TimeoutGiven, Sequence[tuple[str, str]], bool, OnInformational | None, bool
]
"""Of a request: timeout, trailers, expect_continue, on_informational, decode."""
_NO_OPTIONS: Final[_Options] = (..., (), False, None, True)


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
            and `read()`: a server may send without end. The default of 1 GiB is more than anything
            that is used as one object; what is larger is read in pieces, by `stream`, to which no
            limit applies but to what comes while content is still being sent. None: no limit.
        max_decoded: bytes that content may have once it is decoded, coded or not, also in pieces;
            expansion beyond 1000-fold never passes.
        source: local address to connect from. unix: path of a socket for every connection.

        Errors: ValueError for settings out of range; InvalidRequest for a proxy of another kind;
        TypeError for other settings, with what to write instead.
        """
        if unknown:
            raise refusal(Client, "__init__", unknown)
        self._timeouts = timeouts(timeout, Timeouts())
        self._fields = with_defaults(_DEFAULTS, pairs(headers))
        self._believes = not OF_SENDING.isdisjoint(lower(name) for name, _ in self._fields)
        self._bounds = Bounds.of(max_content, max_decoded)
        policy = Policy(
            versions=tuple(versions),
            max_connections=max_connections,
            max_per_origin=max_connections if max_per_origin is None else max_per_origin,
            idle_s=idle_timeout,
            alternatives=alternatives,
            race_unannounced=race,
            unix=unix,
        )
        self._learns = "h3" in policy.versions and alternatives != "off"
        make_tls = functools.partial(tls_of, verify, cert) if tls is None else lambda: tls
        self._pool = Pool(policy, make_tls, source)
        # Bounded, for crawlers; a dictionary would grow with every origin.
        self._how = functools.lru_cache(1024)(self._sending(Proxies.of(proxies), self._pool))

    def _sending(self, proxies: Proxies, pool: Pool) -> Callable[[Origin], Sending]:
        """How requests to an origin are sent unless they have options; it does not know `self`."""
        limits, bounds, learns = self._timeouts, self._bounds, self._learns

        def sending(origin: Origin) -> Sending:
            proxy = proxies.choose(origin)
            wanted = learns and origin.scheme == "https" and proxy is None
            return Sending(pool, Route.to(origin, proxy), limits, bounds=bounds, learns=wanted)

        return sending

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
        response = send(self._prepare(method, url, pairs(headers), content, json, options))
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
        with send(self._prepare(method, url, pairs(headers), content, json, options)) as response:
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
        address = parse(url)
        request = Request(method, address.target, address.authority, fields, content)
        if fields:
            request.believe()
        options = timeout, trailers, expect_continue, on_informational, decode
        call = self._complete(request, address, options)
        if target is not None:
            request.target = target
        return send(call)

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
        options: _Options = timeout, (), False, on_informational, decode
        made = (self._prepare("GET", url, given, None, None, options) for url in urls)
        return send_all(made, ahead)

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

    def _prepare(
        self,
        method: str,
        url: str,
        given: list[Field],
        content: Content,
        json: Any,
        options: _Options,
    ) -> Call:
        address = parse(url)
        fields = self._fields
        if json is not None:
            content = json_codec.dumps(json, separators=(",", ":"))
            given = with_defaults([("content-type", "application/json")], given)
        if address.authorization is not None:
            given = with_defaults([("authorization", address.authorization)], given)
        if given:
            fields = with_defaults(fields, given)
        request = Request(method, address.target, address.authority, fields, content)
        if given or self._believes:
            request.believe()
        return self._complete(request, address, options)

    def _complete(self, request: Request, address: Address, options: _Options) -> Call:
        """Fill in what depends on the route and the options."""
        how = self._how(address.origin)
        if how.route.forwards and how.route.proxy is not None:
            request.target = address.url
            request.add(how.route.proxy.fields)
        if options == _NO_OPTIONS:
            return Call(request, address, how)
        timeout, trailers, expect_continue, on_informational, decode = options
        if expect_continue:
            request.expect_continue()
        request.follow(trailers)
        limits = timeouts(timeout, self._timeouts)
        how = how._replace(limits=limits, decodes=decode, on_informational=on_informational)
        return Call(request, address, how)
