"""Which proxy a request goes through."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from trilane.client._flow.origins import Origin, parse
from trilane.client._flow.routes import Proxy
from trilane.client.errors import InvalidRequest

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

SOCKS_PORT: Final = 1080
"""Where a SOCKS proxy listens that names no port (RFC 1928 §3)."""
_SCHEMES: Final = ("http", "https", "socks5", "socks5h")
_KEYS: Final = ("http", "https", "all", "no")


class _Direct(NamedTuple):
    """An entry of NO_PROXY."""

    place: str | IPv4Network | IPv6Network
    """A name, with those below it, in lower case; or addresses."""
    port: str
    """Empty: any."""

    def has(self, origin: Origin) -> bool:
        """Whether the origin is reached without a proxy."""
        if self.port and self.port != str(origin.port):
            return False
        if isinstance(self.place, str):
            return origin.host == self.place or origin.host.endswith(f".{self.place}")
        from ipaddress import ip_address  # noqa: PLC0415 - few have networks there

        try:
            address = ip_address(origin.host)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return (mapped or address) in self.place


class Proxies:
    """Proxies by the scheme of the request's URL, and hosts that are reached without one."""

    __slots__ = ("_by_scheme", "_direct", "_everywhere")

    def __init__(self, by_scheme: Mapping[str, str | Proxy]) -> None:
        """`by_scheme` has `http`, `https` or `all`; and `no`, as the value of NO_PROXY.

        Raises:
            InvalidRequest: a proxy cannot be used; the message names it.
        """
        self._by_scheme = {
            scheme: given if isinstance(given, Proxy) else proxy(given)
            for scheme, given in by_scheme.items()
            if given and scheme in {"http", "https", "all"}
        }
        entries = str(by_scheme.get("no") or "").replace(",", " ").split()
        self._everywhere = "*" in entries
        self._direct = [found for entry in entries if (found := _direct(entry)) is not None]

    @staticmethod
    def of(given: Mapping[str, str | Proxy] | Proxy | str | None) -> Proxies:
        """`environment` reads HTTP_PROXY and others as `urllib.request` does, now.

        A URL or a `Proxy` is for every request, a mapping by scheme, None for no proxy at all.

        Raises:
            InvalidRequest: a proxy cannot be used; the message names it.
            TypeError: it is none of these.
            ValueError: a mapping has another key.
        """
        if given is None:
            return Proxies({})
        if given == "environment":
            # Mostly there is none, and what knows about them takes long to import.
            if not any(name.lower().endswith("_proxy") for name in os.environ):
                return Proxies({})
            from urllib.request import getproxies_environment  # noqa: PLC0415

            # It knows about `http_proxy` against `HTTP_PROXY`, and ignores the latter under CGI.
            return Proxies(getproxies_environment())
        if isinstance(given, str | Proxy):
            return Proxies({"all": given})
        if not isinstance(given, Mapping):
            raise TypeError(
                f"proxies={given!r:.60} is of type {type(given).__name__}: give a URL, a mapping of"
                f" {', '.join(_KEYS[:-1])} to URLs, or None for no proxy"
            )
        for scheme in given:
            if scheme not in _KEYS:
                raise ValueError(
                    f"proxies has the key {scheme!r}: give {', '.join(_KEYS[:-1])}, or no for hosts"
                    " that are reached without a proxy"
                )
        return Proxies(given)

    def choose(self, origin: Origin) -> Proxy | None:
        """The proxy for an origin, or None: directly."""
        found = self._by_scheme.get(origin.scheme) or self._by_scheme.get("all")
        if found is None or self._everywhere or any(each.has(origin) for each in self._direct):
            return None
        return found


def _direct(entry: str) -> _Direct | None:
    """What an entry of NO_PROXY means, as for curl, Go and Requests; None: nothing.

    That is a name, an address or a network (`10.0.0.0/8`), each also with a port; an IPv6 address
    needs no brackets where it has none.
    """
    from ipaddress import ip_network  # noqa: PLC0415 - as above

    entry = entry.lower()
    for text, port in ((entry, ""), tuple(entry.rpartition(":")[::2])):
        try:
            return _Direct(ip_network(text.strip("[]"), strict=False), port)
        except ValueError:
            continue
    name, _, port = entry.partition(":")
    name = name.removeprefix("*").strip(".")
    return _Direct(name, port) if name else None


def proxy(url: str) -> Proxy:
    """A proxy by its URL; `host:port` alone means `http`.

    `https` is a proxy that is spoken to over TLS. `socks5` is told the address of the origin, and
    `socks5h` its name, as in curl.

    Raises:
        InvalidRequest: another scheme, or a URL that is not one.
    """
    scheme, mark, rest = url.partition("://")
    scheme = scheme.lower()
    if mark and scheme not in _SCHEMES:
        raise InvalidRequest(
            f"the proxy {_redacted(url)!r} has the scheme {scheme!r}: there are"
            f" {', '.join(_SCHEMES)}"
        )
    if mark and scheme.startswith("socks"):
        return _socks(scheme, rest)
    address = parse(url if mark else f"http://{url}")
    authorization = address.authorization
    fields = (("proxy-authorization", authorization),) if authorization else ()
    return Proxy(address.origin, fields)


def _socks(scheme: str, rest: str) -> Proxy:
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415 - few clients have a SOCKS proxy

    # The host is checked as that of any URL is.
    origin = parse(f"http://{rest}").origin
    parts = urlsplit(f"//{rest}")
    auth = None
    if parts.username is not None:
        auth = (unquote(parts.username).encode(), unquote(parts.password or "").encode())
        if not all(0 < len(part) < 256 for part in auth):
            raise InvalidRequest(
                f"the proxy {scheme}://{origin.host_in_url} has a user or a password that SOCKS"
                " cannot be told: each has 1 to 255 bytes"
            )
    return Proxy(Origin(scheme, origin.host, parts.port or SOCKS_PORT), (), auth)


def _redacted(url: str) -> str:
    """A URL without its userinfo, for messages."""
    scheme, mark, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    return scheme + mark + place.rpartition("@")[2] + slash + path
