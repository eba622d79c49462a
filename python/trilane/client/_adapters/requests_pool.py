"""urllib3's pools with our client under them.

urllib3 keeps deciding what it decides for Requests: which origins and TLS settings share a pool,
what is retried, which exception says what. A pool asks a "connection" of its own making to send a
request and to give the response (`urllib3.connection.HTTPConnection` is the documented place to put
another one). Ours is only a seat: the pool's `Client` has the real connections, and many seats
share one of HTTP/2 or HTTP/3.
"""

from __future__ import annotations

import functools
import logging
import re
import ssl
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from http.client import ResponseNotReady
from types import MappingProxyType
from typing import Any, Final

from urllib3 import (
    BaseHTTPResponse,
    HTTPConnectionPool,
    HTTPSConnectionPool,
    PoolManager,
    Retry,
    Timeout,
)
from urllib3.exceptions import (
    ClosedPoolError,
    ConnectTimeoutError,
    InvalidHeader,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
)
from urllib3.poolmanager import PoolKey
from urllib3.util import SKIP_HEADER, parse_url
from urllib3.util.util import to_str

from trilane.client import errors
from trilane.client._adapters.requests_response import RawResponse
from trilane.client._flow.origins import Origin
from trilane.client._flow.routes import Proxy
from trilane.client._flow.timeouts import Timeouts
from trilane.client._pool import Client
from trilane.client._pool.response import Response

_UNSUPPORTED: Final = (
    "assert_fingerprint",
    "assert_hostname",
    "ca_cert_data",
    "key_password",
    "server_hostname",
    "socket_options",
    "ssl_maximum_version",
    "ssl_minimum_version",
    "ssl_version",
)
"""Arguments of urllib3's pools that change what to trust, and that this pool cannot obey."""

_MOST_KEYS: Final = 256
"""Keys of pools that are kept; most programs have fewer origins."""

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


# All that Requests gives `urlopen` by name, and what it has read; another caller may want more.
_OF_REQUESTS: Final = frozenset(
    {
        "assert_same_host",
        "chunked",
        "decode_content",
        "preload_content",
        "redirect",
        "retries",
        "timeout",
    }
)
_PLAIN: Final = re.compile(r"/[-/A-Za-z0-9._~!$&'()*+,;=:@?]*")
"""Targets that urllib3 sends as they are."""
_log: Final = logging.getLogger("urllib3.connectionpool")


class Seat:
    """What urllib3 takes for a connection: one request and its response at a time."""

    is_closed = False
    is_connected = True
    proxy_is_verified = None

    def __init__(self, pool: HTTPPool) -> None:
        self.host = pool.host
        self.port = pool.port
        self.proxy = pool.proxy
        self.timeout: float | None = None
        """Seconds: urllib3 sets the connect timeout before `request`, then the read timeout."""
        self.is_verified = pool.verifies
        self.has_connected_to_proxy = False
        self._pool = pool
        self._prepared: tuple[str, str, list[tuple[str, str | bytes]], Any, float | None] | None
        self._prepared = None

    def __str__(self) -> str:
        return f"{type(self).__name__}(host={self.host!r}, port={self.port!r})"

    def close(self) -> None:
        """Nothing is held: the response owns its exchange, the client its connections."""

    def request(
        self,
        method: str,
        url: str,
        body: Any = None,
        headers: Mapping[str, str | bytes] | None = None,
        **_options: object,
    ) -> None:
        """Prepare a request. It is sent by `getresponse`, when both timeouts are known."""
        self._prepared = method, url, _compose(url, headers or {}), body, self.timeout

    def getresponse(self) -> RawResponse:
        """Send what was prepared and wait for the head of the response."""
        if self._prepared is None:
            raise ResponseNotReady
        method, url, fields, content, connect_s = self._prepared
        self._prepared = None
        try:
            response = self._pool.send(
                method,
                self._pool.base,
                fields,
                content,
                target=url,
                timeout=Timeouts(connect_s, self.timeout, self.timeout, None),
            )
        except errors.Error as error:
            # What goes wrong behind the tunnel is not the proxy's fault.
            self.has_connected_to_proxy = not isinstance(error, errors.ConnectFailed) or isinstance(
                error, errors.TLSError
            )
            translated = self._translated(error, connect_s)
            if translated is None:
                raise
            raise translated from error
        return RawResponse(response, method=method, url=url)

    def respond(
        self,
        method: str,
        url: str,
        body: Any,
        headers: Mapping[str, str | bytes],
        *,
        retries: Retry,
        timeout: Timeout,
        **_options: object,
    ) -> RawResponse:
        """`request` and `getresponse`, with what urllib3 does between them and after."""
        self.timeout = Timeout.resolve_default_timeout(timeout.connect_timeout)
        self.request(method, url, body, headers)
        self.timeout = Timeout.resolve_default_timeout(timeout.read_timeout)
        response = self.getresponse()
        response.retries = retries
        # As urllib3 sets them.
        response._pool, response._connection = self._pool, self  # type: ignore[assignment] # noqa: SLF001
        return response

    def _translated(self, error: errors.Error, connect_s: float | None) -> Exception | None:
        """urllib3's exception, or None where ours inherits the builtin that urllib3 looks for."""
        seat: Any = self
        translated: Exception | None = None
        match error:
            case errors.ConnectTimeout():
                translated = ConnectTimeoutError(
                    seat, f"Connection to {self.host} timed out. (connect timeout={connect_s})"
                )
            case errors.ResolveError():
                translated = NameResolutionError(self.host, seat, error)
            case errors.TLSError() | errors.ProxyError():
                pass
            case errors.ConnectFailed():
                translated = NewConnectionError(
                    seat, f"Failed to establish a new connection: {error}"
                )
            case errors.RemoteProtocolError() if "Content-Length" in str(error):
                # urllib3 finds two lengths that contradict each other on its own.
                translated = InvalidHeader(str(error))
            case errors.WriteTimeout():
                translated = ProtocolError("Connection aborted.", error)
            case errors.ClientClosed():
                translated = ClosedPoolError(self._pool, "Pool is closed.")
        return translated


