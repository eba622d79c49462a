"""An adapter for Requests: a `Session` over HTTP/1.1, HTTP/2 and HTTP/3.

    session = requests.Session()
    session.mount("https://", TrilaneAdapter())
    session.mount("http://", TrilaneAdapter())

It is Requests' own `HTTPAdapter` with other pools under it, so redirects, cookies, authentication,
`stream`, `verify`, `cert`, `proxies`, `timeout`, `max_retries` and exceptions are what they were.
Threads that share a session share its HTTP/2 and HTTP/3 connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import urllib3
from requests.adapters import (
    DEFAULT_POOLBLOCK,
    DEFAULT_POOLSIZE,
    DEFAULT_RETRIES,
    HTTPAdapter,
)
from requests.exceptions import InvalidSchema
from urllib3 import PoolManager, Retry, proxy_from_url
from urllib3.util import parse_url

from trilane.client._adapters.requests_pool import Pools
from trilane.client._flow.proxies import proxy as proxy_of
from trilane.client._flow.resolving import Resolver
from trilane.client._flow.routes import VERSIONS, Policy, Proxy
from trilane.client.tls import Pins, check

__all__ = ["TrilaneAdapter"]

if hasattr(urllib3, "ResponsePromise"):
    raise ImportError(
        "the module urllib3 is of urllib3-future, which niquests brings, and whose"
        " pools have other connections under them. Have niquests in an environment of its"
        " own, or beside urllib3: URLLIB3_NO_OVERRIDE=1 pip install niquests --no-binary"
        " urllib3-future, and then pip install --force-reinstall urllib3"
    )


class TrilaneAdapter(HTTPAdapter):
    """Sends what a `requests.Session` prepares; thread-safe, can be pickled and copied.

    `versions`: of "h1", "h2" and "h3", those that may be used. Over TLS, ALPN chooses between h1
    and h2, and h3 is used where the server announced it by `Alt-Svc`. Without TLS it is h1, or h2
    by prior knowledge where h1 is not among them. The version that was obtained is
    `response.raw.version`: 10, 11, 20 or 30.

    `pool_connections`: for how many origins connections are kept. `pool_maxsize`: how many
    connections are kept for each; with `pool_block` there are never more, and requests wait for
    one. `max_retries`: a number, for connections that cannot be made, or urllib3's `Retry`.

    `resolver`, `pins` and `minimum_tls` are as for `trilane.client.Client`. With `timings` the
    response's `raw` has `timings` and `traffic`, as responses of that client have them.
    """

    __attrs__: list[str] = [  # noqa: RUF012 # as in HTTPAdapter
        *HTTPAdapter.__attrs__,
        "versions",
        "_settings",
    ]

    def __init__(  # noqa: PLR0913 - the four of HTTPAdapter, and what it has no words for
        self,
        pool_connections: int = DEFAULT_POOLSIZE,
        pool_maxsize: int = DEFAULT_POOLSIZE,
        max_retries: int | Retry = DEFAULT_RETRIES,
        pool_block: bool = DEFAULT_POOLBLOCK,
        *,
        versions: Sequence[str] = VERSIONS,
        resolver: Resolver | None = None,
        pins: Pins | None = None,
        minimum_tls: str | None = None,
        timings: bool = False,
    ) -> None:
        check(pins, minimum_tls)
        self._settings = {
            "resolver": resolver,
            "pins": pins,
            "minimum_tls": minimum_tls,
            "timings": timings,
        }
        self.versions = Policy(tuple(versions)).checked().versions
        super().__init__(pool_connections, pool_maxsize, max_retries, pool_block)

    def init_poolmanager(
        self,
        connections: int,
        maxsize: int,
        block: bool = DEFAULT_POOLBLOCK,
        **pool_kwargs: Any,
    ) -> None:
        """Make the pools anew. Subclasses override it to add `pool_kwargs`, as of `HTTPAdapter`.

        Of those `ssl_context` (its authorities and whether it verifies) and `source_address` are
        understood. Where another would change what to trust, the first request raises ValueError,
        and SSLError where the context forbids what would be done.
        """
        self._pools = Pools(self.versions, self._settings)
        super().init_poolmanager(connections, maxsize, block, **pool_kwargs)
        self._take_over(self.poolmanager)

    def close(self) -> None:
        """Close what lies idle, and the rest when its responses end. It can be used again."""
        # urllib3 leaves it to the garbage collector, which a response that is kept holds up.
        self._pools.retire()
        super().close()

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        """The pools behind a proxy.

        It speaks HTTP, also over TLS (https://), or SOCKS 5. What else there is, SOCKS 4, is left
        to urllib3, whose requests are HTTP/1.1.

        Raises:
            InvalidSchema: it is left to urllib3, and HTTP/1.1 is not among `versions`.
        """
        if proxy in self.proxy_manager:
            return self.proxy_manager[proxy]
        scheme = parse_url(proxy).scheme
        if scheme in {"socks5", "socks5h"}:
            socks = PoolManager(
                self._pool_connections,
                maxsize=self._pool_maxsize,
                block=self._pool_block,
                **proxy_kwargs,
            )
            self._take_over(socks, proxy_of(proxy))
            return self.proxy_manager.setdefault(proxy, socks)
        if scheme not in {"http", "https"}:
            if "h1" not in self.versions:
                raise InvalidSchema(
                    f"a proxy of scheme {scheme} needs HTTP/1.1: add h1 to the adapter's versions"
                )
            return super().proxy_manager_for(proxy, **proxy_kwargs)
        manager = proxy_from_url(
            proxy,
            proxy_headers=self.proxy_headers(proxy),
            num_pools=self._pool_connections,
            maxsize=self._pool_maxsize,
            block=self._pool_block,
            **proxy_kwargs,
        )
        self._take_over(manager)
        # In one step: another thread may have made one in the meantime.
        return self.proxy_manager.setdefault(proxy, manager)

    def _take_over(self, manager: PoolManager, socks: Proxy | None = None) -> None:
        """Let urllib3's manager make our pools."""
        self._pools.take_over(manager, socks)
