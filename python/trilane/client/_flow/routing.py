"""The decisions of a pool: which connection a request takes, when one is opened, what waits.

No I/O, no clock, no threads: the blocking `Client` and the `AsyncClient` own a `Router`, tell it
what happened and do what it answers. Instants are seconds of one monotonic clock.

One critical section: a thread holds its lock around every call of a `Router`, and never around
anything that may wait (connecting, `submit`, `is_alive`, `close`). An event loop needs no lock.

A request goes like this:

1. `acquire(route, now)` gives one of three:
   - an `Entry`: it is leased to you. Where `entry.idle` says that it lay idle, ask its connection
     `is_alive()`; if not, `release(entry, now, reusable=False)` and begin again. Then `submit`.
   - an `Attempt`: open a connection as it says and report `opened` (gives you the `Entry`, leased),
     `failed` (True: begin again, False: raise the error) or `abandoned` (you were interrupted).
   - None: in the same critical section `wait(route, wake)` gives a `Ticket`; leave the section and
     wait until `wake` is called. Then `ticket.outcome` is an `Entry`, an `Attempt` or an `Error` to
     raise, with the same meaning. A call that stops waiting calls `cancel(ticket, now)`.
2. Where `submit` raises `Full`: `full(entry, now)`, and begin again, perhaps after a moment.
3. When the exchange has ended, in any way: `release(entry, now, reusable=...)`, exactly once.
4. After each of these calls: `discarded` may hold connections. Take them, leave the critical
   section, and close them.

What is decided:

- HTTP/2 and HTTP/3 connections are shared by all requests of an origin. Another one is opened only
  when every stream that the peer allows is in use. HTTP/1.1 has one request at a time on each.
- Before the first connection to an origin stands, it is unknown whether it can be shared. So there
  is one attempt, and other calls wait for it. If it fails, they fail with it, except by a
  timeout, which was the caller's own. If it speaks HTTP/1.1, each of them opens its own then.
- HTTP/3 is used where `Alt-Svc` announced it (`altsvc.Memory`), raced against TCP. Where a TCP
  connection stands already, one request at a time tries the alternative, for no longer than
  `Attempt.limit_s`, and the others go on over TCP. What fails is left alone for minutes.
- A connection in HTTP/2 that is made while others of its origin stand, or end, begins with as many
  requests as these allowed; see `_core.connect` for the first one.
- Waiting is in order of arrival per origin; a connection is handed over, so a late request does
  not get in between. At the limit of the whole pool the connection that lay idle longest makes
  room.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, Generic

from trilane.client._flow import altsvc
from trilane.client._flow.origins import Origin
from trilane.client._flow.routes import (
    Attempt,
    Connection,
    Entry,
    Group,
    Policy,
    Route,
    Ticket,
)
from trilane.client.errors import ClientClosed, ConnectTimeout, Error, VersionUnavailable

PATIENCE_S: Final = 1.0
"""How long an alternative may take to answer where nothing is known of the origin's distance."""
LEAST_PATIENCE_S: Final = 0.3