class FailedSeat(Seat):
    """One whose request has failed. It is given to urllib3 as how long to wait for a seat."""

    def __init__(self, pool: HTTPPool, seat: Seat, error: Exception) -> None:
        super().__init__(pool)
        self.has_connected_to_proxy = seat.has_connected_to_proxy
        self._error = error

    def getresponse(self) -> RawResponse:
        """Fail, as it has."""
        raise self._error


class HTTPPool(HTTPConnectionPool):
    """The requests to one origin without TLS, or to a proxy that forwards them."""

    def __init__(
        self,
        host: str,
        port: int | None = None,
        *,
        versions: Sequence[str],
        socks: Proxy | None = None,
        settings: Mapping[str, Any] = _NONE,
        **options: Any,
    ) -> None:
        """`settings` are of the pool's `Client`."""
        refused = [name for name in _UNSUPPORTED if options.get(name) is not None]
        if refused:
            raise ValueError(f"TrilaneAdapter has no {', '.join(refused)}: leave it out")
        super().__init__(host, port, **options)
        self.versions = tuple(versions)
        self.socks = socks
        self._settings = settings
        self.pool_size = options.get("maxsize", 1)
        host = f"[{self.host}]" if ":" in self.host else self.host
        # With a path, which `target` replaces: so the origin is found among those parsed before.
        self.base = f"{self.scheme}://{host}:{self.port}/"
        self._making = threading.Lock()
        self._client: Client | None = None

    @property
    def verifies(self) -> bool:
        """Whether certificates are verified: without TLS there are none."""
        return False

    def send(self, *request: Any, **options: Any) -> Response:
        """`Client.send` of this pool's client."""
        while True:
            try:
                return self._current().send(*request, **options)
            except errors.ClientClosed:
                # Another thread has closed the session, and nothing was sent yet: begin anew, as a
                # session that was closed can be used again.
                if self.pool is None:
                    raise

    def _current(self) -> Client:
        """The client, made when it is first needed."""
        client = self._client
        if client is None:
            with self._making:
                client = self._client
                if client is None:
                    client = self._client = self._new_client()
        return client

    def close(self) -> None:
        """Close as `retire` does; requests raise ClosedPoolError from now on."""
        super().close()
        self.retire()

    def retire(self) -> None:
        """Close what lies idle, and the rest when its responses end; later requests start anew."""
        with self._making:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _new_client(self) -> Client:
        return self._client_with(proxies=self.socks)

    def _client_with(self, **options: Any) -> Client:
        # What urllib3 calls `block` bounds connections; without it nobody waits for one.
        size = max(1, self.pool_size) if self.block else sys.maxsize
        return Client(
            **options,
            **self._settings,
            versions=self.versions,
            max_connections=size,
            source=self.conn_kw.get("source_address"),
        )

    def urlopen(
        self,
        method: str,
        url: str,
        body: Any = None,
        headers: Any = None,
        *more: Any,
        **options: Any,
    ) -> BaseHTTPResponse:
        """As urllib3's, which costs as much as the request, where it has anything to decide.

        A request that is not sent again, whatever comes, is sent at once. What fails is told to
        urllib3 as the failure of its connection, so that it raises what it always does.
        """
        if self._decides_nothing(url, headers, options):
            seat = Seat(self)
            try:
                return seat.respond(method, url, body, headers, **options)
            except Exception as error:  # noqa: BLE001 - urllib3 raises it, or what it makes of it
                options["pool_timeout"] = FailedSeat(self, seat, error)
        return super().urlopen(method, url, body, headers, *more, **options)

    def _decides_nothing(self, url: str, headers: Any, options: Mapping[str, Any]) -> bool:
        """Whether urllib3 would change nothing of the request, and take any response."""
        retries, timeout = options.get("retries"), options.get("timeout")
        return (
            headers is not None
            and options.keys() == _OF_REQUESTS
            and not options["redirect"]
            and not options["preload_content"]
            and isinstance(retries, Retry)
            and retries.total is not None
            and not retries.total
            and not retries.status_forcelist
            and isinstance(timeout, Timeout)
            and timeout.total is None
            and timeout.read_timeout != 0
            and self.proxy is None
            and self.pool is not None
            and (self.verifies or self.scheme == "http")
            and _PLAIN.fullmatch(url) is not None
            and not _log.isEnabledFor(logging.DEBUG)
        )

    def _get_conn(self, timeout: float | Seat | None = None) -> Seat:  # type: ignore[override]
        # The client waits for a connection, where `block` limits them.
        if self.pool is None:
            raise ClosedPoolError(self, "Pool is closed.")
        return timeout if isinstance(timeout, Seat) else Seat(self)

    def _put_conn(self, conn: object) -> None:
        """Nothing to keep."""


