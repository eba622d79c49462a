"""How threads are dealt over workers: all of them, by weight of cores, at least one each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilane.cluster.deal import Share, deal

CORES = st.lists(st.integers(1, 256), min_size=1, max_size=40)


@given(CORES, st.integers(0, 500))
def test_every_thread_is_somebodys_and_everybody_has_one(cores: list[int], more: int) -> None:
    threads = len(cores) + more
    shares = deal(threads, cores)
    dealt = [thread for share in shares for thread in range(share.first, share.first + share.count)]
    assert dealt == list(range(threads))
    assert all(share.count >= 1 for share in shares)


@given(CORES)
def test_as_many_threads_as_cores_are_one_on_each_core(cores: list[int]) -> None:
    assert [share.count for share in deal(sum(cores), cores)] == cores


@given(CORES, st.integers(0, 500))
def test_no_thread_would_have_more_room_elsewhere(cores: list[int], more: int) -> None:
    counts = [share.count for share in deal(len(cores) + more, cores)]
    for count, weight in zip(counts, cores, strict=True):
        for other, others in zip(counts, cores, strict=True):
            # A worker with one thread has it whatever its cores are.
            assert count == 1 or count * others <= (other + 1) * weight


def test_a_worker_with_twice_the_cores_gets_twice_the_threads() -> None:
    assert deal(9, [4, 2]) == [Share(0, 6), Share(6, 3)]


def test_fewer_threads_than_workers_cannot_be_dealt() -> None:
    with pytest.raises(ValueError, match="2 threads are fewer than one for each of 3 workers"):
        deal(2, [1, 1, 1])
