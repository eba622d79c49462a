"""How long an experiment will still take, before and while its runs are made."""

from __future__ import annotations

from typing import Any

import pytest

from trilane.lab.asked import Entry
from trilane.lab.clock import Clock, expected_s
from trilane.lab.experiment import networks
from trilane.lab.experiment.workload import Workload


def entry(arm: str, block: int, point: int = 0) -> Entry:
    return Entry(point, block, 0, arm, 0)


PLANNED = [entry(arm, block) for block in range(3) for arm in ("short", "long")]
GUESSES = {"short": 3.0, "long": 12.0}


def clock(*made: Entry) -> Clock:
    return Clock(PLANNED, {each.key for each in made}, lambda each: GUESSES[each.arm])


def test_before_a_run_is_made_each_arm_has_its_own_guess() -> None:
    assert clock().left_s() == 3 * 3 + 3 * 12


def test_what_was_made_before_is_not_waited_for() -> None:
    assert clock(*PLANNED[:2]).left_s() == 2 * 3 + 2 * 12


def test_a_run_tells_of_its_own_arm_and_sets_the_guess_of_the_others_right() -> None:
    made = clock()
    made.took(PLANNED[0], 6.0)
    assert made.left_s() == pytest.approx(2 * 6 + 3 * 24)
    made.took(PLANNED[1], 10.0)
    assert made.left_s() == pytest.approx(2 * 6 + 2 * 10)


def test_an_arm_at_another_point_is_another() -> None:
    planned = [entry("short", 0), entry("short", 0, point=1)]
    made = Clock(planned, (), lambda _entry: 5.0)
    made.took(planned[0], 2.0)
    assert made.left_s() == pytest.approx(2.0)


def test_a_run_by_time_is_as_long_as_that() -> None:
    work = Workload(duration_s=20.0, warmup_s=0.5)
    short = Workload(duration_s=1.0, warmup_s=0.5)
    arm = work.arm("trilane", "h1", "load")
    assert expected_s(arm, work) - expected_s(arm, short) == pytest.approx(19.0)


def test_a_run_by_count_waits_for_the_network_as_its_arm_does() -> None:
    work = Workload(count=1000)
    serial = work.arm("requests", "h1", network="rtt=40ms")
    pooled = work.arm("requests", "h1", "threads", threads=10, network="rtt=40ms")
    alone = work.arm("requests", "h1", network="rtt=40ms", session=False)
    near = work.arm("requests", "h1")
    waits = {arm.title: expected_s(arm, work) - expected_s(near, work) for arm in (serial, pooled)}
    assert waits[serial.title] == pytest.approx(40.0)
    assert waits[pooled.title] == pytest.approx(4.0)
    assert expected_s(alone, work) > 2 * expected_s(serial, work)


def test_a_run_by_count_takes_as_long_as_its_bytes_do() -> None:
    def transfer_s(network: str, connections: int = 1, **work: Any) -> float:
        asked = Workload(**{"count": 1, "paths": ("/bytes/10000000",), **work})
        arm = asked.arm("engine", "h2", "load", connections=connections, network=network)
        near = Workload(count=1).arm("engine", "h2", "load", connections=connections)
        return expected_s(arm, asked) - expected_s(near, asked) - networks.rtt_s(network)

    assert transfer_s("rtt=50ms,rate=20mbit") == pytest.approx(4.0)
    assert transfer_s("rtt=50ms,up.rate=1mbit,down.rate=20mbit") == pytest.approx(4.0)
    assert transfer_s("rtt=50ms") == pytest.approx(0)
    # At 1 % a connection gets 24 packets a round trip, whatever the link has; two get twice that.
    assert transfer_s("rtt=50ms,rate=20mbit,loss=1%") == pytest.approx(27.2, abs=0.1)
    assert transfer_s("rtt=50ms,rate=20mbit,loss=1%", connections=2) == pytest.approx(13.6, abs=0.1)
    assert transfer_s("rtt=50ms,rate=20mbit,loss=0.001%") == pytest.approx(4.0)
    sizes = ("/bytes/1m", "/hello")
    assert transfer_s("rate=8mbit", paths=sizes, count=2) == pytest.approx(1.048576)
    assert transfer_s("rate=8mbit", paths=("/hello",), body=b"x" * 500_000) == pytest.approx(0.5)


def test_runs_that_are_not_needed_any_more_take_no_time() -> None:
    planned = [entry("short", block) for block in range(4)]
    made = Clock(planned, (), lambda _entry: 5.0)
    made.took(planned[0], 2.0)
    made.skip(planned[2:])
    assert made.left_s() == pytest.approx(2.0)
