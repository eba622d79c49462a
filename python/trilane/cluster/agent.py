"""What runs in a worker's process: it prepares, then carries out its share of a load, once.

Dask may run a task again whose worker was lost, even one that had finished (dask/distributed
#7870), and its limit on that does not always hold (#6078). A load must never be repeated: so a
share that this worker was given before is refused, here and in any later process of the same worker
on this machine, and so is one whose start is past.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask
from distributed import Worker, get_worker
from distributed.comm.addressing import get_address_host
from distributed.core import Status

import trilane
from trilane.cluster import files, frames
from trilane.cluster.clock import NoAnswer, Offset, Probe
from trilane.cluster.deal import Share
from trilane.cluster.frames import Frame
from trilane.cluster.lease import Lease
from trilane.cluster.relay import Reference
from trilane.cluster.sending import Sender
from trilane.interpreter import TRILANE
from trilane.lab.processes import supervisor
from trilane.lab.processes.supervisor import Child, ProcessFailed

PROGRAM = (*TRILANE, "load")

_LOOK_S = 0.1
# The limit of a load that was told to end, from then to its reports; it has limits of its own.
_ENDING_S = 60.0
_ENDED_S = 10.0
_STARTS_S = 60.0
_ENDING = (Status.stopping, Status.stopped, Status.closing, Status.closed, Status.failed)


class Refused(Exception):
    """This worker does not do it; the message goes on after the worker's name."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a process of the cluster is."""

    version: str
    revision: str
    host: str
    """Name of the machine."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """What every worker of a run is sent before its start is known."""

    run: str
    indexes: Mapping[str, int]
    """Address of each worker to its index."""
    reference: Reference
    key: bytes = field(repr=False)
    """Of the run, for the clock."""
    files: Mapping[str, bytes] = field(repr=False)
    limit_s: float
    """For all of it."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What a worker says when it has prepared."""

    offset: Offset
    """From its clock to the scheduler's."""


@dataclass(frozen=True, slots=True)
class Order:
    """A worker's share of a load."""

    run: str
    index: int
    token: bytes = field(repr=False)
    """By which the scheduler knows whose frames come: no other worker is told."""
    arguments: Sequence[str] = field(repr=False)
    """Of `trilane load`, as typed."""
    variables: Mapping[str, str] = field(repr=False)
    """Of the coordinator's environment, those that they name."""
    share: Share
    threads: int
    """Of the whole plan."""
    start: int
    """When it begins by the clock of this worker, nanoseconds since 1970."""


@dataclass(slots=True)
class _Prepared:
    lease: Lease
    folder: Path
    kept: Mapping[str, str]


_PREPARED: dict[tuple[str, int], _Prepared] = {}
_CLAIMED: set[tuple[str, str]] = set()
_LOCK = threading.Lock()


def identity() -> Identity:
    """Which Trilane this process has, and where it runs."""
    return Identity(trilane.__version__, trilane.revision, socket.gethostname())


async def prepare(order: Preparation, dask_worker: Worker) -> Ready:
    """Measure the clock's offset, keep the files, and see that the program starts.

    Raises:
        Refused: one of them fails.
    """
    # The scheduler as this worker knows it, then as it knows itself: behind a service of Kubernetes
    # only the latter takes datagrams.
    known = get_address_host(dask_worker.scheduler.address)
    hosts = tuple(dict.fromkeys((known, *order.reference.hosts)))
    index = order.indexes[dask_worker.address]
    return await asyncio.to_thread(_prepare, order, index, hosts)


def carry_out(order: Order) -> tuple[bytes, bytes]:
    """Carry out a share; kind and content of its last frame, the others go to the scheduler."""
    worker = get_worker()
    try:
        last = _carry_out(order, worker)
    except (Refused, ProcessFailed, frames.BadFrame, files.BadFiles) as error:
        last = frames.failed(str(error))
    return last.kind, last.content


def claim(run: str, worker: str) -> None:
    """Note that `worker` carries out its share of `run`.

    Raises:
        Refused: it did so before.
        BadFiles: that cannot be noted on this machine.
    """
    name = _name(run, worker)
    with _LOCK:
        known = (run, worker) in _CLAIMED
        _CLAIMED.add((run, worker))
    if known or not files.claim(name):
        raise Refused("was given the same share of the load again, and does not repeat it")