class Router(Generic[Connection]):
    """The state of one pool. See the module for how it is used."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.alternatives = altsvc.Memory(policy.alternatives)
        """What `Alt-Svc` fields said. `learn` is for the owner to call."""
        self.discarded: list[Connection] = []
        """Connections that left the pool and are to be closed by the owner, outside of its lock."""
        self.is_closed = False
        self._groups: dict[Route, Group[Connection]] = {}
        self._entries: dict[Entry[Connection], None] = {}
        self._attempts: set[Attempt] = set()
        self._waiting = 0
        self._next_expiry = 0.0
        self._tcp = tuple(version for version in policy.versions if version != "h3")
        self._h3 = "h3" in policy.versions

    @property
    def entries(self) -> list[Entry[Connection]]:
        """The open connections, oldest first."""
        return list(self._entries)

    def acquire(self, route: Route, now: float) -> Entry[Connection] | Attempt | None:
        """A connection with room, an attempt to make one, or None: `wait`.

        Raises:
            ClientClosed: `close` was called.
            VersionUnavailable: no wanted version is possible on the route.
        """
        if self.is_closed:
            raise ClientClosed("the client is closed: make a new one")
        if now >= self._next_expiry:
            self._expire(now)
        group = self._groups.get(route)
        if group is None:
            self._check(route)
            group = self._groups[route] = Group(route)
        elif group.waiting:
            return None
        outcome = self._decide(group, now)
        if outcome is None and group.is_empty:
            # It waits for the pool's limit; `wait` makes the group anew.
            del self._groups[route]
        return outcome

    def wait(self, route: Route, wake: Callable[[], object]) -> Ticket[Connection]:
        """A place at the end of the queue; `wake` is called, inside a call of the router, once."""
        group = self._group(route)
        ticket = Ticket(group, wake)
        group.waiting.append(ticket)
        self._waiting += 1
        return ticket

    def cancel(self, ticket: Ticket[Connection], now: float) -> None:
        """The owner of the ticket is gone; what it was given in the meantime goes to the next."""
        outcome, ticket.outcome = ticket.outcome, None
        group = ticket.group
        if outcome is None:
            if ticket in group.waiting:
                group.waiting.remove(ticket)
                self._waiting -= 1
                self._forget(group)
        elif isinstance(outcome, Entry):
            self.release(outcome, now, reusable=True)
        elif isinstance(outcome, Attempt):
            self.abandoned(outcome, now)

    def opened(self, attempt: Attempt, connection: Connection, now: float) -> Entry[Connection]:
        """The attempt gave a connection: its entry, leased to the caller."""
        entry = Entry(connection, attempt, now)
        if self.is_closed:
            # The caller's own close() came in between: let it use the connection up.
            entry.retired = True
            return entry
        group = self._ended(attempt)
        group.count += 1
        self._entries[entry] = None
        if entry.version == "h3":
            group.shared.insert(0, entry)
        else:
            if attempt.alternative is not None:
                # TCP won in spite of HTTP/3's head start.
                self.alternatives.broken(attempt.route.origin, attempt.alternative, now)
                entry.alternative = None
                entry.answered = True
            group.connect_s = now - attempt.began
            if entry.shared:
                group.shared.append(entry)
        self._grant(group, now)
        return entry

    def failed(self, attempt: Attempt, error: Error, now: float) -> bool:
        """The attempt failed. True: begin again with `acquire`; False: raise the error."""
        if self.is_closed:
            return False
        group = self._ended(attempt)
        if attempt.alternative is not None:
            self.alternatives.broken(attempt.route.origin, attempt.alternative, now)
        if not attempt.alone and not group.count and not isinstance(error, ConnectTimeout):
            waiting, group.waiting = group.waiting, deque()
            self._waiting -= len(waiting)
            for ticket in waiting:
                # Each thread raises its own, with its own traceback.
                ticket.outcome = copy.copy(error)
                ticket.wake()
        self._freed(group, now)
        return attempt.alone

    def abandoned(self, attempt: Attempt, now: float) -> None:
        """The caller gave the attempt up; the next call that waits makes its own.

        Nothing happens where the attempt has ended already: an interrupt may come at any point.
        """
        if not self.is_closed and attempt in self._attempts:
            self._freed(self._ended(attempt), now)

    def release(self, entry: Entry[Connection], now: float, *, reusable: bool) -> None:
        """An exchange on the entry has ended.

        `reusable` is False where the connection can take no other request: it is closed or closing,
        or an HTTP/1.1 exchange ended before its response did.
        """
        entry.leases -= 1
        if entry.retired:
            if not entry.leases:
                self._drained(entry, now)
            return
        entry.exhausted = False
        if not entry.answered and entry.connection.is_silent:
            self.broken(entry, now)
            return
        group = self._groups[entry.route]
        if not reusable or (not entry.leases and entry.connection.is_closing):
            self._retire(group, entry, now)
            return
        if not entry.leases:
            entry.idle_since = now
            if not entry.shared:
                group.free.append(entry)
        if self._waiting:
            self._freed(group, now)

    def full(self, entry: Entry[Connection], now: float) -> bool:
        """`submit` raised `Full`: another request was quicker. The lease is given back.

        The connection gets no more requests until one on it has ended. True: there is none, so
        drive the connection and leave it a moment before you begin again.
        """
        self.release(entry, now, reusable=not entry.connection.is_closing)
        entry.exhausted = entry.leases > 0
        return not entry.exhausted

    def answered(self, entry: Entry[Connection]) -> None:
        """An alternative gave its first response: its failures before that are forgotten."""
        entry.answered = True
        if entry.alternative is not None:
            self.alternatives.works(entry.route.origin, entry.alternative)

    def broken(self, entry: Entry[Connection], now: float) -> None:
        """An alternative has failed: leave it alone, and give its connection no more requests."""
        # Of many requests that fail with one connection, the first says it.
        if entry.alternative is None or entry.suspended:
            return
        entry.suspended = True
        self.alternatives.broken(entry.route.origin, entry.alternative, now)
        if not entry.retired:
            self._retire(self._groups[entry.route], entry, now)

    def misdirected(self, entry: Entry[Connection], now: float) -> None:
        """The alternative answered 421: it takes no more requests and is forgotten."""
        if entry.alternative is not None and not entry.retired:
            self.alternatives.misdirected(entry.route.origin, entry.alternative, now)
            self._retire(self._groups[entry.route], entry, now)

    def recount(
        self, leases: Mapping[Entry[Connection], int], attempts: AbstractSet[Attempt], now: float
    ) -> None:
        """Let all that is known follow anew from the connections, after an interrupted decision.

        `leases` says how many there are of each connection, and `attempts` which are still made.
        """
        if self.is_closed:
            return
        self._attempts &= attempts
        for group in self._groups.values():
            group.count = group.draining = group.opening = 0
            group.probing = False
            group.free, group.shared = [], []
        for attempt in self._attempts:
            group = self._group(attempt.route)
            group.count += 1
            group.opening += not attempt.alone
            group.probing = group.probing or attempt.alone
        for entry in list(self._entries):
            group = self._group(entry.route)
            entry.leases = leases.get(entry, 0)
            entry.retired = entry.retired or not (entry.leases or entry.is_at_rest)
            if entry.retired:
                group.draining += 1
                if not entry.leases:
                    self._drained(entry, now, grant=False)
                continue
            group.count += 1
            if entry.shared:
                group.shared.append(entry)
            elif not entry.leases:
                group.free.append(entry)
        self._requeue(now)

    def _requeue(self, now: float) -> None:
        """Let those wait who have not taken what they were given, and give it to them."""
        groups = list(self._groups.values())
        for group in groups:
            group.shared.sort(key=lambda entry: entry.version != "h3")
            group.waiting = deque(ticket for ticket in group.waiting if not ticket.taken)
            for ticket in group.waiting:
                ticket.outcome = None
        self._waiting = sum(len(group.waiting) for group in groups)
        for group in groups:
            self._grant(group, now)
            self._forget(group)

    def close(self, *, abort: bool = False) -> None:
        """Take no more requests; calls that wait get ClientClosed. Idempotent.

        Connections are discarded when the last exchange on them ends, at once where `abort`.
        """
        self.is_closed = True
        for entry in self._entries:
            entry.retired = True
            if abort or not entry.leases:
                self.discarded.append(entry.connection)
        self._entries.clear()
        for group in self._groups.values():
            for ticket in group.waiting:
                ticket.outcome = ClientClosed("the client was closed while a request waited")
                ticket.wake()
            group.waiting.clear()
        self._waiting = 0
        self._groups.clear()

    def _check(self, route: Route) -> None:
        """Whether any wanted version is possible there."""
        if route.origin.scheme == "http":
            possible = self._tcp
        else:
            possible = self._tcp if route.proxy else self.policy.versions
        if not possible or (route.forwards and "h1" not in possible):
            what = "through a proxy" if route.proxy else "without TLS"
            wanted = ", ".join(self.policy.versions)
            raise VersionUnavailable(
                f"{route.origin} cannot be had {what} by {wanted}: add h1 to versions"
            )

    def _decide(self, group: Group[Connection], now: float) -> Entry[Connection] | Attempt | None:
        entry: Entry[Connection] | None
        for entry in group.shared:
            if not entry.exhausted and entry.connection.capacity > 0:
                break
        else:
            entry = self._free(group, now)
        if entry is not None:
            if self._h3 and entry.version != "h3":
                probe = self._probe(group, now)
                if probe is not None:
                    return probe
            if not entry.shared:
                group.free.pop()
            entry.idle = not entry.leases
            entry.leases += 1
            return entry
        if any(one.exhausted and one.connection.capacity > 0 for one in group.shared):
            return None  # There will be room in a moment.
        # A second attempt is made only where the first is known not to give a shared connection.
        if (group.opening and not self._single(group)) or not self._room(group, now):
            return None
        return self._begin(group, now)

    def _free(self, group: Group[Connection], now: float) -> Entry[Connection] | None:
        """An idle connection of HTTP/1.1, where none that is shared has room."""
        for entry in [entry for entry in group.shared if entry.connection.is_closing]:
            self._retire(group, entry, now, grant=False)
        return group.free[-1] if group.free else None

    def _probe(self, group: Group[Connection], now: float) -> Attempt | None:
        """An attempt for HTTP/3 beside TCP connections that stand."""
        route = group.route
        if group.probing or any(entry.version == "h3" for entry in group.shared):
            return None
        alternative = self._alternative(route, now)
        if alternative is None or not self._room(group, now, evict=False):
            return None
        return self._alone(group, alternative, now)

    def _alone(
        self, group: Group[Connection], alternative: altsvc.Alternative, now: float
    ) -> Attempt:
        # A handshake of QUIC takes one round trip where TCP and TLS take two.
        known = group.connect_s
        patience = PATIENCE_S if known is None else max(LEAST_PATIENCE_S, 2 * known)
        group.probing = True
        place = Origin("https", alternative.host, alternative.port)
        return self._attempt(group, place, ("h3",), alternative, now, patience)

    def _begin(self, group: Group[Connection], now: float) -> Attempt:
        """An attempt where no connection has room."""
        route = group.route
        origin = route.origin
        for entry in group.shared:
            group.learn(entry)
        alternative = self._alternative(route, now)
        here = alternative is not None and (alternative.host, alternative.port) == origin[1:]
        if alternative is not None and not here and self._tcp and not group.probing:
            return self._alone(group, alternative, now)
        place = origin
        versions: tuple[str, ...] = self._tcp
        if route.forwards and route.proxy is not None:
            place, versions = route.proxy.origin, ("h1",)
        elif origin.scheme == "http":
            versions = ("h1",) if "h1" in self._tcp else ("h2",)
        elif not self._tcp or here:
            versions = self.policy.versions
        if alternative is not None and not self._tcp:
            place = Origin(origin.scheme, alternative.host, alternative.port)
        group.opening += 1
        return self._attempt(group, place, versions, alternative, now)

    def _attempt(
        self,
        group: Group[Connection],
        place: Origin,
        versions: tuple[str, ...],
        alternative: altsvc.Alternative | None,
        now: float,
        patience: float | None = None,
    ) -> Attempt:
        """An attempt at a place; one with `patience` is for an alternative alone."""
        route = group.route
        elsewhere = place.host != route.origin.host and not route.forwards
        attempt = Attempt(
            route=route,
            host=place.host,
            port=place.port,
            scheme=place.scheme,
            versions=versions,
            server_name=route.server_name or (route.origin.host if elsewhere else None),
            tunnel=None if route.forwards else route.proxy,
            unix=self.policy.unix,
            race_s=self.policy.race_s,
            limit_s=patience,
            alternative=alternative if "h3" in versions else None,
            began=now,
            streams=group.streams,
        )
        group.count += 1
        self._attempts.add(attempt)
        return attempt

    def _alternative(self, route: Route, now: float) -> altsvc.Alternative | None:
        origin = route.origin
        # HTTP/3 goes neither through a tunnel nor a Unix socket.
        direct = route.proxy is None and self.policy.unix is None and origin.scheme == "https"
        if not self._h3 or not direct:
            return None
        found = self.alternatives.best(origin, now)
        if found is None and self.policy.race_unannounced:
            itself = altsvc.Alternative("h3", origin.host, origin.port)
            if not self.alternatives.is_broken(origin, itself, now):
                return itself
        return found

    def _single(self, group: Group[Connection]) -> bool:
        """Whether connections of the route are known to take one request at a time."""
        if group.shared:
            return False
        if group.count > group.opening + group.probing:
            return True  # Connections stand, and none is shared.
        if group.route.forwards or group.route.origin.scheme == "http":
            return "h1" in self._tcp
        return self._tcp == ("h1",) and not self._h3

    def _room(self, group: Group[Connection], now: float, *, evict: bool = True) -> bool:
        """Whether the limits allow another connection, perhaps instead of one that lies idle."""
        if group.count >= self.policy.max_per_origin:
            silent = [one for one in group.shared if not one.leases and one.connection.is_silent]
            if not silent or not evict:
                return False
            self._retire(group, silent[0], now, grant=False)
        if len(self._entries) + len(self._attempts) < self.policy.max_connections:
            return True
        if not evict:
            return False
        idle = [entry for entry in self._entries if not entry.leases]
        if not idle:
            return False
        oldest = min(idle, key=lambda entry: entry.idle_since)
        other = self._groups[oldest.route]
        self._retire(other, oldest, now, grant=False)
        if other is not group:
            self._forget(other)
        return True

    def _group(self, route: Route) -> Group[Connection]:
        group = self._groups.get(route)
        if group is None:
            group = self._groups[route] = Group(route)
        return group

    def _ended(self, attempt: Attempt) -> Group[Connection]:
        self._attempts.remove(attempt)
        group = self._groups[attempt.route]
        group.count -= 1
        if attempt.alone:
            group.probing = False
        else:
            group.opening -= 1
        return group

    def _retire(
        self, group: Group[Connection], entry: Entry[Connection], now: float, *, grant: bool = True
    ) -> None:
        """The entry takes no more requests; it is discarded when nobody uses it."""
        entry.retired = True
        group.learn(entry)
        group.count -= 1
        group.draining += 1
        if entry.shared:
            group.shared.remove(entry)
        elif entry in group.free:
            group.free.remove(entry)
        if not entry.leases:
            self._drained(entry, now, grant=grant)
        elif grant:
            self._freed(group, now)

    def _drained(self, entry: Entry[Connection], now: float, *, grant: bool = True) -> None:
        self.discarded.append(entry.connection)
        if entry not in self._entries:
            return  # The router was closed before.
        del self._entries[entry]
        group = self._groups[entry.route]
        group.draining -= 1
        if grant:
            self._freed(group, now)

    def _freed(self, group: Group[Connection], now: float) -> None:
        """There may be room: first for calls that wait here, then for those at the pool's limit."""
        self._grant(group, now)
        if self._waiting:
            for other in [other for other in self._groups.values() if other.waiting]:
                self._grant(other, now)
        self._forget(group)

    def _grant(self, group: Group[Connection], now: float) -> None:
        while group.waiting:
            outcome = self._decide(group, now)
            if outcome is None:
                return
            # In this order: one that is interrupted is found by `recount`.
            ticket = group.waiting[0]
            ticket.outcome = outcome
            ticket.wake()
            group.waiting.popleft()
            self._waiting -= 1

    def _forget(self, group: Group[Connection]) -> None:
        if group.is_empty and self._groups.get(group.route) is group:
            del self._groups[group.route]

    def _expire(self, now: float) -> None:
        """Discard what lay idle for too long. There is no timer: requests trigger it."""
        self._next_expiry = now + self.policy.idle_s / 4
        since = now - self.policy.idle_s
        for entry in [e for e in self._entries if not e.leases and e.idle_since <= since]:
            group = self._groups[entry.route]
            self._retire(group, entry, now, grant=False)
            self._forget(group)
