"""The clock that machines share: offsets within their bounds, and who may ask and answer."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilane.cluster import clock
from trilane.cluster.clock import Clock, NoAnswer, Probe, Sample, estimate
from trilane.cluster.lease import Lease

HOSTS = ("127.0.0.1",)
KEY, OTHER_KEY = bytes(32), bytes([1]) * 32
DAY = 24 * 3600 * 10**9
PATIENCE_S = 120.0


@given(
    st.integers(-DAY, DAY),
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=20),
)
def test_the_true_offset_lies_within_the_bound(shift: int, ways: list[tuple[int, int]]) -> None:
    """However long the way there and the way back are, in nanoseconds."""
    samples = [
        Sample(
            sent=number * 10**9, round_trip=there + back, reference=number * 10**9 + there + shift
        )
        for number, (there, back) in enumerate(ways)
    ]
    told = estimate(samples)
    assert abs(told.offset - shift) <= told.error
    assert told.error == (min(there + back for there, back in ways) + 1) // 2


@pytest.mark.parametrize("shift_s", [0, 3600, -86_400])
def test_the_offset_of_a_shifted_clock_is_found(shift_s: int) -> None:
    shift = shift_s * 10**9
    shifted = Clock(KEY, now=lambda: time.time_ns() + shift)
    probe = Probe(HOSTS, shifted.port, KEY, 7)
    try:
        told = probe.offset(PATIENCE_S)
    finally:
        probe.close()
        shifted.close()
    # One clock of one kernel: what is true is known.
    assert abs(told.offset - shift) <= told.error
    assert list(shifted.silent_s()) == [7]


def test_a_pause_behind_a_look_at_our_clock_is_in_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true = Clock(KEY)
    now = time.time_ns

    def held_up() -> int:
        read = now()
        time.sleep(0.01)
        return read

    monkeypatch.setattr(time, "time_ns", held_up)
    probe = Probe(HOSTS, true.port, KEY, 0)
    try:
        told = probe.offset(PATIENCE_S)
    finally:
        probe.close()
        true.close()
    assert abs(told.offset) <= told.error
    assert told.error >= 5_000_000


def test_the_host_that_answers_is_found_among_several() -> None:
    true = Clock(KEY)
    # A name that resolves to nothing, an address for documentation (RFC 5737), and the right one.
    probe = Probe(("no-such-host.invalid", "192.0.2.1", "127.0.0.1"), true.port, KEY, 0)
    try:
        assert abs(probe.offset(PATIENCE_S).offset) < 10**9
    finally:
        probe.close()
        true.close()


def test_a_clock_answers_nobody_without_the_key() -> None:
    true = Clock(KEY)
    probe = Probe(HOSTS, true.port, OTHER_KEY, 0)
    try:
        with pytest.raises(NoAnswer, match=r"got no answer within 0\.3 s .* must get through"):
            probe.offset(0.3)
    finally:
        probe.close()
        true.close()
    assert true.silent_s() == {}


def test_an_answer_of_somebody_without_the_key_counts_for_nothing() -> None:
    """A machine on the way that answers with another time, and what it was asked with."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as impostor:
        impostor.bind(("127.0.0.1", 0))
        impostor.settimeout(PATIENCE_S)
        probe = Probe(HOSTS, impostor.getsockname()[1], KEY, 0)
        try:
            probe.ask()
            question, whence = impostor.recvfrom(512)
            forged = question[8:24] + (0).to_bytes(8, "little") + b"\1" + bytes(16)
            impostor.sendto(forged, whence)
            impostor.sendto(question, whence)
            assert probe.answer(0.3) is None
        finally:
            probe.close()


def test_no_answer_is_longer_than_its_question() -> None:
    assert clock._ANSWER.size <= clock._QUESTION.size


def test_a_port_that_is_taken_is_an_error() -> None:
    first = Clock(KEY)
    try:
        with pytest.raises(OSError, match="in use"):
            Clock(KEY, first.port)
    finally:
        first.close()


def test_a_lease_ends_when_its_clock_does() -> None:
    true = Clock(KEY)
    told = threading.Event()
    lease = Lease(Probe(HOSTS, true.port, KEY, 0), told.set)
    assert not lease.lost.is_set()
    true.close()
    assert lease.lost.wait(PATIENCE_S)
    assert told.wait(PATIENCE_S)
    assert not lease.stop.is_set()
    lease.close()


def test_a_lease_is_told_to_stop() -> None:
    true = Clock(KEY)
    told = threading.Event()
    lease = Lease(Probe(HOSTS, true.port, KEY, 0), told.set)
    true.word = clock.STOP
    assert lease.stop.wait(PATIENCE_S)
    lease.close()
    assert not told.is_set()
    true.close()


def test_a_clock_listens_where_its_scheduler_does_and_knows_its_workers() -> None:
    own = Clock(KEY, host="127.0.0.1", workers=1)
    probes = [Probe(HOSTS, own.port, KEY, index) for index in (0, 1)]
    try:
        assert own._socket.getsockname()[0] == "127.0.0.1"
        probes[0].offset(PATIENCE_S)
        with pytest.raises(NoAnswer):
            probes[1].offset(0.3)
        assert list(own.silent_s()) == [0]
    finally:
        for probe in probes:
            probe.close()
        own.close()
