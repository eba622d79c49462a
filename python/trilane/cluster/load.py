"""A load on a cluster, seen from the coordinator: the process whose user typed the command."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import distributed

from trilane import hiding
from trilane.cluster import agent, connecting, files, frames, relay
from trilane.cluster.agent import Identity, Order, Preparation, Ready
from trilane.cluster.collecting import Collection, SchedulerLost
from trilane.cluster.connecting import ClusterFailed, Tls
from trilane.cluster.deal import Share, deal
from trilane.lab.processes import supervisor
from trilane.lab.processes.supervisor import Child, Ended, ProcessFailed
from trilane.lab.processes.words import how_ended

__all__ = ["Cluster", "ClusterFailed", "Place", "Tls"]

PROGRAM = agent.PROGRAM

LEAD_S = 1.0
"""So much later is a start than what has to be done before it takes."""

T = TypeVar("T")

_DESCRIBES_S = 120.0
_KEY_BYTES = 32
_WRITES_S = 60.0
_CLOSES_S = 5.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SHOWN_WORKERS = 8


@dataclass(frozen=True, slots=True)
class Place:
    """One worker of the cluster."""

    name: str
    """As it was started with `--name`; otherwise its address."""
    address: str
    """Of Dask: `tcp://host:port`."""
    host: str
    cores: int
    """Threads that it offers to Dask: its CPUs unless told otherwise."""
    labels: frozenset[str]
    """Names that it was started with: Dask's resources."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What `--cluster-describe` says of a command line."""

    files: list[str]
    variables: dict[str, str]
    threads: int


