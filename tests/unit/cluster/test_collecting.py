"""How a load on a cluster ends for its workers: of a scheduler that is made up."""

from __future__ import annotations

import json
import signal
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

pytest.importorskip("distributed")

from trilane.cluster import collecting, frames
from trilane.cluster.agent import Order
from trilane.cluster.collecting import Collection, SchedulerLost

RUN = "a run"
WORKERS = ["tcp://a", "tcp://b"]


class Future:
    """A task that does not end."""

    def done(self) -> bool:
        return False

    def release(self) -> None:
        pass


class Scheduler:
    """Has nothing to hand over, and keeps whether the load was told to stop."""

    def __init__(self) -> None:
        self.stop: list[bool] = []
        self.is_lost = False
        self.gone: list[str] = []
        self.silent_s: dict[int, float] = {}

    def trilane_take(self, *, run: str, limit_s: float, stop: bool) -> dict[str, Any]:
        assert (run, limit_s > 0) == (RUN, True)
        if self.is_lost:
            raise SchedulerLost("it is gone")
        self.stop.append(stop)
        return {"frames": [], "gone": self.gone, "silent_s": self.silent_s, "more": False}


class Client:
    """Of Dask, as far as a collection uses it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def submit(self, *_: object, **__: object) -> Future:
        return Future()


def ask(make: Callable[[], Awaitable[Any]], what: str, limit_s: float | None = None) -> Any:
    assert what
    assert limit_s is None
    return make()


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler()


@pytest.fixture
def collection(scheduler: Scheduler) -> Collection:
    made = Collection(ask, cast("Any", Client(scheduler)), RUN, WORKERS)
    made.begin([cast("Order", Ordered(index)) for index in range(len(WORKERS))])
    return made


class Ordered:
    """Stands for the order of a worker."""

    def __init__(self, index: int) -> None:
        self.index = index


def reasons(ended: list[tuple[int, frames.Frame]]) -> list[str]:
    assert [(index, frame.kind) for index, frame in ended] == [(0, frames.LOST), (1, frames.LOST)]
    return [json.loads(frame.content)["reason"] for _, frame in ended]


def test_an_interrupt_tells_the_workers_to_end_and_waits_for_their_reports(
    collection: Collection, scheduler: Scheduler
) -> None:
    assert collection.next([]) == []
    assert collection.next([signal.SIGINT]) == []
    assert scheduler.stop == [False, True]
    assert not collection.is_done()


def test_another_one_does_not_wait(collection: Collection, scheduler: Scheduler) -> None:
    collection.next([signal.SIGINT])
    ended = collection.next([signal.SIGINT, signal.SIGINT])
    assert set(reasons(ended)) == {"it was not waited for, as the command was interrupted twice"}
    assert collection.is_done()
    assert scheduler.stop == [True], "nobody was asked any more"


def test_workers_that_do_not_end_are_lost(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "_ENDS_S", 0.0)
    ended = collection.next([signal.SIGINT]) or collection.next([signal.SIGINT])
    told = reasons(ended)
    assert set(told) == {"it did not end within 0 s of being told to"}
    assert collection.is_done()


def test_all_are_lost_with_the_scheduler(collection: Collection, scheduler: Scheduler) -> None:
    scheduler.is_lost = True
    assert set(reasons(collection.next([]))) == {"the scheduler was lost"}


def test_who_left_or_is_silent_is_lost_and_the_others_go_on(
    collection: Collection, scheduler: Scheduler
) -> None:
    scheduler.silent_s = {0: collecting.SILENT_S, 1: 0.1}
    assert collection.next([]) == []
    scheduler.silent_s = {0: collecting.SILENT_S + 0.1, 1: 0.1}
    [(worker, frame)] = collection.next([])
    assert (worker, frame.kind) == (0, frames.LOST)
    assert json.loads(frame.content)["reason"] == "it was not heard of for 5 s"
    assert not collection.is_done()
    scheduler.gone = ["tcp://b"]
    [(worker, frame)] = collection.next([])
    assert (worker, frame.kind) == (1, frames.LOST)
    assert json.loads(frame.content)["reason"] == "it left the cluster, or its process ended"
    assert collection.is_done()
