"""What a pool is made of: a policy, routes, attempts, open connections and places in the queue.

`routing.Router` moves them; see there for how they are used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import (
    TYPE_CHECKING,
    Final,
    Generic,
    NamedTuple,
    Protocol,
    TypedDict,
    TypeVar,
    get_args,
)

from trilane.client._flow import altsvc
from trilane.client._flow.origins import DEFAULT_PORTS, Origin, authority
from trilane.client._flow.resolving import Resolver
from trilane.client._flow.timeouts import Timeouts, connect_timeout, pool_timeout
from trilane.client.errors import Error

if TYPE_CHECKING:
    from trilane._core import Facts

VERSIONS: Final = ("h3", "h2", "h1")
USUAL_STREAMS: Final = 100
"""What a server of HTTP/2 that names no limit is sent before it could: RFC 9113 §6.5.2."""


class Pooled(Protocol):
    """What a router looks at in a connection; `_core.Connection` has it."""

    @property
    def version(self) -> str:
        """`h1`, `h2` or `h3`."""

    @property
    def capacity(self) -> int:
        """How many requests it takes now."""

    @property
    def is_closing(self) -> bool:
        """Whether it takes no more requests, now or later."""

    @property
    def is_silent(self) -> bool:
        """Whether its peer has not shown that it is there since a request was given up."""

    @property
    def facts(self) -> Facts:
        """Both of its ends, and what making it took."""

    def settings(self) -> dict[str, int]:
        """The peer's limits, as far as they are known."""


Connection = TypeVar("Connection", bound=Pooled)


class Proxy(NamedTuple):
    """A proxy to go through."""

    origin: Origin
    """Where it listens; the scheme is `http`, `https`, `socks5` or `socks5h`."""
    fields: tuple[tuple[str, str], ...] = ()
    """What is sent to the proxy alone, such as `proxy-authorization`."""
    auth: tuple[bytes, bytes] | None = None
    """User and password for SOCKS."""

    @property
    def speaks_http(self) -> bool:
        """Whether it takes whole requests, and CONNECT; else it is SOCKS."""
        return not self.origin.scheme.startswith("socks")


class Route(NamedTuple):
    """What requests have to have in common to share connections."""

    origin: Origin
    proxy: Proxy | None = None
    server_name: str | None = None
    """What TLS asks for and the certificate has to cover, where that is not the origin's host."""
    tunnels: bool = False
    """Whether a proxy makes a tunnel where it would be handed whole requests."""

    @classmethod
    def to(cls, origin: Origin, proxy: Proxy | None) -> Route:
        """To an origin, through a proxy where there is one.

        A proxy that is handed whole requests takes those for all origins on the same connections.
        """
        whole = proxy is not None and origin.scheme == "http" and proxy.speaks_http
        return cls(proxy.origin if whole and proxy is not None else origin, proxy)

    @property
    def forwards(self) -> bool:
        """Whether the proxy is handed whole requests (RFC 9112 §3.2.2) instead of a tunnel."""
        proxy, origin = self.proxy, self.origin
        if proxy is None or self.tunnels or not proxy.speaks_http:
            return False
        # A proxy over TLS is its own origin then: see `to`.
        return origin.scheme == "http" or origin == proxy.origin