class Cluster:
    """A Dask cluster whose workers carry out shares of one load.

    A context manager: it connects on entry and disconnects on exit. One run at a time.
    """

    def __init__(
        self,
        address: str,
        *,
        workers: int | None = None,
        labels: Sequence[str] = (),
        tls: Tls | None = None,
        clock_port: int = 0,
        patience_s: float = 30.0,
    ) -> None:
        """Take the scheduler's `address` (`tcp://host:8786`, `tls://host:8786` or `host:8786`).

        `workers` is how many take part (None: all that there are), those with the most cores first;
        `labels` leaves only workers that have all of them. `clock_port` is the UDP port at which
        the scheduler's machine tells the time (0: any). `patience_s` limits each step that does
        not last as long as the load: connecting, preparing, collecting.
        """
        self._address = address
        self._workers = workers
        self._labels = frozenset(labels)
        self._tls = tls
        self._clock_port = clock_port
        self._patience_s = patience_s
        self._client: distributed.Client | None = None
        self._is_lost = False
        self._context = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            ClusterFailed: nothing answers at the address.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(connecting.quiet())
            self._client = connecting.connect(self._address, self._tls, self._patience_s)
            self._context = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        client, self._client = self._client, None
        with self._context:
            if client is not None:
                # A scheduler that is gone cannot be told.
                with contextlib.suppress(Exception):
                    client.close(timeout=_CLOSES_S)

    @property
    def client(self) -> distributed.Client:
        """Dask's, while connected."""
        if self._client is None:
            raise RuntimeError("a Cluster is connected within its context only")
        return self._client

    @property
    def _scheduler(self) -> Any:
        """Takes messages: its handlers by their names."""
        return self.client.scheduler

    def places(self) -> list[Place]:
        """The workers that a run would use now, in the order of their index in its result.

        Raises:
            ClusterFailed: there are fewer than asked for.
        """
        told = self._ask(lambda: self._scheduler.identity(n_workers=-1), "say which workers it has")
        there = [_place(address, worker) for address, worker in told["workers"].items()]
        fit = [place for place in there if self._labels <= place.labels]
        wanted = len(fit) if self._workers is None else self._workers
        if not fit or wanted > len(fit):
            raise ClusterFailed(self._too_few(there, fit))
        fit.sort(key=lambda place: (-place.cores, place.name))
        return fit[:wanted]

    def run(self, argv: Sequence[str]) -> int:
        """Carry out `trilane load ARGV` for a user at a terminal; the exit code of DESIGN §5.

        Results go to stdout, the live view and messages to stderr, as on one machine. Ctrl-C ends
        the load on all workers and prints what was measured.

        Raises:
            ClusterFailed: the load could not begin.
        """
        code, _ = self._load(argv, shown=True)
        return code

    def measure(self, argv: Sequence[str]) -> bytes:
        """Carry out `trilane load ARGV` and return its result: JSON, `trilane.run/1`.

        `argv` is what follows the word `load`, without the cluster's flags, `-o` and `--format`. A
        run that is invalid, breached a gate or lost a worker has a result, too, and says so there.

        Raises:
            ClusterFailed: there is no result; the message says why.
        """
        _, result = self._load(["--format", "json", *argv], shown=False)
        return result

    def _load(self, argv: Sequence[str], *, shown: bool) -> tuple[int, bytes]:
        """Exit code and stdout of the process that gathers."""
        with tempfile.TemporaryDirectory(prefix="trilane-") as folder:
            return self._gathered(hiding.aside(argv, Path(folder, "fields")), shown=shown)

    def _gathered(self, argv: Sequence[str], *, shown: bool) -> tuple[int, bytes]:
        """The same of arguments that others may see."""
        places = self.places()
        self._check_identities(places)
        plan = _described(argv, sum(place.cores for place in places))
        # A plan has no more threads than connections.
        places = places[: plan.threads]
        shares = deal(plan.threads, [place.cores for place in places])
        try:
            contents = files.read(plan.files)
        except files.BadFiles as error:
            raise ClusterFailed(str(error)) from error
        run = uuid.uuid4().hex
        tokens = [os.urandom(_KEY_BYTES) for _ in places]
        with self._relayed(run, places, contents, tokens) as (readies, took_s):
            gather = [*PROGRAM, "--cluster-gather", *argv]
            with (
                supervisor.started(gather, fed=True, shown=shown, ends_with_stdin=True) as child,
                _interruptible(shown) as interrupts,
            ):
                # One that has ended says itself why; its exit code is ours.
                with contextlib.suppress(Ended):
                    told = frames.begin(_told(places, shares, readies))
                    self._feed(child, frames.relayed(0, told))
                    start = self._start(readies, took_s)
                    orders = [
                        Order(
                            run,
                            index,
                            tokens[index],
                            argv,
                            plan.variables,
                            share,
                            plan.threads,
                            start - ready.offset.offset,
                        )
                        for index, (share, ready) in enumerate(zip(shares, readies, strict=True))
                    ]
                    self._collect(child, run, places, orders, interrupts)
                child.close_stdin()
                if not child.wait(self._patience_s):
                    raise ClusterFailed(str(child.late(self._patience_s)))
                code = child.reap().code
                if code < 0:
                    raise ClusterFailed(
                        f"the process that gathers the results ended with {how_ended(code)}"
                    )
                result = b"" if shown else child.output()
                if not shown and not result:
                    raise ClusterFailed(child.with_words("there is no result"), max(code, 1))
                return code, result

    def _collect(
        self,
        child: Child,
        run: str,
        places: Sequence[Place],
        orders: Sequence[Order],
        interrupts: list[int],
    ) -> None:
        """Have the orders carried out, and feed the gathering process with what comes."""
        collection = Collection(self._ask, self.client, run, [place.address for place in places])
        collection.begin(orders)
        while not collection.is_done():
            for worker, frame in collection.next(interrupts):
                self._feed(child, frames.relayed(worker, frame))

    def _feed(self, child: Child, data: bytes) -> None:
        try:
            child.write(data, _WRITES_S)
        except supervisor.Late as error:
            raise ClusterFailed(f"the process that gathers the results {error}") from error

    def _start(self, readies: Sequence[Ready], took_s: float) -> int:
        """When all begin, by the scheduler's clock: nanoseconds since 1970."""
        asked = time.monotonic_ns()
        now: int = self._ask(self._scheduler.trilane_now, "tell the time")
        worst = max(ready.offset.error for ready in readies)
        # What it took to prepare covers sending the orders and starting the programs once more.
        return now + (time.monotonic_ns() - asked) + worst + round((LEAD_S + took_s) * 1e9)

    def _check_identities(self, places: Sequence[Place]) -> None:
        """Refuse workers, or a scheduler, that have no Trilane or another one.

        Raises:
            ClusterFailed: one of them; the message names it.
        """
        here = agent.identity()
        scheduler = self._run_on_scheduler(agent.identity)
        told: dict[str, Any] = {"the scheduler": scheduler}
        answers = self._run_on_workers(agent.identity, places)
        told |= {f"worker {place.name}": answers[place.address] for place in places}
        for name, answer in told.items():
            if isinstance(answer, OSError):
                raise ClusterFailed(f"{name} does not answer: {answer}")
            if not isinstance(answer, Identity):
                raise ClusterFailed(
                    f"{name} has no Trilane that can take part ({answer}): install trilane "
                    f"{here.version} ({here.revision}) there, by pip install 'trilane[cluster]'"
                )
            if (answer.version, answer.revision) != (here.version, here.revision):
                raise ClusterFailed(
                    f"{name} has trilane {answer.version} ({answer.revision}), and this is "
                    f"{here.version} ({here.revision}): all machines need the same"
                )

    @contextlib.contextmanager
    def _relayed(
        self,
        run: str,
        places: Sequence[Place],
        contents: dict[str, bytes],
        tokens: Sequence[bytes],
    ) -> Iterator[tuple[list[Ready], float]]:
        """The workers have prepared, within `seconds`; all of it ends with the context."""
        key = os.urandom(_KEY_BYTES)
        began = time.monotonic()
        reference = self._run_on_scheduler(
            relay.begin, run, self.client.id, key, self._clock_port, tokens
        )
        if not isinstance(reference, relay.Reference):
            raise ClusterFailed(f"the scheduler cannot tell the time: {reference}")
        try:
            order = Preparation(
                run,
                {place.address: index for index, place in enumerate(places)},
                reference,
                key,
                contents,
                self._patience_s,
            )
            answers = self._run_on_workers(agent.prepare, places, order)
            readies = []
            for place in places:
                answer = answers[place.address]
                if not isinstance(answer, Ready):
                    why = str(answer) or type(answer).__name__
                    raise ClusterFailed(f"worker {place.name} {why}")
                readies.append(answer)
            yield readies, time.monotonic() - began
        finally:
            # Then the clock answers no more, and workers end what they still do by themselves.
            if not self._is_lost:
                with contextlib.suppress(SchedulerLost):
                    self._run_on_scheduler(relay.end, run)

    def _run_on_scheduler(self, function: Callable[..., Any], *args: Any) -> Any:
        """What the function returns or raises in the scheduler's process."""

        async def run() -> Any:
            try:
                return await self.client.run_on_scheduler(function, *args)
            # What it raises there is its answer; Dask makes some exceptions another one's text.
            except Exception as error:  # noqa: BLE001
                return error

        return self._ask(run, "do its part")

    def _run_on_workers(
        self, function: Callable[..., Any], places: Sequence[Place], *args: Any
    ) -> dict[str, Any]:
        """What the function returns or raises in each worker's process, by address."""
        addresses = [place.address for place in places]
        answers = self._ask(
            lambda: self.client.run(function, *args, workers=addresses, on_error="return"),
            "reach all of its workers",
            limit_s=2 * self._patience_s,
        )
        return {address: answers.get(address) for address in addresses}

    def _ask(self, make: Callable[[], Awaitable[T]], what: str, limit_s: float | None = None) -> T:
        """The answer to a question to the scheduler.

        Raises:
            SchedulerLost: it does not come in time, or the scheduler is gone.
        """
        limit_s = self._patience_s if limit_s is None else limit_s

        async def limited() -> T:
            async with asyncio.timeout(limit_s):
                return await make()

        try:
            answer: T = self.client.sync(limited)
        except TimeoutError as error:
            self._is_lost = True
            raise SchedulerLost(
                f"the scheduler at {self._address} did not {what} within {limit_s:g} s"
            ) from error
        except (OSError, LookupError, RuntimeError) as error:
            self._is_lost = True
            raise SchedulerLost(f"the scheduler at {self._address} was lost") from error
        return answer

    def _too_few(self, there: Sequence[Place], fit: Sequence[Place]) -> str:
        """The sentence that says what there is instead of what was asked for."""
        if not there:
            return (
                f"the cluster at {self._address} has no workers: start them by "
                f"`trilane cluster worker {self._address}`"
            )
        names = [
            f"{place.name} ({', '.join([f'cores: {place.cores}', *sorted(place.labels)])})"
            for place in sorted(there, key=lambda place: place.name)
        ]
        more = len(names) - _SHOWN_WORKERS
        shown = ", ".join(names[:_SHOWN_WORKERS]) + (f" and {more} more" if more > 0 else "")
        asked = [f"--worker-label {label}" for label in sorted(self._labels)]
        if self._workers is not None:
            asked.insert(0, f"--workers {self._workers}")
        labelled = f", {len(fit)} of them with these labels" if self._labels else ""
        return (
            f"{' '.join(asked)}: the cluster at {self._address} has {len(there)} "
            f"workers{labelled}: {shown}"
        )


