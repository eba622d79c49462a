"""Which proxy a request goes through."""

from __future__ import annotations

import os
from collections.abc import Mapping

from trilane.client._flow.origins import Origin, parse
from trilane.client._flow.routes import Proxy
from trilane.client.errors import InvalidRequest


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

    Raises:
        InvalidRequest: another scheme (SOCKS is not spoken), or a URL that is not one.
    """
    scheme, mark, _ = url.partition("://")
    if mark and scheme.lower() not in {"http", "https"}:
        raise InvalidRequest(f"the proxy {url!r} has the scheme {scheme!r}: only http is spoken")
    address = parse(url if mark else f"http://{url}")
    if address.origin.scheme == "https":
        raise InvalidRequest(
            f"the proxy {url!r} wants TLS to itself, which is not spoken: give its http:// address"
        )
    authorization = address.authorization
    fields = (("proxy-authorization", authorization),) if authorization else ()
    return Proxy(address.origin, fields)