class Policy(NamedTuple):
    """The limits and wishes of one pool; `checked` says whether they can be met."""

    versions: tuple[str, ...] = VERSIONS
    """Of `h1`, `h2` and `h3`. Without TLS it is `h1`; `h2` by prior knowledge where `h1` is out."""
    max_connections: int = 100
    """Connections of the whole pool, attempts among them."""
    max_per_origin: int = 100
    """Connections of one route. Browsers have 6 for HTTP/1.1; a crawler should too."""
    idle_s: float = 60.0
    """How long a connection may lie idle (nginx keeps it for 75 s, Apache and Node for 5)."""
    race_s: float = 0.25
    """Head start of HTTP/3 before TCP is tried too."""
    alternatives: altsvc.Scope = "same-host"
    race_unannounced: bool = False
    """Whether HTTP/3 is raced at once, although no `Alt-Svc` was seen."""
    unix: str | None = None
    """Path of a Unix socket that every connection goes to."""
    resolver: Resolver | None = None
    """What is asked for addresses before the system's resolver."""
    ech: bool = False
    """Whether Encrypted Client Hello is used where an HTTPS record has what it needs."""

    def checked(self) -> Policy:
        """The policy itself.

        Raises:
            ValueError: a setting is out of its range; the message names it as `Client` does.
        """
        unknown = [version for version in self.versions if version not in VERSIONS]
        if unknown or not self.versions or len(set(self.versions)) < len(self.versions):
            raise ValueError(f"versions={self.versions!r}: name each of h1, h2 and h3 at most once")
        for name in ("max_connections", "max_per_origin"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r}: give at least 1")
        if not self.idle_s >= 0:
            raise ValueError(f"idle_timeout={self.idle_s!r}: give seconds from 0 on")
        if self.ech and self.resolver is None:
            raise ValueError(
                "ech=True needs HTTPS records, which the system's resolver does not know: give"
                " resolver=trilane.client.dns.Resolver(), or another that finds them"
            )
        if self.unix is not None and self.resolver is not None:
            raise ValueError(
                f"unix={self.unix!r} is where every connection goes; there is nothing to look up:"
                " leave resolver= out"
            )
        scopes = get_args(altsvc.Scope)
        if self.alternatives not in scopes:
            named = ", ".join(map(repr, scopes))
            raise ValueError(f"alternatives={self.alternatives!r}: give one of {named}")
        return self


class Options(TypedDict):
    """Arguments of `_core.connect`."""

    host: str
    port: int
    scheme: str
    versions: tuple[str, ...]
    server_name: str | None
    proxy: tuple[str, int, Sequence[tuple[str, str]]] | None
    race: float
    unix: str | None
    proxy_scheme: str
    proxy_auth: tuple[bytes, bytes] | None
    streams: int | None


class Attempt(NamedTuple):
    """A connection to be opened."""

    route: Route
    host: str
    port: int
    scheme: str
    versions: tuple[str, ...]
    server_name: str | None
    """Name that the certificate must cover, where it is not `host`."""
    tunnel: Proxy | None
    """Proxy that is asked for a tunnel; None where `host` is reached directly."""
    unix: str | None
    race_s: float
    limit_s: float | None
    """The attempt may take no longer, though the caller's connect timeout may be longer."""
    alternative: altsvc.Alternative | None
    """What is tried, where it is an alternative; `failed` and `opened` keep the books."""
    began: float
    streams: int | None = None
    """How many requests the origin is known to allow at a time on a connection in HTTP/2."""

    def __eq__(self, other: object) -> bool:
        """Whether it is this very attempt: two of one instant may say the same."""
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @property
    def needs_tls(self) -> bool:
        """Whether TLS is spoken, with the server or with the proxy."""
        tunnel = self.tunnel
        return self.scheme == "https" or (tunnel is not None and tunnel.origin.scheme == "https")

    @property
    def alone(self) -> bool:
        """Whether only the alternative is tried: when it fails, the caller begins again."""
        return self.limit_s is not None

    def timeout(self, limits: Timeouts) -> float | None:
        """Seconds that it may take, by the caller's limits and its own."""
        if self.limit_s is None or limits.connect is None:
            return limits.connect if self.limit_s is None else self.limit_s
        return min(limits.connect, self.limit_s)

    def options(self) -> Options:
        """Where `_core.connect` is to connect to, and how."""
        tunnel = self.tunnel
        return {
            "host": self.host,
            "port": self.port,
            "scheme": self.scheme,
            "versions": self.versions,
            "server_name": self.server_name,
            "proxy": tunnel and (tunnel.origin.host, tunnel.origin.port, tunnel.fields),
            "race": self.race_s,
            "unix": self.unix,
            "proxy_scheme": tunnel.origin.scheme if tunnel else "http",
            "proxy_auth": tunnel and tunnel.auth,
            "streams": self.streams,
        }

    def told(self, error: Error) -> Error:
        """The error of the attempt, which says so where it went to a proxy that forwards."""
        if self.route.forwards and error.args:
            error.args = (f"the proxy {self.route.origin.authority}: {error}",)
        return error

    def alt_used(self, version: str) -> str | None:
        """Where a connection of that version goes, if not to the origin (RFC 7838 §5)."""
        there, origin = self.alternative, self.route.origin
        if there is None or version != "h3" or (there.host, there.port) == origin[1:]:
            return None
        return authority(there.host, there.port, DEFAULT_PORTS["https"])


