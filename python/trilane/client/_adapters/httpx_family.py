"""What the transports for HTTPX and for HTTPX2 have in common.

The two libraries have the same names and meanings, in modules of their own; a transport finds them
through its class's `library`. HTTPX decodes content, follows redirects and keeps cookies; the
transport sends one request, and hands its response over as it comes.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import lru_cache, partial
from types import ModuleType
from typing import Any, Final, Protocol

from trilane.client import errors
from trilane.client._adapters.httpx_trace import (
    AsyncSteps,
    BlockingSteps,
    NetworkStream,
    Steps,
)
from trilane.client._aio import AsyncClient, AsyncResponse
from trilane.client._flow.altsvc import Scope
from trilane.client._flow.origins import DEFAULT_PORTS, Origin
from trilane.client._flow.proxies import SOCKS_PORT
from trilane.client._flow.resolving import Resolver
from trilane.client._flow.routes import VERSIONS, Proxy
from trilane.client._flow.timeouts import Timeouts
from trilane.client._pool import Client, Response
from trilane.client.tls import Certificate, Pins, Verify

_NAMES: Final = {"h1": b"HTTP/1.1", "h1.0": b"HTTP/1.0", "h2": b"HTTP/2", "h3": b"HTTP/3"}
# The first that fits; the names are those of the library's exceptions.
_EXCEPTIONS: Final[tuple[tuple[type[errors.Error], str], ...]] = (
    (errors.ConnectTimeout, "ConnectTimeout"),
    (errors.ReadTimeout, "ReadTimeout"),
    (errors.WriteTimeout, "WriteTimeout"),
    (errors.PoolTimeout, "PoolTimeout"),
    (errors.ProxyError, "ProxyError"),
    (errors.ConnectFailed, "ConnectError"),
    (errors.LocalError, "LocalProtocolError"),
    (errors.RemoteError, "RemoteProtocolError"),
)
_BLOCK: Final = 64 * 1024
# What HTTPX means by None: no limit to connections, and none to how long they lie idle.
_MANY: Final = 1_000_000
_LONG_S: Final = 30 * 86400.0

# Most requests have the same.
_limits = lru_cache(64)(Timeouts)

Pairs = list[tuple[bytes, bytes]]


class Limits(Protocol):
    """`httpx.Limits`."""

    max_connections: int | None
    keepalive_expiry: float | None


class Family:
    """What a transport of either kind, blocking or not, is made of."""

    client_class: type[Client | AsyncClient]

    library: ModuleType
    """`httpx` or `httpx2`."""
    stream_class: type[Any]
    """What a response's content is: `BlockingStream` or `AsyncioStream`, as the library's own."""

    def __init__(  # noqa: PLR0913 - by name, as in HTTPX's own
        self,
        verify: Verify = True,
        cert: Certificate = None,
        *,
        versions: Sequence[str] = VERSIONS,
        limits: Limits | None = None,
        proxy: Any = None,
        uds: str | None = None,
        local_address: str | None = None,
        retries: int = 0,
        alternatives: Scope = "same-host",
        resolver: Resolver | None = None,
        pins: Pins | None = None,
        minimum_tls: str | None = None,
        timings: bool = False,
    ) -> None:
        """What HTTPX's own transports take, and which versions may be spoken.

        verify, cert: as for `trilane.client.Client`; an `ssl.SSLContext` is understood too.
        versions: of "h1", "h2" and "h3". HTTP/3 is used where the server announces it (`Alt-Svc`).
        limits: of HTTPX's `Limits`, `max_connections` and `keepalive_expiry` count; all requests to
            an origin share a connection of HTTP/2 or HTTP/3.
        proxy: its URL, or HTTPX's `Proxy`: http://, https:// (TLS to the proxy itself), socks5://
            or socks5h://. To https:// it makes a tunnel.
        uds: path of a Unix socket to connect to. local_address: address to connect from.
        retries: how often a connection that cannot be made is tried again.
        alternatives: on which hosts HTTP/3 is used; see `trilane.client.Client`.
        resolver, pins, minimum_tls: as for `trilane.client.Client`.
        timings: whether responses have the extensions `timings` and `traffic`: functions that give
            the `timings` and the `traffic` of a response of `trilane.client`, as they are by then.

        Raises:
            ValueError: a proxy is of another kind, a version does not exist, `retries` is
                negative, or a pin or a version of TLS is none.
        """
        if retries < 0:
            raise ValueError(f"retries is {retries}: give 0 or more")
        if limits is None:
            limits = self.library.Limits(max_connections=100, keepalive_expiry=5.0)
        most, expiry = limits.max_connections, limits.keepalive_expiry
        self.retries = retries
        self._timings = timings
        self._local_address = local_address
        self._client: Any = self.client_class(
            versions=versions,
            verify=verify,
            cert=cert,
            proxies=None if proxy is None else self._proxy(proxy),
            max_connections=_MANY if most is None else most,
            idle_timeout=_LONG_S if expiry is None else expiry,
            alternatives=alternatives,
            source=None if local_address is None else (local_address, 0),
            unix=uds,
            resolver=resolver,
            pins=pins,
            minimum_tls=minimum_tls,
            timings=timings,
        )

    def _proxy(self, given: Any) -> Proxy:
        """A proxy from what HTTPX takes: a URL, a string, or its own `Proxy`."""
        if not isinstance(given, self.library.Proxy):
            given = self.library.Proxy(given)
        url = given.url
        if given.ssl_context is not None:
            raise ValueError(
                "the Proxy has an ssl_context: certificates of a proxy are verified as those of"
                " servers are, by the transport's verify="
            )
        if url.scheme.startswith("socks"):
            auth, port = given.raw_auth, url.port or SOCKS_PORT
            return Proxy(Origin(url.scheme, url.raw_host.decode("ascii"), port), (), auth)
        fields = [_text(pair) for pair in given.headers.raw]
        if given.raw_auth is not None:
            user, password = given.raw_auth
            token = base64.b64encode(user + b":" + password).decode("ascii")
            fields.append(("proxy-authorization", f"Basic {token}"))
        port = url.port or DEFAULT_PORTS[url.scheme]
        origin = Origin(url.scheme, url.raw_host.decode("ascii"), port)
        return Proxy(origin, tuple(fields))

    def prepared(self, request: Any, steps: Steps | None = None) -> Callable[[], Any]:
        """What sends a request, any number of times. `steps` are told of its way.

        Raises:
            UnsupportedProtocol, LocalProtocolError: the library's, for what cannot be sent.
        """
        url = request.url
        if url.scheme not in DEFAULT_PORTS:
            # In the library's own words: its users know them.
            raise self.library.UnsupportedProtocol(
                f"Request URL has an unsupported protocol '{url.scheme}://'."
                if url.scheme
                else "Request URL is missing an 'http://' or 'https://' protocol."
            )
        extensions = request.extensions
        place = f"{url.scheme}://{url.netloc.decode('ascii')}{url.raw_path.decode('ascii')}"
        target: bytes | None = extensions.get("target")
        given = extensions.get("timeout") or {}
        limits = _limits(
            given.get("connect"), given.get("read"), given.get("write"), given.get("pool")
        )
        return partial(
            self._client.send,
            request.method,
            place,
            request.headers.raw,
            self.content(request),
            target=None if target is None else target.decode("ascii"),
            timeout=limits,
            server_name=extensions.get("sni_hostname"),
            on_step=steps,
        )

    def response(self, answer: Response | AsyncResponse, steps: Steps | None = None) -> Any:
        """The library's response, its content unread."""
        trailers: Pairs = []
        extensions: dict[str, Any] = {
            "http_version": _NAMES[answer.version],
            "network_stream": NetworkStream(answer),
            "trailing_headers": trailers,
        }
        if answer.version in {"h2", "h3"}:
            extensions["stream_id"] = answer.stream_id
        else:
            extensions["reason_phrase"] = answer.reason.encode("latin-1")
        if self._timings:
            extensions["timings"] = lambda: answer.timings
            extensions["traffic"] = lambda: answer.traffic
        fields = raw(answer.fields)
        # What has come with the head is handed over at once, in the library's own stream.
        content = None if steps is not None else answer.arrived()
        if content is None:
            stream = self.stream_class(self, answer, trailers, steps)
        else:
            stream = self.library.ByteStream(content)
            trailers += raw(answer.trailers.pairs)
        return self.library.Response(
            answer.status, headers=fields, stream=stream, extensions=extensions
        )

    def content(self, request: Any) -> Any:
        """The content of a request: bytes that lie in memory, a stream, or None."""
        try:
            return request.content or None
        except self.library.RequestNotRead:
            stream = request.stream
            # After a redirect it comes as a stream, empty where there is no content.
            return (
                b"".join(stream) or None if isinstance(stream, self.library.ByteStream) else stream
            )

    def failed(self, error: errors.Error, steps: Steps | None) -> Exception:
        """What to raise for one of our errors in the content of a response."""
        if steps is not None:
            steps.fail(error)
        # ClientClosed is a RuntimeError, as the library's own clients raise.
        return error if isinstance(error, errors.ClientClosed) else self.translation(error)

    def left(self, error: errors.Error, left: int) -> int:
        """How often the request may still be tried after one of our errors, of `left` times.

        Raises:
            TransportError: the library's, where there is no other try.
        """
        if left and isinstance(error, errors.ConnectFailed):
            return left - 1
        raise self.translation(error) from error

    def translation(self, error: errors.Error) -> Exception:
        """The library's exception for one of ours."""
        if isinstance(error, errors.StreamReset) and error.error_code is None:
            name = "ReadError"  # The connection was reset, not the stream.
        else:
            fitting = (name for kind, name in _EXCEPTIONS if isinstance(error, kind))
            name = next(fitting, "TransportError")
        made: Exception = getattr(self.library, name)(str(error))
        return made


