"""The pool of a `Client` under any lives of its connections: nothing leaks, nobody is lost.

The pool and the threads that lease from it are real; connections and their opening are pretended.
"""

from __future__ import annotations

import threading
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trilane.client._flow.routes import Policy, Route, Ticket
from trilane.client._flow.timeouts import Timeouts
from trilane.client._pool import leasing
from trilane.client.errors import ClientClosed, ConnectionRefused, Error, PoolTimeout

from . import pretend
from .pretend import FOR_EVER, SPOKEN, STREAMS, limited

AT_ONCE = FOR_EVER._replace(pool=0.0)
which = st.integers(0, 99)


class Pretended(pretend.Pretended):
    """A connection that can be alive, and that the pool closes."""

    def __init__(self, version: str) -> None:
        super().__init__(version, STREAMS)
        self.closed = 0

    def is_alive(self) -> bool:
        return not self.is_closing

    def close(self) -> None:
        self.closed += 1


class Opening:
    """An attempt under way in the thread of a caller, until a rule says how it ends."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.route = caller.route
        self.outcome: Pretended | Error | None = None
        self.ended = threading.Event()


class Caller(threading.Thread):
    """A thread that wants a connection."""

    def __init__(
        self,
        number: int,
        pool: leasing.Pool,
        route: Route,
        limits: Timeouts,
        moved: threading.Event,
    ) -> None:
        """`moved` is set when it has what it wants."""
        super().__init__(daemon=True)
        self.number = number
        self.pool = pool
        self.route = route
        self.limits = limits
        self.moved = moved
        self.has_ended = False
        self.ticket: Ticket[Any] | None = None
        self.outcome: leasing.Lease | BaseException | None = None

    def run(self) -> None:
        try:
            lease: Any = self.pool.lease(self.route, self.limits)
            lease.entry.connection.outstanding += 1
            self.outcome = lease
            del lease
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.outcome = error
        self.has_ended = True
        self.moved.set()

    def stays(self) -> bool:
        """Whether it has ended, or waits in the queue without a limit."""
        if self.has_ended or self.ticket is None:
            return self.has_ended
        return self.ticket.outcome is None and self.ticket.limit(self.limits) is None


class Lives(RuleBasedStateMachine):
    """Threads that lease connections, moved on in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.came = 0
        self.callers: list[Caller] = []
        self.openings: list[Opening] = []
        self.held: list[leasing.Lease] = []
        self.made: list[Pretended] = []
        self.moved = threading.Event()
        """Set whenever a caller may have come to where it stays."""
        self.patch = patch.multiple(leasing, connect=self.connect, _LOOK_S=0.03)
        self.patch.start()

    @initialize(most=st.integers(2, 5), most_of_one=st.integers(1, 4))
    def begin(self, most: int, most_of_one: int) -> None:
        policy = limited(most, most_of_one)
        self.pool = leasing.Pool(policy, lambda: None)  # type: ignore[arg-type, return-value]
        router = self.pool._router
        wait = router.wait

        def waits(*arguments: Any) -> Ticket[Any]:
            caller = threading.current_thread()
            assert isinstance(caller, Caller)
            caller.ticket = wait(*arguments)
            self.moved.set()
            return caller.ticket

        router.wait = waits  # type: ignore[assignment, method-assign]

    def connect(self, *_: object, **__: object) -> Pretended:
        """In place of the native one, in the caller's thread."""
        caller = threading.current_thread()
        assert isinstance(caller, Caller)
        opening = Opening(caller)
        self.openings.append(opening)
        self.moved.set()
        opening.ended.wait()
        if isinstance(opening.outcome, Error):
            raise opening.outcome
        assert opening.outcome is not None
        return opening.outcome

    @rule(route=st.sampled_from(list(SPOKEN)), count=st.integers(1, 6), patient=st.booleans())
    def ask(self, route: Route, count: int, patient: bool) -> None:
        for _ in range(count):
            self.came += 1
            limits = FOR_EVER if patient else AT_ONCE
            caller = Caller(self.came, self.pool, route, limits, self.moved)
            self.callers.append(caller)
            caller.start()
            # One after the other: the order in which they come is part of what is tried.
            self.settle()

    @precondition(lambda self: self.openings)
    @rule(number=which, fails=st.booleans())
    def open(self, number: int, fails: bool) -> None:
        # Threads come in any order: what a number means must not depend on it.
        self.openings.sort(key=lambda opening: opening.caller.number)
        opening = self.openings.pop(number % len(self.openings))
        if fails:
            opening.outcome = ConnectionRefused("pretended")
        else:
            opening.outcome = Pretended(SPOKEN[opening.route])
            self.made.append(opening.outcome)
        opening.ended.set()

    @precondition(lambda self: self.held)
    @rule(number=which, clean=st.booleans())
    def answer(self, number: int, clean: bool) -> None:
        self.give_back(self.held.pop(number % len(self.held)), clean)

    @precondition(lambda self: len(self.held) > 1)
    @rule(number=which, clean=st.booleans())
    def answer_and_drop_another(self, number: int, clean: bool) -> None:
        """The collector finds a dropped response in the midst of a decision."""
        lease = self.held.pop(number % len(self.held))
        dropped = self.held.pop(number % len(self.held))
        router = self.pool._router
        release = router.release

        def interrupted(*arguments: Any, **named: Any) -> None:
            stop.stop()
            self.give_back(dropped, clean)
            release(*arguments, **named)

        stop = patch.object(router, "release", interrupted)
        stop.start()
        self.give_back(lease, clean)

    def give_back(self, lease: leasing.Lease, clean: bool) -> None:
        connection: Any = lease.entry.connection
        connection.outstanding -= 1
        reusable = (clean or lease.entry.shared) and not connection.is_closing
        self.pool.give_back(lease, reusable=reusable)

    @precondition(lambda self: self.held)
    @rule(number=which, clean=st.booleans())
    def let_go(self, number: int, clean: bool) -> None:
        """Nobody has the lease any more, and nobody has given it back."""
        entry = self.held.pop(number % len(self.held)).entry
        connection: Any = entry.connection
        connection.outstanding -= 1
        connection.is_closing |= not clean and not entry.shared
        self.pool.entries()

    @precondition(lambda self: any(lease.entry.shared for lease in self.held))
    @rule(number=which)
    def refuse(self, number: int) -> None:
        """It had no room, whatever it said."""
        shared = [lease for lease in self.held if lease.entry.shared]
        lease = shared[number % len(shared)]
        self.held.remove(lease)
        connection: Any = lease.entry.connection
        connection.outstanding -= 1
        self.pool.full(lease)

    @precondition(lambda self: self.open_ones())
    @rule(number=which)
    def end(self, number: int) -> None:
        """The peer says goodbye."""
        ones = self.open_ones()
        ones[number % len(ones)].is_closing = True

    def open_ones(self) -> list[Pretended]:
        return [connection for connection in self.made if not connection.closed]

    def settle(self) -> None:
        """Until every caller has what it wants, opens a connection, or waits in the queue."""
        while True:
            # Before it is looked at: what happens after that sets it again.
            self.moved.clear()
            opening = [each.caller for each in self.openings]
            if all(one.stays() or one in opening for one in self.callers):
                return
            self.moved.wait()

    @invariant()
    def everything_holds(self) -> None:
        self.settle()
        for caller in [caller for caller in self.callers if caller.has_ended]:
            self.callers.remove(caller)
            outcome = caller.outcome
            if isinstance(outcome, leasing.Lease):
                self.held.append(outcome)
            else:
                assert isinstance(outcome, ConnectionRefused | PoolTimeout), outcome
                assert caller.limits is AT_ONCE or not isinstance(outcome, PoolTimeout)
        self.limits_are_kept()
        self.nothing_is_left_undone()

    def limits_are_kept(self) -> None:
        router = self.pool._router
        assert len(router._attempts) == len(self.openings)
        assert len(router.entries) + len(self.openings) <= router.policy.max_connections
        for group in router._groups.values():
            assert group.count <= router.policy.max_per_origin
        assert sum(entry.leases for entry in router.entries) == len(self.held)

    def nothing_is_left_undone(self) -> None:
        # Decisions that were put off, and what was to be closed outside of the lock.
        assert not self.pool._later
        assert self.pool._router.discarded == []
        known: set[Any] = {entry.connection for entry in self.pool.entries()}
        assert known == set(self.open_ones())
        assert all(connection.closed <= 1 for connection in self.made)
        for caller in self.callers:
            entries = [e for e in self.pool.entries() if e.route == caller.route]
            roomy = [
                e.connection
                for e in entries
                if e.connection.capacity > 0 and not e.retired and not e.exhausted
            ]
            opening = [one for one in self.openings if one.route == caller.route]
            assert opening or not roomy, "there is room, and somebody waits"

    def teardown(self) -> None:
        """Everything ends well, and then nobody waits and nothing is open."""
        try:
            while self.callers or self.held or self.openings:
                while self.openings:
                    self.open(0, fails=False)
                    self.settle()
                while self.held:
                    self.give_back(self.held.pop(), clean=True)
                self.everything_holds()
            if hasattr(self, "pool"):
                self.pool.close()
                assert self.open_ones() == []
                late = Caller(0, self.pool, next(iter(SPOKEN)), FOR_EVER, self.moved)
                late.run()
                assert isinstance(late.outcome, ClientClosed)
        finally:
            self.patch.stop()


TestLives = Lives.TestCase


def test_what_gives_way_is_closed_before_another_is_opened() -> None:
    """Else there are more connections than the pool may have."""
    one, two, _ = SPOKEN
    pool = leasing.Pool(Policy(max_connections=1, max_per_origin=1), lambda: None)  # type: ignore[arg-type, return-value]
    made: list[Pretended] = []

    def connect(*_: object, **__: object) -> Pretended:
        assert all(connection.closed for connection in made)
        made.append(Pretended("h1"))
        return made[-1]

    with patch.object(leasing, "connect", connect):
        for route in (one, two):
            lease = pool.lease(route, FOR_EVER)
            assert lease is not None
            pool.give_back(lease, reusable=True)
    assert len(made) == 2