def _prepare(order: Preparation, index: int, hosts: Sequence[str]) -> Ready:
    try:
        probe = Probe(hosts, order.reference.port, order.key, index)
    except NoAnswer as error:
        raise Refused(str(error)) from error
    folder = files.own_folder() / _name(order.run, str(index))
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        undo.callback(probe.close)
        try:
            offset = probe.offset(order.limit_s / 2)
            kept = files.keep(folder, order.files)
            done = supervisor.finished(
                [*PROGRAM, "--help"], limit_s=_STARTS_S, environment=_alone()
            )
        except (NoAnswer, files.BadFiles, ProcessFailed) as error:
            raise Refused(str(error)) from error
        if done.code:
            raise Refused(f"cannot start a load: {done.why()}")
        undo.pop_all()
    # What was kept is removed when nobody is there any more to say that the load begins.
    lease = Lease(probe, lambda: _forget(order.run, index))
    _PREPARED[order.run, index] = _Prepared(lease, folder, kept)
    return Ready(offset)


def _forget(run: str, index: int) -> None:
    """Remove what was prepared for a run that does not begin here."""
    prepared = _PREPARED.pop((run, index), None)
    if prepared is not None:
        _remove(prepared)


def _remove(prepared: _Prepared) -> None:
    prepared.lease.close()
    shutil.rmtree(prepared.folder, ignore_errors=True)


def _carry_out(order: Order, worker: Worker) -> Frame:
    claim(order.run, str(worker.name))
    prepared = _PREPARED.pop((order.run, order.index), None)
    if prepared is None:
        raise Refused("was started again since it prepared, or lost the scheduler meanwhile")
    try:
        late = time.time_ns() - order.start
        if late > 0:
            raise Refused(f"was told to begin {late / 1e9:.3f} s ago, and does not begin late")
        share = {
            "first": order.share.first,
            "count": order.share.count,
            "total": order.threads,
            "start_at_unix_ns": order.start,
            "files": dict(prepared.kept),
            "variables": dict(order.variables),
            # Other users of this machine see command lines.
            "arguments": list(order.arguments),
        }
        command = [*PROGRAM, "--cluster-share"]
        with (
            supervisor.started(
                command, pipes=True, environment=_alone(), ends_with_stdin=True
            ) as child,
            Sender(order.run, order.token, worker) as sender,
        ):
            child.write_line(json.dumps(share).encode(), _STARTS_S)
            return _watched(child, sender, prepared.lease, worker)
    finally:
        _remove(prepared)


def _watched(child: Child, sender: Sender, lease: Lease, worker: Worker) -> Frame:
    """The last frame of a load; it is killed when nobody is there any more whose load it is."""
    splitter = frames.Splitter()
    ends_by: float | None = None
    while True:
        if lease.lost.is_set() or sender.failed.is_set() or worker.status in _ENDING:
            child.kill()
            raise Refused("lost the scheduler, and ended its load")
        if lease.stop.is_set() and ends_by is None:
            child.close_stdin()
            ends_by = time.monotonic() + _ENDING_S
        if ends_by is not None and time.monotonic() > ends_by:
            child.kill()
            raise Refused(child.with_words(f"has a load that did not end within {_ENDING_S:g} s"))
        if sender.is_full():
            time.sleep(_LOOK_S)
            continue
        for frame in splitter.feed(child.read("what it measured", _LOOK_S) or b""):
            if frame.is_last:
                child.wait(_ENDED_S)
                sender.finish(_ENDED_S)
                return frame
            sender.add(frame)


def _alone() -> dict[str, str]:
    """The environment of a load: without what Dask sets for its own processes."""
    of_dask: Mapping[str, Any] = dask.config.get("distributed.nanny.pre-spawn-environ")
    return {
        name: value
        for name, value in os.environ.items()
        if name not in of_dask or value != str(of_dask[name])
    }


def _name(run: str, worker: str) -> str:
    """A name for files; a worker's own may be an address."""
    return f"{run}-{hashlib.blake2b(worker.encode(), digest_size=8).hexdigest()}"
