"""Requests as they are sent: a client's settings, a call's arguments, and the way to the origin."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias

from trilane._core import Tls
from trilane._core import version as _version
from trilane.client._flow.content import Content, Upload
from trilane.client._flow.origins import Address, Origin, parse
from trilane.client._flow.proxies import Proxies
from trilane.client._flow.request import (
    FOR_PROXIES,
    Field,
    Fields,
    Request,
    is_read,
    pairs,
    with_defaults,
)
from trilane.client._flow.routes import Policy, Route
from trilane.client._flow.text import DEFAULT as DEFAULT_ENCODING
from trilane.client._flow.text import DefaultEncoding
from trilane.client._flow.timeouts import TimeoutGiven, Timeouts, Until, timeouts
from trilane.client._flow.watching import Watch, Watched
from trilane.client._flow.whole import Bounds
from trilane.client.errors import InvalidRequest

USER_AGENT: Final = f"trilane/{_version}"
ACCEPT_ENCODING: Final = "gzip, deflate, br, zstd"
DEFAULTS: Final[tuple[Field, ...]] = (
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
NO_OPTIONS: Final[Options] = (..., (), False, None, True)
_METHODS: Final = frozenset(
    {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}
)


class How(NamedTuple):
    """How a request is sent, and what is read of its response."""

    route: Route
    limits: Timeouts
    decodes: bool = True
    bounds: Bounds = Bounds()
    default_encoding: DefaultEncoding = DEFAULT_ENCODING
    learns: bool = False
    """Whether `alt-svc` is wanted."""
    on_informational: OnInformational | None = None
    watch: Watch | None = None
    """What is to be seen of it; None in most clients."""
    watched: Watched | None = None
    """What is seen of this one, once it is on its way."""
    on_step: OnStep | None = None
    resends: int = 0
    """How often requests were sent before for the same call; told where it is watched."""


class Prepared(NamedTuple):
    """A request, ready to be sent."""

    request: Request
    address: Address
    how: How


# Without the function that a NamedTuple has for its names: one is made for each request.
_prepared: Final[Callable[[tuple[Request, Address, How]], Prepared]] = functools.partial(
    tuple.__new__, Prepared
)


class Settings:
    """What a client was told when it was made; the arguments are explained by `Client`."""

    __slots__ = ("_believes", "_fields", "_how", "_limited", "_limits", "policy", "source", "tls")

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
        self._fields: Sequence[Field] = ()
        self._believes = False
        self.fields = with_defaults(DEFAULTS, pairs(headers))
        # Bounded, for crawlers; a dictionary would grow with every origin.
        self._how = how = functools.lru_cache(1024)(how)
        self._limits = limits

        @functools.lru_cache(1024, typed=True)
        def limited(origin: Origin, timeout: TimeoutGiven, decodes: bool) -> tuple[Timeouts, How]:
            given = timeouts(timeout, limits)
            return given, how(origin)._replace(limits=given, decodes=decodes)

        self._limited = limited

    @property
    def fields(self) -> Sequence[Field]:
        """The fields that are sent with each request."""
        return self._fields

    @fields.setter
    def fields(self, fields: Sequence[Field]) -> None:
        self._fields = list(fields)
        self._believes = is_read(fields)

    @property
    def believes(self) -> bool:
        """Whether some of the fields say how to send."""
        return self._believes

    @property
    def limits(self) -> Timeouts:
        """How long each kind of wait may take, unless a request says otherwise."""
        return self._limits

    def plain(self, method: str, url: str) -> Prepared:
        """A request with the client's fields, no content of its own and no options.

        Raises:
            InvalidRequest: the URL is none.
        """
        address = parse(url)
        fields = self._fields
        if address.authorization is None and not self._believes:
            how = self._how(address.origin)
            if how.route.proxy is None:
                # The usual way: nothing has to be said to a proxy, and nothing is to be believed.
                method = method if method in _METHODS else as_meant(method)
                request = Request(method, address.target, address.authority, fields)
                return _prepared((request, address, how))
        if address.authorization is not None:
            fields = with_defaults(fields, [("authorization", address.authorization)])
        return self.complete(method, address, fields, None, NO_OPTIONS, believes=self._believes)

    def complete(
        self,
        method: str,
        address: Address,
        fields: Sequence[Field],
        content: Content | Upload,
        options: Options,
        *,
        believes: bool,
    ) -> Prepared:
        """A request with these fields, of which some may say how to send it if one `believes` them.

        Raises:
            InvalidRequest: an argument is none, or would tell the origin what is for a proxy.
            TypeError, ValueError: as `InvalidRequest`.
        """
        method = as_meant(method)
        request = Request(method, address.target, address.authority, fields, content)
        if believes:
            request.believe()
        prepared = self._complete(request, address, options)
        if request.for_proxy and not prepared.how.route.forwards:
            raise InvalidRequest(for_origin(address))
        return prepared

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
        if is_read(fields):
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
        if options == NO_OPTIONS:
            return Prepared(request, address, how)
        timeout, trailers, expect_continue, on_informational, decode = options
        if expect_continue:
            request.expect_continue()
        if trailers:
            request.follow(trailers)
        if on_informational is None and not isinstance(timeout, Until):
            limits, how = self._limited(address.origin, timeout, decode)
            if limits.total is None:
                return _prepared((request, address, how))
        else:
            limits = timeouts(timeout, self._limits)
        if limits.total is not None and not isinstance(limits, Until):
            limits = Until.begin(limits, monotonic)
        how = how._replace(limits=limits, decodes=decode, on_informational=on_informational)
        return Prepared(request, address, how)


def for_origin(address: Address) -> str:
    """What to say of a field for proxies that would go to the origin."""
    return (
        f"the field {FOR_PROXIES} would go to {address.origin}: user and password for a"
        ' proxy stand in its URL, proxies="http://user:password@host:port"'
    )


def as_meant(method: str) -> str:
    """A method that is none of the known ones, or one of them in lower case, which means that.

    Methods are case-sensitive (RFC 9110 §9.1): others are sent as they are.

    Raises:
        InvalidRequest: it is no str.
    """
    if method in _METHODS:
        return method
    if not isinstance(method, str):
        raise InvalidRequest(
            f"the method {method!r} is of type {type(method).__name__}: give a str such as 'GET'"
        )
    known = method.upper()
    return known if known in _METHODS else method


def how_to(
    proxies: Proxies,
    limits: Timeouts,
    bounds: Bounds,
    *,
    learns: bool,
    watch: Watch | None = None,
    default_encoding: DefaultEncoding = DEFAULT_ENCODING,
) -> Callable[[Origin], How]:
    """How requests to an origin are sent unless they have options. It does not know its client."""

    def how(origin: Origin) -> How:
        proxy = proxies.choose(origin)
        wanted = learns and origin.scheme == "https" and proxy is None
        route = Route.to(origin, proxy)
        return How(
            route,
            limits,
            bounds=bounds,
            default_encoding=default_encoding,
            learns=wanted,
            watch=watch,
        )

    return how