class BlockingTransport(Family):
    """For the library's `Client`; threads share connections."""

    client_class = Client
    _client: Client

    def handle_request(self, request: Any) -> Any:
        """Send one request.

        Raises:
            TransportError: the library's, with ours as its cause; what the content raises passes
                through.
        """
        trace, steps = request.extensions.get("trace"), None
        if trace is not None:
            steps = BlockingSteps(trace, request, self._local_address)
        send, left = self.prepared(request, steps), self.retries
        while True:
            try:
                response = self.response(send(), steps)
                if steps is not None:
                    steps.answered(response)
                return response  # noqa: TRY300 - the usual way
            except errors.Error as error:
                left = self.left(error, left)

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._client.close(abort=True)


class AsyncioTransport(Family):
    """For the library's `AsyncClient`, on asyncio or Trio; thousands of tasks share connections.

    It belongs to the event loop, or the run of Trio, of its first request.
    """

    client_class = AsyncClient
    _client: AsyncClient

    async def handle_async_request(self, request: Any) -> Any:
        """Send one request.

        Raises:
            TransportError: the library's, with ours as its cause; what the content raises passes
                through.
        """
        trace, steps = request.extensions.get("trace"), None
        if trace is not None:
            steps = AsyncSteps(trace, request, self._local_address)
        send, left = self.prepared(request, steps), self.retries
        while True:
            try:
                response = self.response(await send(), steps)
                if steps is not None:
                    steps.answered(response)
                    await steps.told()
                return response  # noqa: TRY300 - the usual way
            except errors.Error as error:
                if steps is not None:
                    await steps.told()
                left = self.left(error, left)

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        await self._client.aclose()


