"""A pool for threads: a `Router` behind a lock, with sockets.

The lock is held for decisions only, never while anything is read, written, opened or closed.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from time import monotonic

from trilane._core import Connection, Tls, connect

from .errors import ConnectTimeout, Error, PoolTimeout
from .origins import Origin
from .routing import Attempt, Entry, Policy, Route, Router, Ticket
from .timeouts import Timeouts


class Pool:
    """Connections that threads share."""

    def __init__(
        self, policy: Policy, tls: Callable[[], Tls], source: tuple[str, int] | None = None
    ) -> None:
        """`tls` is called when a connection first needs it; `source` is the local address."""
        self._policy = policy
        self._make_tls = tls
        self._source = source
        self._begin()
        _pools.add(self)

    def _begin(self) -> None:
        self._router: Router[Connection] = Router(self._policy)
        self._lock = threading.Lock()
        self._tls: Tls | None = None
        # What was given back while another thread had the lock, which then does the rest. A
        # response can be given back by the garbage collector, in the middle of anything.
        self._returned: deque[tuple[Entry[Connection], bool]] = deque()

    def lease(
        self, route: Route, limits: Timeouts, *, wait: bool = True
    ) -> Entry[Connection] | None:
        """A connection for one more request; `give_back` ends the lease.

        None: there is none now, and it may not `wait` for one. To open one is no waiting.

        Errors: ConnectFailed and its kinds, PoolTimeout, ClientClosed.
        """
        began = monotonic()
        with self._lock:
            entry = self._router.acquire(route, began)
        if self._returned:
            self._collect()
        if entry is not None and not isinstance(entry, Attempt) and not entry.idle:
            return entry
        outcome: Entry[Connection] | Attempt | None = entry
        while True:
            if outcome is None:
                outcome = self._next(route, limits, began, wait=wait)
            if outcome is None:
                return None
            if isinstance(outcome, Attempt):
                opened = self._open(outcome, limits)
                if opened is not None:
                    return opened
            # What lay idle may have been closed by the server meanwhile.
            elif not (outcome.idle and outcome.reused) or outcome.connection.is_alive():
                return outcome
            else:
                self.give_back(outcome, reusable=False)
            outcome = None

    def give_back(self, entry: Entry[Connection], *, reusable: bool) -> None:
        """End a lease. Waits for nothing, so the garbage collector may call it anywhere."""
        if not self._lock.acquire(False):
            self._returned.append((entry, reusable))
        else:
            try:
                self._router.release(entry, monotonic(), reusable=reusable)
            finally:
                self._lock.release()
        if self._returned or self._router.discarded:
            self._collect()

    def learn(self, origin: Origin, value: str, age_s: float) -> None:
        """Take in the field `alt-svc`."""
        with self._lock:
            self._router.alternatives.learn(origin, value, monotonic(), age_s=age_s)
        self._collect()

    def misdirected(self, entry: Entry[Connection]) -> None:
        """The alternative answered 421."""
        with self._lock:
            self._router.misdirected(entry, monotonic())
        self._collect()

    def broken(self, entry: Entry[Connection]) -> None:
        """A connection died under a request."""
        if entry.alternative is not None:
            with self._lock:
                self._router.broken(entry, monotonic())
            self._collect()

    def network_changed(self) -> None:
        """Forget the alternatives that do not persist (RFC 7838 §2.2)."""
        with self._lock:
            self._router.alternatives.network_changed()
        self._collect()

    def entries(self) -> list[Entry[Connection]]:
        """The open connections."""
        with self._lock:
            return self._router.entries

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._router.is_closed

    def close(self, *, abort: bool = False) -> None:
        """Close what is idle now, and the rest when its exchanges end, or now where `abort`."""
        with self._lock:
            self._router.close(abort=abort)
        self._collect()

    def _next(
        self, route: Route, limits: Timeouts, began: float, *, wait: bool
    ) -> Entry[Connection] | Attempt | None:
        now = monotonic()
        ticket = None
        with self._lock:
            outcome = self._router.acquire(route, now)
            if outcome is None and wait:
                event = threading.Event()
                ticket = self._router.wait(route, event.set)
        if self._returned or self._router.discarded:
            self._collect()
        return outcome if ticket is None else self._wait(ticket, event, limits, began)

    def _wait(
        self, ticket: Ticket[Connection], event: threading.Event, limits: Timeouts, began: float
    ) -> Entry[Connection] | Attempt:
        try:
            while not self._served(ticket, event, limits, began):
                pass
        except BaseException:
            with self._lock:
                self._router.cancel(ticket, monotonic())
            self._collect()
            raise
        outcome = ticket.outcome
        if isinstance(outcome, Error):
            raise outcome
        assert outcome is not None  # noqa: S101 - it is set before the event
        return outcome

    def _served(
        self, ticket: Ticket[Connection], event: threading.Event, limits: Timeouts, began: float
    ) -> bool:
        connecting = ticket.connecting
        limit = limits.connect if connecting else limits.pool
        left = None if limit is None else max(0.0, began + limit - monotonic())
        if event.wait(left):
            return True
        with self._lock:
            if ticket.outcome is not None:
                return True
            if ticket.connecting is not connecting:
                return False
        origin = ticket.route.origin
        if connecting:
            raise ConnectTimeout(f"no connection to {origin} was ready after {limit} s")
        raise PoolTimeout(
            f"no connection to {origin} was free after {limit} s: read or close responses, or "
            "raise max_connections"
        )

    def _open(self, attempt: Attempt, limits: Timeouts) -> Entry[Connection] | None:
        """Do what the attempt says. None: begin again."""
        timeout = limits.connect
        if attempt.limit_s is not None:
            timeout = attempt.limit_s if timeout is None else min(timeout, attempt.limit_s)
        tunnel = attempt.tunnel
        try:
            connection = connect(
                attempt.host,
                attempt.port,
                scheme=attempt.scheme,
                versions=attempt.versions,
                tls=self._security() if attempt.scheme == "https" else None,
                server_name=attempt.server_name,
                timeout=timeout,
                source=self._source,
                proxy=(tunnel.origin.host, tunnel.origin.port, tunnel.fields) if tunnel else None,
                race=attempt.race_s,
                unix=attempt.unix,
            )
            with self._lock:
                entry = self._router.opened(attempt, connection, monotonic())
        except Error as error:
            with self._lock:
                again = self._router.failed(attempt, error, monotonic())
            self._collect()
            if again:
                return None
            raise
        except BaseException:
            with self._lock:
                self._router.abandoned(attempt, monotonic())
            self._collect()
            raise
        self._collect()
        return entry

    def _security(self) -> Tls:
        if self._tls is None:
            self._tls = self._make_tls()
        return self._tls

    def _collect(self) -> None:
        """Take in what was given back, unless who has the lock will, and close what is left over.

        Whoever had the lock calls this after letting it go, so nothing stays behind.
        """
        while self._returned and self._lock.acquire(False):
            try:
                while self._returned:
                    entry, reusable = self._returned.popleft()
                    self._router.release(entry, monotonic(), reusable=reusable)
            finally:
                self._lock.release()
        discarded = self._router.discarded
        while discarded:
            try:
                connection = discarded.pop()
            except IndexError:  # Another thread was quicker.
                return
            connection.close()

    def _after_fork(self) -> None:
        """Begin with nothing: the connections are the parent's, and so are locked locks."""
        for entry in self._router.entries:
            # To let go of a connection is all that the native part allows here.
            entry.inherited = entry.retired = True
        self._begin()


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_pools):
        pool._after_fork()  # noqa: SLF001 - of this module


os.register_at_fork(after_in_child=_after_fork)
