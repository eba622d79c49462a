"""How a connection in the shape of `http.client` is made."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from trilane.client._greenlets import connect
from trilane.client.errors import ConnectTimeout, VersionUnavailable

if TYPE_CHECKING:
    from trilane._core import Connection
    from trilane.client._flow.request import Field
    from trilane.client._flow.resolving import Resolver
    from trilane.client.http._sockets import SocketConnection
    from trilane.client.tls import Pins

Verify = bool | str | ssl.SSLContext | None
Certificate = str | tuple[str, str] | None


class Tunnel(NamedTuple):
    """What a proxy is asked for by CONNECT (RFC 9110 §9.3.6)."""

    host: str
    port: int
    fields: list[Field]


class Destination(NamedTuple):
    """Where a connection goes, and how."""

    host: str
    port: int
    secure: bool
    authority: str
    versions: tuple[str, ...]
    verify: Verify
    certificate: Certificate
    source: tuple[str, int] | None
    tunnel: Tunnel | None
    resolver: Resolver | None = None
    pins: Pins | None = None
    minimum_tls: str | None = None

    def addresses(self) -> list[str] | None:
        """Those of what is connected to, where the caller knows them.

        Raises:
            errors.ResolveError: what the resolver says is none.
        """
        if self.resolver is None:
            return None
        from trilane.client._flow.resolving import resolved  # noqa: PLC0415 - few have one

        return resolved(self.resolver, self.host, self.port)


def offered(versions: Sequence[str], secure: bool) -> tuple[str, ...]:
    """The versions that can be had: without TLS, HTTP/1.1, or HTTP/2 alone by prior knowledge.

    Raises:
        ValueError: a name that is none of `h1`, `h2`, `h3`, or none that can be had.
    """
    unknown = [version for version in versions if version not in ("h1", "h2", "h3")]
    if unknown or not versions:
        msg = f"versions={tuple(versions)!r}: name one or more of 'h3', 'h2', 'h1'"
        raise ValueError(msg)
    if secure:
        return tuple(versions)
    if tuple(versions) == ("h2",):
        return ("h2",)
    if "h1" not in versions:
        msg = (
            f"versions={tuple(versions)!r} need TLS: use HTTPSConnection or secure=True, add 'h1', "
            "or give ('h2',) alone where the server is known to speak HTTP/2 without TLS"
        )
        raise ValueError(msg)
    return ("h1",)


def native(to: Destination, timeout: float | None) -> Connection:
    """A native connection.

    Raises:
        errors.ConnectFailed, errors.ConnectTimeout: none could be made.
    """
    tls = None
    if to.secure:
        from trilane.client.tls import tls_maker  # noqa: PLC0415 - only with TLS

        tls = tls_maker(to.verify, to.certificate, to.pins, to.minimum_tls)()
    server: Destination | Tunnel = to
    versions = to.versions
    proxy: tuple[str, int, list[Field]] | None = None
    if to.tunnel is not None:
        server, proxy = to.tunnel, (to.host, to.port, to.tunnel.fields)
        # A tunnel carries TCP.
        versions = tuple(version for version in versions if version != "h3")
    return connect(
        server.host,
        server.port,
        scheme="https" if to.secure else "http",
        versions=versions,
        tls=tls,
        timeout=timeout,
        source=to.source,
        proxy=proxy,
        addresses=to.addresses(),
    )


def needs_openssl(verify: Verify) -> bool:
    """Whether a context asks for what only Python's `ssl` does.

    That is a setting that rustls does not obey, a chain without a name, or authorities that it does
    not show: those of a folder, which OpenSSL reads when it needs them, and certificates that are
    trusted though no authority's.
    """
    if not isinstance(verify, ssl.SSLContext):
        return False
    from trilane.client.tls import not_obeyed  # noqa: PLC0415 - only with TLS

    if not_obeyed(verify):
        return True
    if verify.verify_mode == ssl.CERT_NONE:
        return False
    stored = verify.cert_store_stats()
    return not verify.check_hostname or not 0 < stored["x509"] == stored["x509_ca"]


def over_python_socket(
    to: Destination,
    timeout: float | None,
    create: Callable[..., Any] = socket.create_connection,
    answered: Callable[[int, str, list[tuple[str, str]]], None] | None = None,
) -> SocketConnection:
    """A connection over a socket that `create` makes, wrapped by the context in `to.verify`.

    Raises:
        errors.VersionUnavailable: none of the versions can be had over such a socket, or the peer
            chose none of them.
        ValueError: there are settings that Python's sockets do not obey.
        ConnectTimeout: there is no connection in time.
        OSError: no connection, TLS or tunnel could be made.
    """
    from trilane.client.http._sockets import SocketConnection  # noqa: PLC0415 - rarely needed

    _refuse(to)
    scheme = "https" if to.secure else "http"
    host = (to.addresses() or [to.host])[0]
    try:
        sock: Any = create((host, to.port), timeout, to.source)
    except TimeoutError as error:
        msg = f"no connection to {to.host}:{to.port} within {timeout} s"
        raise ConnectTimeout(msg) from error
    name, proxy_fields = to.host, None
    if to.tunnel is not None:
        name = to.tunnel.host
        proxy = SocketConnection(sock)
        try:
            answer = proxy.tunnel(to.tunnel.host, to.tunnel.port, to.tunnel.fields)
        except BaseException:
            sock.close()
            proxy.close_file()
            raise
        proxy_fields = answer[2]
        if answered is not None:
            answered(*answer)
    if to.secure and isinstance(to.verify, ssl.SSLContext):
        try:
            sock = to.verify.wrap_socket(sock, server_hostname=name)
        except BaseException:
            sock.close()
            raise
    elif to.tunnel is not None:
        plain = behind(proxy, to.authority, scheme)
        plain.proxy_fields = proxy_fields
        return plain
    version = spoken(sock, to.versions)
    if version not in to.versions:
        sock.close()
        msg = (
            f"{to.authority} speaks {version}, and versions={to.versions!r} were asked for: name "
            "them by set_alpn_protocols() of the context, where the server has them"
        )
        raise VersionUnavailable(msg)
    made = SocketConnection(sock, authority=to.authority, scheme=scheme, version=version)
    made.proxy_fields = proxy_fields
    return made


def _refuse(to: Destination) -> None:
    if to.versions == ("h3",):
        msg = (
            "versions=('h3',): HTTP/3 cannot be had with a socket of Python's, nor with a context "
            "that only OpenSSL can obey: leave that out and give ca, or add 'h2' or 'h1'"
        )
        raise VersionUnavailable(msg)
    if to.pins is not None or to.minimum_tls is not None:
        msg = (
            "pins and minimum_tls are not for sockets of Python's, nor for a context that only "
            "OpenSSL can obey: set minimum_version of the context, or give ca in its place"
        )
        raise ValueError(msg)


def behind(proxy: SocketConnection, authority: str, scheme: str) -> SocketConnection:
    """The connection in a tunnel that a proxy has made, on the socket of the proxy's."""
    made = type(proxy)(proxy.sock, authority=authority, scheme=scheme)
    # What the proxy's answer was read by may hold bytes that follow it.
    made.file = proxy.file
    return made


def spoken(sock: object, versions: Sequence[str]) -> str:
    """The version for a socket that is there: by ALPN, by prior knowledge, or HTTP/1.1."""
    selected = getattr(sock, "selected_alpn_protocol", None)
    if selected is not None:
        return "h2" if selected() == "h2" else "h1"
    return "h2" if tuple(versions) == ("h2",) else "h1"