def _described(argv: Sequence[str], cores: int) -> _Plan:
    """What the command line means; raises ClusterFailed as `trilane load` would fail."""
    try:
        done = supervisor.finished(
            [*PROGRAM, "--cluster-describe", str(cores), *argv], limit_s=_DESCRIBES_S
        )
    except ProcessFailed as error:
        raise ClusterFailed(f"`trilane load` {error}") from error
    if done.code:
        raise ClusterFailed(done.why(), done.code if done.code > 0 else 1)
    told = json.loads(done.output)
    return _Plan(told["files"], told["variables"], told["threads"])


def _told(
    places: Sequence[Place], shares: Sequence[Share], readies: Sequence[Ready]
) -> list[dict[str, object]]:
    """The workers, as the gathering process is told of them."""
    return [
        {
            "name": place.name,
            "host": place.host,
            "cores": place.cores,
            "first": share.first,
            "count": share.count,
            # How far its clock is ahead of the scheduler's: in the result as a person sees it.
            "clock_offset_s": -ready.offset.offset / 1e9,
            "clock_error_s": ready.offset.error / 1e9,
        }
        for place, share, ready in zip(places, shares, readies, strict=True)
    ]


def _place(address: str, told: dict[str, Any]) -> Place:
    """A worker, from what Dask's scheduler says of it."""
    return Place(
        name=str(told["name"]),
        address=address,
        host=told["host"],
        cores=told["nthreads"],
        labels=frozenset(told["resources"]),
    )


@contextlib.contextmanager
def _interruptible(shown: bool) -> Iterator[list[int]]:
    """Signals that have come meanwhile, where a user watches; else they do what they did."""
    came: list[int] = []
    if not shown or threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        for number, handler in before.items():
            if handler != signal.SIG_IGN:
                signal.signal(number, lambda number, _frame: came.append(number))
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
