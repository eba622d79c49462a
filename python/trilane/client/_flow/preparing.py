"""Requests as they are sent: a client's settings, a call's arguments, and the way to the origin."""

from __future__ import annotations

import functools
import json as json_codec
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from trilane._core import Tls
from trilane._core import version as _version
from trilane.client._flow.content import Content, Upload
from trilane.client._flow.origins import Address, Origin, parse
from trilane.client._flow.proxies import Proxies
from trilane.client._flow.request import (
    OF_SENDING,
    Field,
    Fields,
    Request,
    lower,
    pairs,
    with_defaults,
)
from trilane.client._flow.routes import Policy, Route
from trilane.client._flow.timeouts import TimeoutGiven, Timeouts, timeouts
from trilane.client._flow.whole import Bounds

USER_AGENT: Final = f"trilane/{_version}"
ACCEPT_ENCODING: Final = "gzip, deflate, br, zstd"
_DEFAULTS: Final[tuple[Field, ...]] = (
    ("user-agent", USER_AGENT),
    ("accept", "*/*"),
    ("accept-encoding", ACCEPT_ENCODING),
)

OnInformational: TypeAlias = Callable[[int, list[tuple[str, str]]], object]
OnStep: TypeAlias = Callable[[str, Any], object]
"""Told of a request's way over its pool, in order: "connect" with an `Attempt`, "connected" with
the connection, "submitted" with the connection when its head is on the way, which never waits,
"sent" when its content is; "failed" with an error, of whatever came last."""
Options: TypeAlias = tuple[
    TimeoutGiven, Sequence[tuple[str, str]], bool, OnInformational | None, bool
]
"""Of a request: timeout, trailers, expect_continue, on_informational, decode."""
_NO_OPTIONS: Final[Options] = (..., (), False, None, True)


class How(NamedTuple):
    """How a request is sent, and what is read of its response."""

    route: Route
    limits: Timeouts
    decodes: bool = True
    bounds: Bounds = Bounds()
    learns: bool = False
    """Whether `alt-svc` is wanted."""
    on_informational: OnInformational | None = None
    on_step: OnStep | None = None


class Prepared(NamedTuple):
    """A request, ready to be sent."""

    request: Request
    address: Address
    how: How


class Settings:
    """What a client was told when it was made; the arguments are explained by `Client`."""

    __slots__ = ("_believes", "_fields", "_how", "_limits", "policy", "source", "tls")

    def __init__(
        self,
        policy: Policy,
        tls: Callable[[], Tls],
        source: tuple[str, int] | None,
        headers: Fields | None,
        how: Callable[[Origin], How],
        limits: Timeouts,
    ) -> None:
        """`how` says how requests to an origin are sent unless they have options."""
        self.policy = policy
        self.tls = tls
        """Loads the certificates; a connection that needs them calls it."""
        self.source = source
        """The local address to connect from."""
        self._fields = with_defaults(_DEFAULTS, pairs(headers))
        self._believes = not OF_SENDING.isdisjoint(lower(name) for name, _ in self._fields)
        # Bounded, for crawlers; a dictionary would grow with every origin.
        self._how = functools.lru_cache(1024)(how)
        self._limits = limits

    def prepare(
        self,
        method: str,
        url: str,
        headers: Fields | None,
        content: Content | Upload,
        json: Any,
        options: Options,
    ) -> Prepared:
        """A request with the client's fields, but for those that `headers` replace.

        Raises:
            InvalidRequest, TypeError, ValueError: an argument is none.
        """
        address = parse(url)
        fields, given = self._fields, pairs(headers)
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

    def exactly(
        self,
        method: str,
        url: str,
        fields: Sequence[Field],
        content: Content | Upload,
        target: str | None,
        options: Options,
        server_name: str | None = None,
        on_step: OnStep | None = None,
    ) -> Prepared:
        """A request with exactly these fields; `target` replaces path and query of the URL.

        Raises:
            InvalidRequest, TypeError, ValueError: as `prepare`.
        """
        address = parse(url)
        request = Request(method, address.target, address.authority, fields, content)
        if fields:
            request.believe()
        prepared = self._complete(request, address, options)
        if target is not None:
            request.target = target
        if server_name is not None or on_step is not None:
            how = prepared.how
            route = how.route._replace(server_name=server_name)
            prepared = prepared._replace(how=how._replace(route=route, on_step=on_step))
        return prepared

    def _complete(self, request: Request, address: Address, options: Options) -> Prepared:
        """Fill in what depends on the route and the options."""
        how = self._how(address.origin)
        if how.route.forwards and how.route.proxy is not None:
            request.target = address.url
            request.add(how.route.proxy.fields)
        if options == _NO_OPTIONS:
            return Prepared(request, address, how)
        timeout, trailers, expect_continue, on_informational, decode = options
        if expect_continue:
            request.expect_continue()
        if trailers:
            request.follow(trailers)
        limits = timeouts(timeout, self._limits)
        how = how._replace(limits=limits, decodes=decode, on_informational=on_informational)
        return Prepared(request, address, how)


def how_to(
    proxies: Proxies, limits: Timeouts, bounds: Bounds, *, learns: bool
) -> Callable[[Origin], How]:
    """How requests to an origin are sent unless they have options. It does not know its client."""

    def how(origin: Origin) -> How:
        proxy = proxies.choose(origin)
        wanted = learns and origin.scheme == "https" and proxy is None
        return How(Route.to(origin, proxy), limits, bounds=bounds, learns=wanted)

    return how
