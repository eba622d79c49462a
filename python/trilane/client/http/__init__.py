"""The shape of `http.client` over HTTP/1.1, HTTP/2 and HTTP/3.

`import trilane.client.http as client` takes the place of `import http.client as client`: every
public name of that module is here, and three of them are our own, `HTTPConnection`,
`HTTPSConnection` and `HTTPResponse`. What is new: `request` returns the id of the request's stream,
any number of requests may be outstanding, and `get_response(stream_id)` takes their responses in
any order.
"""

from __future__ import annotations

import http.client as standard
import socket
import ssl
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPMessage, InvalidURL
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from trilane.client._flow.origins import authority
from trilane.client.http import _dial as dial
from trilane.client.http._request_builder import RequestBuilder
from trilane.client.http._response import VERSION_NAMES, message
from trilane.client.http._response import HTTPResponse as HTTPResponse

if TYPE_CHECKING:
    from typing import Self

    from trilane._core import Connection
    from trilane.client._flow.resolving import Resolver
    from trilane.client.http._sockets import SocketConnection, SocketLike
    from trilane.client.http._sockview import Sock
    from trilane.client.tls import Pins

__all__ = standard.__all__

HTTP_PORT: Final = 80
HTTPS_PORT: Final = 443

_DEFAULT: Final[Any] = socket._GLOBAL_DEFAULT_TIMEOUT  # type: ignore[attr-defined] # noqa: SLF001
"""Timeout: whatever `socket.setdefaulttimeout` says when the connection is made."""


def __getattr__(name: str) -> Any:
    """What is not ours is that of `http.client`: exceptions, status codes, `responses`."""
    return getattr(standard, name)


