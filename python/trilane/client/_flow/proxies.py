"""Which proxy a request goes through."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from trilane.client._flow.origins import Origin, parse
from trilane.client._flow.routes import Proxy
from trilane.client.errors import InvalidRequest

SOCKS_PORT: Final = 1080
"""Where a SOCKS proxy listens that names no port (RFC 1928 §3)."""
_SCHEMES: Final = ("http", "https", "socks5", "socks5h")


class Proxies:
    """Proxies by the scheme of the request's URL, and hosts that are reached without one."""

    __slots__ = ("_by_scheme", "_environment")

    def __init__(
        self, by_scheme: Mapping[str, str | Proxy], *, environment: Mapping[str, str] | None = None
    ) -> None:
        """`by_scheme` has `http`, `https` or `all`; `environment` is asked for its `no`.

        Raises:
            InvalidRequest: a proxy cannot be used; the message names it.
        """
        self._by_scheme = {
            scheme: given if isinstance(given, Proxy) else proxy(given)
            for scheme, given in by_scheme.items()
            if given and scheme in {"http", "https", "all"}
        }
        self._environment = environment

    @staticmethod
    def of(given: Mapping[str, str | Proxy] | Proxy | str | None) -> Proxies:
        """`environment` reads HTTP_PROXY and others as `urllib.request` does, now.

        A URL or a `Proxy` is for every request, a mapping by scheme, None for no proxy at all.
        """
        if given is None:
            return Proxies({})
        if given == "environment":
            # Mostly there is none, and what knows about them takes long to import.
            if not any(name.lower().endswith("_proxy") for name in os.environ):
                return Proxies({})
            from urllib.request import getproxies_environment  # noqa: PLC0415

            # It knows about `http_proxy` against `HTTP_PROXY`, and ignores the latter under CGI.
            found = getproxies_environment()
            return Proxies(found, environment=found)
        if isinstance(given, str | Proxy):
            return Proxies({"all": given})
        return Proxies(given)

    def choose(self, origin: Origin) -> Proxy | None:
        """The proxy for an origin, or None: directly."""
        found = self._by_scheme.get(origin.scheme) or self._by_scheme.get("all")
        if found is None or self._environment is None:
            return found
        from urllib.request import (  # type: ignore[attr-defined] # noqa: PLC0415 - as above
            proxy_bypass_environment,
        )

        place = f"{origin.host_in_url}:{origin.port}"
        bypass = proxy_bypass_environment(place, dict(self._environment))
        return None if bypass else found


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