class HTTPSPool(HTTPPool, HTTPSConnectionPool):
    """The requests to one origin with one set of TLS options, through a proxy or not."""

    def __init__(self, *place: Any, **options: Any) -> None:
        super().__init__(*place, **options)
        # To a proxy over TLS that forwards requests, the pool is one of the proxy itself.
        self._forwards = self.proxy is not None and (self.host, self.port) == self.proxy[2:4]
        # Requests takes them away before a request for http, but the proxy has a certificate.
        self._of_proxy = self.cert_reqs, self.ca_certs or self.ca_cert_dir

    @property
    def verifies(self) -> bool:
        """Whether certificates are verified; urllib3 warns for each request where they are not."""
        wanted = self._of_proxy[0] if self._forwards else self.cert_reqs
        return wanted not in {"CERT_NONE", ssl.CERT_NONE}

    def _new_client(self) -> Client:
        files = self._of_proxy[1] if self._forwards else self.ca_certs or self.ca_cert_dir
        trusted = self.conn_kw.get("ssl_context") or files or True
        proxy = self.socks
        if self.proxy is not None and not self._forwards:
            origin = Origin(
                self.proxy.scheme or "http", self.proxy.host or "", self.proxy.port or 80
            )
            proxy = Proxy(origin, tuple(self.proxy_headers.items()))
        return self._client_with(
            verify=trusted if self.verifies else False,
            cert=(self.cert_file, self.key_file) if self.key_file else self.cert_file,
            proxies=proxy,
        )


class Pools:
    """Makes the pools of one adapter, for urllib3's managers, and remembers those in use."""

    def __init__(self, versions: tuple[str, ...], settings: Mapping[str, Any]) -> None:
        self._versions = versions
        self._settings = settings
        self._lock = threading.Lock()
        self._made: weakref.WeakSet[HTTPPool] = weakref.WeakSet()

    def take_over(self, manager: PoolManager, socks: Proxy | None = None) -> None:
        """Let urllib3's manager make our pools, and find them quicker.

        `socks` is a SOCKS proxy that all of them go through.
        """
        # What makes a pool: no classes, but a manager does nothing else with them.
        classes: dict[str, Any] = {
            "http": functools.partial(self._make, HTTPPool, socks=socks),
            "https": functools.partial(self._make, HTTPSPool, socks=socks),
        }
        manager.pool_classes_by_scheme = classes
        keys: dict[str, Any] = {
            scheme: _Keys(make) for scheme, make in manager.key_fn_by_scheme.items()
        }
        manager.key_fn_by_scheme = keys

    def retire(self) -> None:
        """`retire` every pool."""
        with self._lock:
            pools = list(self._made)
        for pool in pools:
            pool.retire()

    def _make(self, kind: type[HTTPPool], host: str, port: int, **options: Any) -> HTTPPool:
        pool = kind(host, port, **options, versions=self._versions, settings=self._settings)
        with self._lock:
            self._made.add(pool)
        return pool


class _Keys:
    """The keys of pools by what they are made from, as urllib3 makes them; a request each asks."""

    def __init__(self, make: Callable[[dict[str, Any]], PoolKey]) -> None:
        self._make = make
        self._made: dict[tuple[tuple[str, Any], ...], PoolKey] = {}

    def __call__(self, context: dict[str, Any]) -> PoolKey:
        described = tuple(context.items())
        try:
            key = self._made.get(described)
        except TypeError:  # Headers of a proxy, for instance, have no hash.
            return self._make(context)
        if key is None:
            key = self._make(context)
            if len(self._made) >= _MOST_KEYS:
                self._made.clear()
            self._made[described] = key
        return key


def _compose(url: str, headers: Mapping[str, str | bytes]) -> list[tuple[str, str | bytes]]:
    """The fields, in the order of http.client.

    No `user-agent` of urllib3 is added, as it would not be true.
    """
    given = {to_str(name).lower() for name in headers}
    fields: list[tuple[str, str | bytes]] = []
    if "host" not in given and not url.startswith("/"):
        fields.append(("Host", parse_url(url).netloc or ""))
    if "accept-encoding" not in given:
        # Without the field any coding may be sent (RFC 9110 §12.5.3); http.client adds it too.
        fields.append(("Accept-Encoding", "identity"))
    fields += [(name, value) for name, value in headers.items() if value != SKIP_HEADER]
    return fields
