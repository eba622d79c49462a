"""A pool for threads: a `Router` behind a lock, with sockets.

The lock is held for decisions only, never while anything is read, written, opened or closed.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TypeVar

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


class Pool:
    """Connections that threads share.

    The garbage collector may give a response back in the middle of anything, also of a decision in
    the same thread. So the lock can be taken again by the thread that has it, which then finds that
    it is deciding, and what comes is settled after that.
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
        self._tls: Tls | None = None

    def lease(
        self,
        route: Route,
        limits: Timeouts,
        *,
        wait: bool = True,
        on_step: OnStep | None = None,
    ) -> Entry[Connection] | None:
        """A connection for one more request; `give_back` ends the lease.

        None: there is none now, and it may not `wait` for one; opening one is not waiting.

        Raises:
            ConnectFailed: no connection could be made.
            PoolTimeout: none was free in time.
            ClientClosed: the client was closed.
        """
        began = monotonic()
        with self._lock:
            if self._deciding:
                self._expect_no_decision()
            self._deciding = True
            try:
                outcome = self._router.acquire(route, began)
            finally:
                self._deciding = False
        if self._later or self._router.discarded:
            # At once: the new connection may be opened in the place of what is to be closed.
            self._settle()
        if isinstance(outcome, Entry) and not outcome.idle:
            return outcome
        while True:
            if outcome is None:
                outcome = self._next(route, limits, began, wait=wait)
            if outcome is None:
                return None
            if isinstance(outcome, Attempt):
                opened = self._open(outcome, limits, on_step)
                if opened is not None:
                    return opened
            # What lay idle may have been closed by the server meanwhile.
            elif not outcome.idle or outcome.connection.is_alive():
                return outcome
            else:
                self.give_back(outcome, reusable=False)
            outcome = None

    def give_back(self, entry: Entry[Connection], *, reusable: bool) -> None:
        """End a lease. It waits for nothing but decisions, and may be called anywhere."""
        with self._lock:
            if self._deciding:
                router = self._router
                self._later.append(lambda: router.release(entry, monotonic(), reusable=reusable))
                return
            self._deciding = True
            try:
                self._router.release(entry, monotonic(), reusable=reusable)
            finally:
                self._deciding = False
        if self._later or self._router.discarded:
            self._settle()

    def full(self, entry: Entry[Connection]) -> bool:
        """End a lease whose request the connection did not take. True: leave it a moment."""
        return self._decide(lambda: self._router.full(entry, monotonic()))

    def learn(self, origin: Origin, value: str, age_s: float) -> None:
        """Take in the field `alt-svc`."""
        memory = self._router.alternatives
        self._settle(lambda: memory.learn(origin, value, monotonic(), age_s=age_s))

    def misdirected(self, entry: Entry[Connection]) -> None:
        """The alternative answered 421."""
        self._settle(lambda: self._router.misdirected(entry, monotonic()))

    def broken(self, entry: Entry[Connection]) -> None:
        """A connection died under a request."""
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

    def _next(
        self, route: Route, limits: Timeouts, began: float, *, wait: bool
    ) -> Entry[Connection] | Attempt | None:
        event = threading.Event()

        def decide() -> Entry[Connection] | Attempt | Ticket[Connection] | None:
            outcome = self._router.acquire(route, monotonic())
            return self._router.wait(route, event.set) if outcome is None and wait else outcome

        outcome = self._decide(decide)
        if isinstance(outcome, Ticket):
            return self._wait(outcome, event, limits, began)
        return outcome

    def _wait(
        self, ticket: Ticket[Connection], event: threading.Event, limits: Timeouts, began: float
    ) -> Entry[Connection] | Attempt:
        try:
            while True:
                now = monotonic()
                connecting, limit = ticket.connecting, ticket.limit(limits.since(now - began))
                left = None if limit is None else max(0.0, began + limit - now)
                if event.wait(left):
                    break
                with self._lock:
                    if ticket.outcome is not None:
                        break
                    if ticket.connecting is connecting:
                        raise ticket.late(limits)  # noqa: TRY301 - the place is given up below
        except BaseException:
            self._settle(lambda: self._router.cancel(ticket, monotonic()))
            raise
        outcome = ticket.outcome
        if isinstance(outcome, Error):
            raise outcome
        assert outcome is not None  # noqa: S101 - it is set before the event
        return outcome

    def _open(
        self, attempt: Attempt, limits: Timeouts, on_step: OnStep | None = None
    ) -> Entry[Connection] | None:
        """Do what the attempt says. None: begin again."""
        try:
            if on_step is not None:
                on_step("connect", attempt)
            tls = self._security() if attempt.needs_tls else None
            way = partial(connect, tls=tls, source=self._source)
            connection = opened(attempt, self._policy, way, attempt.timeout(limits))
            log.opened(attempt, connection)
            if on_step is not None:
                on_step("connected", connection)
            entry = self._decide(lambda: self._router.opened(attempt, connection, monotonic()))
            entry.opener = threading.get_ident()
        except Error as error:
            failure = attempt.told(error)
            log.failed(attempt, error)
            again = self._decide(lambda: self._router.failed(attempt, failure, monotonic()))
            if on_step is not None:
                on_step("failed", error)
            if again:
                return None
            raise
        except BaseException:
            self._settle(lambda: self._router.abandoned(attempt, monotonic()))
            raise
        return entry

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
                outcome = decide()
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
                        self._later.popleft()()
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