class HTTPConnection(RequestBuilder):
    """Requests to one server, and their responses, over one connection at a time.

    It connects when the first request is sent, and again when the connection has ended. Any number
    of threads may use it when they take responses by id.
    """

    default_port: ClassVar[int] = HTTP_PORT
    # In `http.client`, of the request that was begun last. urllib3 makes responses of proxies by
    # it, where it repairs `_tunnel` of older Pythons.
    _method: str | None = None
    # A test or a library may put a function like socket.create_connection here.
    _create_connection: Callable[..., Any] | None = None

    def __init__(  # noqa: PLR0913 - the five of http.client, and what it has no words for
        self,
        host: str,
        port: int | None = None,
        timeout: float | None = _DEFAULT,
        source_address: tuple[str, int] | None = None,
        blocksize: int = 65536,
        *,
        secure: bool | None = None,
        versions: Sequence[str] = ("h3", "h2", "h1"),
        context: ssl.SSLContext | None = None,
        ca: str | None = None,
        verify: dial.Verify = True,
        cert: dial.Certificate = None,
        resolver: Resolver | None = None,
        pins: Pins | None = None,
        minimum_tls: str | None = None,
    ) -> None:
        """Describes a connection; none is made yet.

        Args:
            host: name or address, with `:port` if you like.
            port: 443 or 80 if neither it nor `host` says.
            timeout: seconds that one wait may last: to connect, for a head, for a part of the
                content. None: no limit.
            source_address: address and port to connect from.
            blocksize: bytes that are read at once from a file that is sent.
            secure: TLS or not. None: TLS when the port is 443.
            versions: of HTTP, in any order: `h3`, `h2`, `h1`. Without TLS `h1` is spoken, and `h2`
                when it is named alone (prior knowledge, RFC 9113 §3.3).
            context: certificate authorities and verification as in this context of `ssl`; what
                rustls would not obey goes over Python's `ssl`, without HTTP/3, and with HTTP/2
                where the context names it by `set_alpn_protocols()`.
            ca: a file or a folder of certificate authorities to trust.
            verify: the same as `ca` or `context`; False: trust any server.
            cert: client certificate: a PEM file with its key, or certificate and key apart.
            resolver: as for `trilane.client.Client`.
            pins: as for `trilane.client.Client`.
            minimum_tls: "TLSv1.2", which is the default, or "TLSv1.3".

        Raises:
            InvalidURL: the host or the port is not one.
            ValueError: versions that cannot be had so; a pin or a version of TLS that is none.
        """
        super().__init__()
        self.timeout = timeout
        self.source_address = source_address
        self.blocksize = blocksize
        self._tunnel_host: str | None = None
        self._tunnel_port: int | None = None
        self._tunnel_headers: Mapping[str, str] = {}
        self._proxy_fields: list[tuple[str, str]] | None = None
        self._context = context
        self._verify: dial.Verify = context or ca or verify
        self._cert = cert
        self._resolver = resolver
        self._pins, self._minimum_tls = pins, minimum_tls
        if pins is not None or minimum_tls is not None:
            from trilane.client.tls import check  # noqa: PLC0415 - few have them

            check(pins, minimum_tls)
        self._sock: Sock | None = None
        if secure:
            self.default_port = HTTPS_PORT  # type: ignore[misc] # of this instance
        self.host, self.port = self._get_hostport(host, port)
        self.secure = self.port == HTTPS_PORT if secure is None else secure
        if self.secure:
            self.default_port = HTTPS_PORT  # type: ignore[misc]
        self.versions = dial.offered(versions, self.secure)
        self._validate_host(self.host)

    def __repr__(self) -> str:
        connection = self._connection
        if connection is None:
            state = "not connected"
        else:
            state = f"{connection.version}, {connection.outstanding} outstanding"
        scheme = "https" if self.secure else "http"
        place = authority(self.host, self.port, self.default_port)
        return f"<{type(self).__name__} {scheme}://{place}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The connection

    def _get_hostport(self, host: str, port: int | None) -> tuple[str, int]:
        name, digits = host, ""
        if port is None:
            before, colon, behind = host.rpartition(":")
            if colon and "]" not in behind:
                name, digits = before, behind
        if name.startswith("[") and name.endswith("]"):
            name = name[1:-1]
        if port is not None:
            return name, port
        if not digits:
            return name, self.default_port
        if not (digits.isascii() and digits.isdigit()):
            msg = f"nonnumeric port: '{digits}'"
            raise InvalidURL(msg)
        return name, int(digits)

    def set_debuglevel(self, level: int) -> None:
        """Prints what is sent and received when `level` is above 0."""
        self.debuglevel = level

    def set_tunnel(
        self, host: str, port: int | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Lets the next connection go through this host as a proxy, by CONNECT, to another.

        Raises:
            RuntimeError: there is a connection already.
        """
        if self.sock is not None:
            msg = "Can't set up tunnel for established connection"
            raise RuntimeError(msg)
        self._tunnel_host, self._tunnel_port = self._get_hostport(host, port)
        self._tunnel_headers = headers or {}

    def connect(self) -> None:
        """Makes a connection; `request` does it when there is none.

        Raises:
            errors.ConnectFailed: a ConnectionError: no address, refused, TLS, proxy.
            errors.ConnectTimeout: a TimeoutError.
        """
        sys.audit("http.client.connect", self, self.host, self.port)
        seconds = socket.getdefaulttimeout() if self.timeout is _DEFAULT else self.timeout
        self._wait.seconds = seconds
        self._authority = self._authority_of()
        to = dial.Destination(
            self.host,
            self.port,
            self.secure,
            self._authority,
            self.versions,
            self._verify,
            self._cert,
            self.source_address,
            self._wanted_tunnel(),
            self._resolver,
            self._pins,
            self._minimum_tls,
        )
        if self._create_connection is not None or dial.needs_openssl(self._verify):
            made = dial.over_python_socket(
                to,
                seconds,
                self._create_connection or socket.create_connection,
                self._print_answer if self.debuglevel else None,
            )
            self._foreign = made.sock
            self._proxy_fields = made.proxy_fields
            self._adopt(made)
        else:
            native = dial.native(to, seconds)
            self._proxy_fields = native.proxy_fields
            self._adopt(native)

    def _wanted_tunnel(self) -> dial.Tunnel | None:
        if self._tunnel_host is None or self._tunnel_port is None:
            return None
        host = _ascii(self._tunnel_host)
        return dial.Tunnel(host, self._tunnel_port, list(self._tunnel_headers.items()))

    def _tunnel(self) -> None:
        """Asks the proxy at the other end of `sock` for the tunnel.

        Subclasses for `http.client` whose `connect` sets `sock` call it, urllib3's for one.

        Raises:
            errors.ProxyError: an OSError; the proxy refused. The connection is closed.
        """
        wanted, proxy = self._wanted_tunnel(), self._connection
        if wanted is None or self._foreign is None:
            return
        try:
            answer = cast("SocketConnection", proxy).tunnel(*wanted)
        except BaseException:
            self.close()
            raise
        self._proxy_fields = answer[2]
        if self.debuglevel:
            self._print_answer(*answer)
        scheme = "https" if self.secure else "http"
        self._adopt(dial.behind(cast("SocketConnection", proxy), self._authority_of(), scheme))

    def get_proxy_response_headers(self) -> HTTPMessage | None:
        """The fields by which the proxy answered; None where none was asked for a tunnel yet."""
        fields = self._proxy_fields
        return None if fields is None else message(fields)

    @staticmethod
    def _print_answer(status: int, reason: str, fields: list[tuple[str, str]]) -> None:
        print("reply:", repr(f"HTTP/1.1 {status} {reason}\r\n"))
        for name, value in fields:
            print("header:", name + ":", value)

    def _authority_of(self) -> str:
        host, port = self.host, self.port
        if self._tunnel_host is not None and self._tunnel_port is not None:
            host, port = self._tunnel_host, self._tunnel_port
        return authority(_ascii(host), port, self.default_port)

    @property
    def _http_vsn_str(self) -> str:
        """In `http.client`, what stands in requests; urllib3 has it of responses."""
        connection = self._connection
        return VERSION_NAMES["h1" if connection is None else connection.version]

    @property
    def sock(self) -> Any:
        """The socket: None without a connection, what was set here, or a view of a native one."""
        if self._foreign is not None:
            return self._foreign
        connection = self._connection
        if connection is None:
            return None
        if self._sock is None:
            from trilane.client.http._sockview import Sock  # noqa: PLC0415 - rarely needed

            self._sock = Sock(cast("Connection", connection), self._wait, self._forget)
        return self._sock

    @sock.setter
    def sock(self, sock: SocketLike | None) -> None:
        self._foreign = None
        if sock is None:
            self._forget()
            return
        from trilane.client.http._sockets import SocketConnection  # noqa: PLC0415 - rarely needed

        before = self._connection
        if isinstance(before, SocketConnection) and not before.outstanding:
            before.close_file()
        self._authority = self._authority_of()
        connection = SocketConnection(
            sock,
            authority=self._authority,
            scheme="https" if self.secure else "http",
            version=dial.spoken(sock, self.versions),
        )
        self._foreign = sock
        self._adopt(connection)

    def _adopt(self, connection: Connection | SocketConnection | None) -> None:
        self._sock = None
        super()._adopt(connection)

    def _forget(self) -> None:
        with self._lock:
            self._connection = self._foreign = self._sock = None

    def _release(self, connection: Connection | SocketConnection) -> None:
        if self._connection is connection:
            self._foreign = self._sock = None
        super()._release(connection)

    def fileno(self) -> int:
        """The descriptor of the connection.

        Raises:
            NotConnected: there is none.
        """
        if self.sock is None:
            raise standard.NotConnected
        return int(self.sock.fileno())

    def close(self) -> None:
        """Ends the connection and every request and response on it. Idempotent.

        A later request makes a new connection.
        """
        with self._lock:
            connection = self._connection
            self._forget()
            self._outstanding.clear()
            self._waiting.clear()
            self._open = self._upload = None
        if connection is not None:
            connection.close()


class HTTPSConnection(HTTPConnection):
    """`HTTPConnection` over TLS, or QUIC, whatever the port."""

    default_port: ClassVar[int] = HTTPS_PORT

    def __init__(
        self,
        host: str,
        port: int | None = None,
        key_file: str | None = None,
        cert_file: str | None = None,
        timeout: float | None = _DEFAULT,
        source_address: tuple[str, int] | None = None,
        *,
        check_hostname: bool | None = None,
        **options: Any,
    ) -> None:
        """See `HTTPConnection`; `key_file`, `cert_file` and `check_hostname` as in Python 3.11.

        Raises:
            ValueError: `check_hostname` for a context that verifies nothing.
        """
        if key_file is not None or cert_file is not None or check_hostname is not None:
            warnings.warn(
                "key_file, cert_file and check_hostname are deprecated: give cert, or a context",
                DeprecationWarning,
                stacklevel=2,
            )
        context = options.get("context")
        if check_hostname is not None and isinstance(context, ssl.SSLContext):
            context.check_hostname = check_hostname
        if cert_file is not None:
            options["cert"] = cert_file if key_file is None else (cert_file, key_file)
        super().__init__(host, port, timeout, source_address, **{**options, "secure": True})


def _ascii(host: str) -> str:
    """A host as it goes over the wire: by IDNA where it is not ASCII."""
    return host if host.isascii() else host.encode("idna").decode("ascii")
