"""The names of hyper, the client for HTTP/2 that was archived in 2020, on this client.

`import trilane.client.hyper as hyper` takes the place of `import hyper`: `HTTPConnection`,
`HTTP20Connection`, `HTTP11Connection`, their responses with fields in bytes, and `HTTP20Adapter`
of `hyper.contrib`. What hyper had and is not here says so where it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Never, TypeAlias

from trilane.client import http
from trilane.client._flow.origins import authority, split
from trilane.client.hyper._headers import HTTPHeaderMap
from trilane.client.hyper._response import HTTP11Response, HTTP20Response

if TYPE_CHECKING:
    import ssl
    from typing import Self

    from trilane.client._flow.resolving import Resolver
    from trilane.client.hyper.contrib import HTTP20Adapter
    from trilane.client.tls import Pins

__all__ = [
    "HTTP11Connection",
    "HTTP11Response",
    "HTTP20Adapter",
    "HTTP20Connection",
    "HTTP20Response",
    "HTTPConnection",
    "HTTPHeaderMap",
]

Text: TypeAlias = str | bytes
Response: TypeAlias = HTTP11Response | HTTP20Response

_PROXY_PORT: Final = 8080
_BY_PARTS: Final = "give method, url, body and headers to request(), or use trilane.client.http"
_ABSENT: Final = {
    "putrequest": _BY_PARTS,
    "putheader": _BY_PARTS,
    "endheaders": _BY_PARTS,
    "send": _BY_PARTS,
    "ping": "PINGs are answered, and none can be sent",
    "receive_frame": "frames are read where a response is waited for",
    "window_manager": "windows are managed natively; a response that nobody reads waits",
    "HTTP20Push": "no server may push: browsers and servers have given it up",
}
"""What hyper had, and the way out."""


if not TYPE_CHECKING:  # For checkers there is no other name.

    def __getattr__(name: str) -> Any:
        if name == "HTTP20Adapter":
            # It needs Requests, which most who use the connections do not.
            from trilane.client.hyper.contrib import HTTP20Adapter as adapter  # noqa: PLC0415, N813

            return adapter
        raise AttributeError(_absent(f"module {__name__!r}", name))


def _absent(what: str, name: str) -> str:
    way_out = f": {_ABSENT[name]}" if name in _ABSENT else ""
    return f"{what} has no attribute {name!r}{way_out}"


class HTTPConnection:
    """A connection that speaks HTTP/2 where the server agrees to it by ALPN, else HTTP/1.1."""

    _default_port: ClassVar[int] = 80
    _over_tls: ClassVar[tuple[str, ...]] = ("h2", "h1")
    _in_clear: ClassVar[tuple[str, ...]] = ("h1",)

    def __init__(  # noqa: PLR0913 - hyper's own eight, and what verifies the server
        self,
        host: str,
        port: int | None = None,
        secure: bool | None = None,
        window_manager: Any = None,
        enable_push: bool = False,
        ssl_context: ssl.SSLContext | None = None,
        proxy_host: str | None = None,
        proxy_port: int | None = None,
        *,
        timeout: float | None = None,
        ca: str | None = None,
        verify: bool | str = True,
        cert: str | tuple[str, str] | None = None,
        resolver: Resolver | None = None,
        pins: Pins | None = None,
        minimum_tls: str | None = None,
    ) -> None:
        """Describe a connection; the first request makes it.

        host: a name or an address, with `:port` if you like.
        port: 80 if neither says, and 443 for `HTTP20Connection`.
        secure: TLS or not; by default only at port 443.
        ssl_context: as `context` of `trilane.client.http.HTTPConnection`, whose `ca`, `verify`,
            `cert`, `resolver`, `pins`, `minimum_tls` and `timeout` (seconds for one wait) are here.
        proxy_host, proxy_port: a proxy to go through, at 8080 unless one of them says otherwise.

        Raises:
            ValueError: an argument cannot be obeyed; the message says why.
        """
        if window_manager is not None:
            raise ValueError(f"window_manager={window_manager!r}: {_ABSENT['window_manager']}")
        if enable_push:
            raise ValueError(f"enable_push={enable_push!r}: {_ABSENT['HTTP20Push']}")
        if port is None:
            self.host, self.port = split(host, self._default_port)
        else:
            self.host, self.port = host.strip("[]"), port
        self.secure = self.port == http.HTTPS_PORT if secure is None else secure
        self.ssl_context = ssl_context
        self.proxy_host, self.proxy_port = proxy_host, proxy_port
        if proxy_host is not None and proxy_port is None:
            self.proxy_host, self.proxy_port = split(proxy_host, _PROXY_PORT)
        place = (self.proxy_host or self.host), (self.proxy_port or self.port)
        self._connection = http.HTTPConnection(
            *place,
            timeout,
            secure=self.secure,
            versions=self._over_tls if self.secure else self._in_clear,
            context=ssl_context,
            ca=ca,
            verify=verify,
            cert=cert,
            resolver=resolver,
            pins=pins,
            minimum_tls=minimum_tls,
        )
        self._base = ""
        if self.proxy_host is not None and self.secure:
            self._connection.set_tunnel(self.host, self.port)
        elif self.proxy_host is not None:
            self._base = f"http://{authority(self.host, self.port, http.HTTP_PORT)}"

    def request(
        self,
        method: str,
        url: str,
        body: str | bytes | Iterable[bytes] | None = None,
        headers: Mapping[Any, Any] | None = None,
    ) -> int:
        """Send a request and give its id: of the stream, or its number over HTTP/1.1.

        body: bytes, text (in UTF-8), a file, or an iterable of bytes.

        Raises:
            ValueError: what cannot be sent.
            errors.Error, OSError: no connection could be made.
        """
        if isinstance(body, str):
            body = body.encode()
        fields = {_plain(name): value for name, value in (headers or {}).items()}
        return self._connection.request(method, self._base + url, body, fields)

    def get_response(self, stream_id: int | None = None) -> Response:
        """The response to the request of that id, or to the oldest that has none yet.

        Raises:
            http.client.ResponseNotReady: there is no such request.
            errors.Error, OSError: the connection or the stream was lost, or it took too long.
        """
        response = self._connection.get_response(stream_id)
        return (HTTP20Response if response.version >= 20 else HTTP11Response)(response)

    def getresponse(self, stream_id: int | None = None) -> Response:
        """`get_response`, by its first name."""
        return self.get_response(stream_id)

    def get_pushes(
        self,
        stream_id: int | None = None,  # noqa: ARG002 - hyper's
        capture_all: bool = False,  # noqa: ARG002
    ) -> Iterator[Never]:
        """Nothing: the server is told that it may not push."""
        return iter(())

    def connect(self) -> None:
        """Connect, if there is no connection.

        Raises:
            errors.ConnectFailed: a ConnectionError.
        """
        if self._connection.sock is None:
            self._connection.connect()

    def close(self, error_code: int | None = None) -> None:  # noqa: ARG002 - hyper's
        """Close the connection. A later request makes another one."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    if not TYPE_CHECKING:  # For checkers there is no other name.

        def __getattr__(self, name: str) -> Never:
            raise AttributeError(_absent(type(self).__name__, name))

    def __repr__(self) -> str:
        scheme = "https" if self.secure else "http"
        place = authority(self.host, self.port, http.HTTPS_PORT if self.secure else http.HTTP_PORT)
        return f"<{type(self).__name__} {scheme}://{place}>"


class HTTP20Connection(HTTPConnection):
    """A connection that speaks HTTP/2 alone; without TLS the server has to be known to."""

    _default_port = http.HTTPS_PORT
    _over_tls = _in_clear = ("h2",)


class HTTP11Connection(HTTPConnection):
    """A connection that speaks HTTP/1.1 alone."""

    _over_tls = ("h1",)


def _plain(name: Text) -> Text:
    """A field's name; the pseudo-field `:authority` is what `host` says (RFC 9113 §8.3.1).

    Raises:
        ValueError: it is another pseudo-field.
    """
    text = name.decode("latin-1") if isinstance(name, bytes) else name
    if not text.startswith(":"):
        return name
    if text != ":authority":
        raise ValueError(f"the field {text} is made of the arguments of request(): leave it out")
    return "host"