class _Stream:
    """The content of a response, and the list that takes its trailers."""

    def __init__(self, family: Family, response: Any, trailers: Pairs, steps: Any) -> None:
        self._family = family
        self._response = response
        self._trailers = trailers
        self._steps = steps


class BlockingStream(_Stream):
    """The content of a response, as the library's SyncByteStream."""

    def __iter__(self) -> Iterator[bytes]:
        steps = self._steps
        if steps is not None:
            steps.reads()
        try:
            yield from self._response.iter_raw(_BLOCK)
        except errors.Error as error:
            raise self._family.failed(error, steps) from error
        self._trailers += raw(self._response.trailers.pairs)
        if steps is not None:
            steps.end(None)

    def close(self) -> None:
        """Give the connection back."""
        self._response.close()
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.closes()


class AsyncioStream(_Stream):
    """The content of a response, as the library's AsyncByteStream."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        steps = self._steps
        if steps is not None:
            steps.reads()
        try:
            while piece := await self._response.read1(_BLOCK):
                yield piece
        except errors.Error as error:
            raise self._family.failed(error, steps) from error
        self._trailers += raw(self._response.trailers.pairs)
        if steps is not None:
            steps.end(None)

    async def aclose(self) -> None:
        """Give the connection back."""
        await self._response.aclose()
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.closes()
            await steps.told()


def raw(fields: Sequence[tuple[str, str]]) -> Pairs:
    """Fields as the library keeps them."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]


def _text(pair: tuple[bytes, bytes]) -> tuple[str, str]:
    return pair[0].decode("latin-1"), pair[1].decode("latin-1")
