"""A pool for threads: a `Router` behind a lock, with sockets.

The lock is held for decisions only, never while anything is read, written, opened or closed.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Final, TypeVar

from trilane._core import Connection, Tls
from trilane.client._flow import log
from trilane.client._flow.origins import Origin
from trilane.client._flow.preparing import OnStep
from trilane.client._flow.resolving import opened
from trilane.client._flow.routes import Attempt, Entry, Policy, Route, Ticket
from trilane.client._flow.routing import Router
from trilane.client._flow.timeouts import Timeouts
from trilane.client._greenlets import connect
from trilane.client.errors import Error, LocalError

Outcome = TypeVar("Outcome")


_LOOK_S: Final = 0.25
"""How often a thread that waits for a connection looks whether a lease was lost."""


class Lease:
    """A connection for one request, or the right to open one: who lets go of it gives it back.

    What a signal handler raises may come between any two steps of the main thread. So nobody has to
    reach the line that gives a lease back: it counts for as long as it exists.
    """

    __slots__ = ("__weakref__", "_hold", "entry")

    entry: Entry[Connection]
    """The connection, once there is one."""
    _hold: _Hold


class _Hold(weakref.ref[Lease]):
    """What a pool knows of a lease. Its callback is not in Python: nothing can interrupt it."""

    __slots__ = ("what",)

    what: Entry[Connection] | Attempt


_NOBODY: Final = Lease()
_ENDED: Final = _Hold(_NOBODY)
"""Of leases that were given back: no pool has it, so that their end is not looked into."""


class _Waiter:
    """What a thread waits for at the limits of a pool."""

    __slots__ = ("granted", "lease", "ticket")

    def __init__(self) -> None:
        self.granted = threading.Event()
        self.lease: Lease | None = None
        self.ticket: Ticket[Connection] | None = None


class Pool:
    """Connections that threads share.

    The garbage collector may give a response back in the middle of anything, also of a decision in
    the same thread. So the lock can be taken again by the thread that has it, which then finds that
    it is deciding, and what comes is settled after that.

    A decision may be interrupted too, by what a signal handler raises. The next one then begins by
    counting anew what there is.
    """

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
        # Always taken by `with`: no Ctrl-C comes between taking it and what gives it back.
        self._lock = threading.RLock()
        self._deciding = False
        self._later: deque[Callable[[], object]] = deque()
        self._holds: set[_Hold] = set()
        # Of leases that were let go of; None: a decision was interrupted.
        self._lost: deque[_Hold | None] = deque()
        self._tls: Tls | None = None

    def lease(  # noqa: C901, PLR0912 - one wait after another
        self,
        route: Route,
        limits: Timeouts,
        *,
        wait: bool = True,
        on_step: OnStep | None = None,
    ) -> Lease | None:
        """A connection for one more request; `give_back` ends the lease, as does its end.

        None: there is none now, and it may not `wait` for one; opening one is not waiting.

        Raises:
            ConnectFailed: no connection could be made.
            PoolTimeout: none was free in time.
            ClientClosed: the client was closed.
        """
        began = monotonic()
        lease = None
        with self._lock:
            if self._deciding:
                self._expect_no_decision()
            self._deciding = True
            try:
                if self._lost:
                    self._reclaim()
                outcome = self._router.acquire(route, began)
                if outcome is not None:
                    lease = self._hold(outcome)
            except BaseException as error:
                if not isinstance(error, Error):
                    self._lost.append(None)
                raise
            finally:
                self._deciding = False
        if self._later or self._router.discarded:
            # At once: the new connection may be opened in the place of what is to be closed.
            self._settle()
        while True:
            if lease is None:
                lease = self._next(route, limits, began, wait=wait)
            if lease is None:
                return None
            what = lease._hold.what  # noqa: SLF001 - of this module
            if isinstance(what, Attempt):
                if self._open(lease, what, limits, on_step):
                    return lease
            # What lay idle may have been closed by the server meanwhile.
            elif not what.idle or what.connection.is_alive():
                return lease
            else:
                self.give_back(lease, reusable=False)
            lease = None

    def give_back(self, lease: Lease, *, reusable: bool) -> None:
        """End a lease. It waits for nothing but decisions, and may be called anywhere."""
        hold = lease._hold  # noqa: SLF001 - of this module
        with self._lock:
            if self._deciding:
                self._later.append(lambda: self._release(hold, reusable=reusable))
                return
            self._deciding = True
            try:
                if self._lost:
                    self._reclaim()
                self._release(hold, reusable=reusable)
                lease._hold = _ENDED  # noqa: SLF001 - of this module
            except BaseException:
                self._lost.append(None)
                raise
            finally:
                self._deciding = False
        if self._later or self._router.discarded:
            self._settle()

    def full(self, lease: Lease) -> bool:
        """End a lease whose request the connection did not take. True: leave it a moment."""
        hold, entry = lease._hold, lease.entry  # noqa: SLF001 - of this module

        def decide() -> bool:
            self._holds.discard(hold)
            return self._router.full(entry, monotonic())

        return self._decide(decide)

    def learn(self, origin: Origin, value: str, age_s: float) -> None:
        """Take in the field `alt-svc`."""
        memory = self._router.alternatives
        self._settle(lambda: memory.learn(origin, value, monotonic(), age_s=age_s))

    def misdirected(self, entry: Entry[Connection]) -> None:
        """The alternative answered 421."""
        self._settle(lambda: self._router.misdirected(entry, monotonic()))

    def answered(self, entry: Entry[Connection]) -> None:
        """The alternative has answered for the first time."""
        self._settle(lambda: self._router.answered(entry))

    def broken(self, entry: Entry[Connection]) -> None:
        """The alternative has failed."""
        if entry.alternative is not None:
            self._settle(lambda: self._router.broken(entry, monotonic()))

    def network_changed(self) -> None:
        """Forget the alternatives that do not persist (RFC 7838 §2.2)."""
        self._settle(self._router.alternatives.network_changed)

    def entries(self) -> list[Entry[Connection]]:
        """The open connections."""
        return self._decide(lambda: self._router.entries)

    def close(self, *, abort: bool = False) -> None:
        """Close what is idle now, and the rest when its exchanges end, or now where `abort`."""
        self._settle(lambda: self._router.close(abort=abort))

    def _hold(self, what: Entry[Connection] | Attempt) -> Lease:
        """A lease of what the router gave. For who decides."""
        lease = Lease()
        hold = lease._hold = _Hold(lease, self._lost.append)  # noqa: SLF001 - of this module
        hold.what = what
        if type(what) is Entry:
            lease.entry = what
        self._holds.add(hold)
        return lease

    def _release(self, hold: _Hold, *, reusable: bool) -> None:
        """End a lease, unless it has ended. For who decides."""
        if hold not in self._holds:
            return
        self._holds.discard(hold)
        if isinstance(hold.what, Entry):
            self._router.release(hold.what, monotonic(), reusable=reusable)
        else:
            self._router.abandoned(hold.what, monotonic())

    def _reclaim(self) -> None:
        """End the leases that were let go of, and mend what was interrupted. For who decides."""
        interrupted = False
        while self._lost:
            hold = self._lost.popleft()
            if hold is None:
                interrupted = True
            else:
                what = hold.what
                self._release(hold, reusable=isinstance(what, Entry) and what.is_at_rest)
        if interrupted:
            self._holds = {hold for hold in self._holds if hold() is not None}
            held = [hold.what for hold in self._holds]
            leases = Counter(what for what in held if isinstance(what, Entry))
            attempts = {what for what in held if isinstance(what, Attempt)}
            self._router.recount(leases, attempts, monotonic())

    def _next(self, route: Route, limits: Timeouts, began: float, *, wait: bool) -> Lease | None:
        waiter = _Waiter()

        def granted() -> None:
            ticket = waiter.ticket
            if ticket is not None:
                if isinstance(ticket.outcome, Entry | Attempt):
                    waiter.lease = self._hold(ticket.outcome)
                ticket.taken = True
            waiter.granted.set()

        def decide() -> None:
            outcome = self._router.acquire(route, monotonic())
            if outcome is not None:
                waiter.lease = self._hold(outcome)
            elif wait:
                waiter.ticket = self._router.wait(route, granted)

        try:
            self._decide(decide)
            if waiter.ticket is not None:
                self._wait(waiter, waiter.ticket, limits, began)
            return waiter.lease
        finally:
            # The ticket has the waiter: nobody is to wait for the garbage collector.
            waiter.ticket = waiter.lease = None

    def _wait(
        self, waiter: _Waiter, ticket: Ticket[Connection], limits: Timeouts, began: float
    ) -> None:
        try:
            while True:
                now = monotonic()
                connecting, limit = ticket.connecting, ticket.limit(limits.since(now - began))
                left = math.inf if limit is None else max(0.0, began + limit - now)
                if waiter.granted.wait(min(left, _LOOK_S)):
                    break
                if self._lost:
                    self._settle(lambda: None)
                if left > _LOOK_S:
                    continue
                with self._lock:
                    if ticket.taken:
                        break
                    if ticket.connecting is connecting:
                        raise ticket.late(limits)  # noqa: TRY301 - the place is given up below
        except BaseException:
            self._settle(lambda: self._give_up(waiter, ticket))
            raise
        if isinstance(ticket.outcome, Error):
            raise ticket.outcome

    def _give_up(self, waiter: _Waiter, ticket: Ticket[Connection]) -> None:
        lease, waiter.lease = waiter.lease, None
        if lease is None:
            self._router.cancel(ticket, monotonic())
        else:
            self._release(lease._hold, reusable=True)  # noqa: SLF001 - of this module

    def _open(
        self, lease: Lease, attempt: Attempt, limits: Timeouts, on_step: OnStep | None = None
    ) -> bool:
        """Do what the attempt says, for the lease. False: begin again."""
        hold = lease._hold  # noqa: SLF001 - of this module
        try:
            if on_step is not None:
                on_step("connect", attempt)
            tls = self._security() if attempt.needs_tls else None
            way = partial(connect, tls=tls, source=self._source)
            connection = opened(attempt, self._policy, way, attempt.timeout(limits))
            log.opened(attempt, connection)
            if on_step is not None:
                on_step("connected", connection)

            def take() -> None:
                entry = self._router.opened(attempt, connection, monotonic())
                hold.what = lease.entry = entry
                entry.opener = threading.get_ident()

            self._decide(take)
        except Error as error:
            failure = attempt.told(error)
            log.failed(attempt, error)

            def fail() -> bool:
                self._holds.discard(hold)
                return self._router.failed(attempt, failure, monotonic())

            again = self._decide(fail)
            if on_step is not None:
                on_step("failed", error)
            if again:
                return False
            raise
        except BaseException:
            self._settle(lambda: self._release(hold, reusable=True))
            raise
        return True

    def _security(self) -> Tls:
        if self._tls is None:
            self._tls = self._make_tls()
        return self._tls

    def _expect_no_decision(self) -> None:
        if self._deciding:
            raise LocalError("a finaliser sent a request while its thread was about to: do not")

    def _decide(self, decide: Callable[[], Outcome]) -> Outcome:
        with self._lock:
            self._expect_no_decision()
            self._deciding = True
            try:
                if self._lost:
                    self._reclaim()
                outcome = decide()
            except BaseException as error:
                if not isinstance(error, Error):
                    self._lost.append(None)
                raise
            finally:
                self._deciding = False
        self._settle()
        return outcome

    def _settle(self, decide: Callable[[], object] | None = None) -> None:
        """Decide something now, or after the decision that this thread is in the middle of.

        Then close what has left the pool, outside of the lock.
        """
        if decide is not None:
            self._later.append(decide)
        while self._later:
            with self._lock:
                if self._deciding:
                    return
                if self._later:  # Or another thread was quicker.
                    self._deciding = True
                    try:
                        if self._lost:
                            self._reclaim()
                        self._later.popleft()()
                    except BaseException:
                        self._lost.append(None)
                        raise
                    finally:
                        self._deciding = False
        discarded = self._router.discarded
        while discarded:
            try:
                connection = discarded.pop()
            except IndexError:  # Another thread was quicker.
                return
            log.closed(connection)
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