class Entry(Generic[Connection]):
    """An open connection in a pool. Read it; the router writes it."""

    def __init__(self, connection: Connection, attempt: Attempt, now: float) -> None:
        self.connection = connection
        self.version = connection.version
        self.route = attempt.route
        self.facts = connection.facts
        self.alternative = attempt.alternative
        self.alt_used = attempt.alt_used(connection.version)
        """What the field `alt-used` says of it; None where it goes to the origin."""
        self.shared = self.version != "h1"
        self.leases = 1
        self.idle = False
        """Whether nobody used it when it was handed out: it may have been closed meanwhile."""
        self.idle_since = now
        self.retired = False
        self.answered = self.alternative is None
        """Whether a response has come, for an alternative: it works then."""
        self.suspended = False
        """Whether the alternative is left alone because of this connection."""
        self.exhausted = False
        """Whether it said `Full` in spite of its capacity: QUIC grants streams in its own time."""
        self.opener = 0
        """Thread that opened it, until that has sent its request; for the blocking pool."""
        self.inherited = False
        """For the owner: whether it belongs to the process that this one was forked from."""

    @property
    def is_at_rest(self) -> bool:
        """Whether it takes another request, though nobody saw the end of the last one."""
        connection = self.connection
        return not connection.is_closing and (self.shared or connection.capacity > 0)

    def is_reusable(self, *, complete: bool) -> bool:
        """Whether it takes other requests after one that has ended, `complete` or given up."""
        return (complete or self.shared) and not self.connection.is_closing


class Ticket(Generic[Connection]):
    """A place in the queue."""

    __slots__ = ("group", "outcome", "taken", "wake")

    def __init__(self, group: Group[Connection], wake: Callable[[], object]) -> None:
        self.group = group
        self.wake = wake
        self.outcome: Entry[Connection] | Attempt | Error | None = None
        """Set before `wake` is called."""
        self.taken = False
        """For the owner: whether it has taken the outcome, which `Router.recount` asks."""

    @property
    def connecting(self) -> bool:
        """What is waited for: the first connection (so the connect timeout counts), or a free one.

        It can change while one waits: look again before giving up.
        """
        return self.group.is_opening_first

    def limit(self, limits: Timeouts) -> float | None:
        """Seconds that one may wait, since the beginning, for what is waited for now."""
        return limits.connect if self.connecting else limits.pool

    def late(self, limits: Timeouts) -> Error:
        """The error where that has passed."""
        late = connect_timeout if self.connecting else pool_timeout
        return late(str(self.group.route.origin), self.limit(limits))


class Group(Generic[Connection]):
    """The connections of one route, and the calls that wait for one."""

    __slots__ = (
        "connect_s",
        "count",
        "draining",
        "free",
        "opening",
        "probing",
        "route",
        "shared",
        "streams",
        "waiting",
    )

    def __init__(self, route: Route) -> None:
        self.route = route
        self.free: list[Entry[Connection]] = []
        """Idle HTTP/1.1 connections; the one used last is taken first, so that others expire."""
        self.shared: list[Entry[Connection]] = []
        """HTTP/3 first, then HTTP/2."""
        self.count = 0
        """Connections that take requests now or later, and attempts."""
        self.draining = 0
        """Connections that only finish what they have."""
        self.opening = 0
        """Attempts over TCP, or over all versions, in flight."""
        self.probing = False
        """Whether an attempt for an alternative alone is in flight."""
        self.waiting: deque[Ticket[Connection]] = deque()
        self.connect_s: float | None = None
        """How long the last TCP and TLS handshake took."""
        self.streams: int | None = None
        """How many requests at a time the last connection in HTTP/2 allowed."""

    def learn(self, entry: Entry[Connection]) -> None:
        """Remember how many requests a connection in HTTP/2 allows at a time, if it has said so."""
        settings = entry.connection.settings() if entry.version == "h2" else None
        if settings:
            # A server that allows none at the moment still says so to one.
            self.streams = max(1, settings.get("max_concurrent_streams", USUAL_STREAMS))

    @property
    def is_opening_first(self) -> bool:
        """Whether there are attempts, and no connection yet."""
        return self.opening > 0 and self.count == self.opening + self.probing

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be lost with it."""
        return not (self.count or self.draining or self.waiting)
