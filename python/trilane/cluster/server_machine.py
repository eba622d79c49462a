"""The machine of a cluster that has an experiment's servers.

A worker of Dask there holds a `Servers`, which is an actor: an object that stays on its worker, and
whose methods the coordinator calls through the scheduler. It starts servers as the lab does on one
machine. They end when they are closed, when nobody holds the actor any more, or with the worker.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from trilane.lab.processes.place import Place
from trilane.lab.processes.supervisor import READY_S, ProcessFailed
from trilane.lab.targets import running, servers
from trilane.lab.targets.running import Target, TargetFailed

if TYPE_CHECKING:
    from distributed import Client

_P = ParamSpec("_P")
_T = TypeVar("_T")
# This only ends a hang: what is done there has limits of its own.
_ANSWER_S = 3600.0
# A worker that is there makes the actor at once.
_ACTOR_S = 60.0


@dataclass(frozen=True, slots=True)
class _Opened:
    """A server that was started on the machine."""

    number: int
    target: Target
    """Without its place, and what it counts: these are of the machine where it runs."""
    authority: bytes | None
    """The content of `target.cacert`."""


class Servers:
    """The servers on the machine of a worker; made there, by Dask."""

    def __init__(self) -> None:
        self._stacks: dict[int, contextlib.ExitStack] = {}
        self._ends = weakref.finalize(self, _close_all, self._stacks)

    def ready(self) -> bool:
        """Whether it is there, which it is where this answers."""
        return True

    def open(
        self, name: str, versions: Collection[str], threads: int | None, flags: Sequence[str]
    ) -> _Opened:
        """Start a server of ours that other machines reach.

        Raises:
            TargetFailed: as `running.open_target`.
        """
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trilane-")))
            target = stack.enter_context(
                running.open_target(
                    name,
                    state=None,
                    folder=folder,
                    cpus=None,
                    threads=threads or len(os.sched_getaffinity(0)),
                    versions=versions,
                    bind=servers.ANYWHERE,
                    flags=flags,
                )
            )
            number = max(self._stacks, default=0) + 1
            authority = None if target.cacert is None else Path(target.cacert).read_bytes()
            self._stacks[number] = stack.pop_all()
        return _Opened(number, replace(target, log=None, count=None), authority)

    def close(self, number: int) -> None:
        """End a server; one that has ended is no error."""
        stack = self._stacks.pop(number, None)
        if stack is not None:
            stack.close()

    def call(
        self, function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[bool, Any]:
        """What a function of a module returned here, or what it raised."""
        try:
            return True, function(*args, **keywords)
        except Exception as error:  # noqa: BLE001 - raised again where it was called
            return False, error


def _close_all(stacks: dict[int, contextlib.ExitStack]) -> None:
    while stacks:
        stacks.popitem()[1].close()


@dataclass(frozen=True, slots=True)
class _There(Place):
    """The machine of the servers, for what the lab asks of a server where it runs."""

    servers: Any = None
    """Stands for the `Servers` of that machine."""

    def call(self, function: Callable[_P, _T], *args: _P.args, **keywords: _P.kwargs) -> _T:
        """What a function of a module gives there; it raises what the function raises.

        Raises:
            ProcessFailed: the machine is gone.
        """
        try:
            returned, value = self.servers.call(function, args, keywords).result(_ANSWER_S)
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise ProcessFailed(f"on the machine of the servers was lost: {error}") from error
        if not returned:
            raise value
        return cast("_T", value)


@dataclass(frozen=True, slots=True)
class ServerMachine:
    """The machine of a cluster that has the servers, as the coordinator sees it."""

    host: str
    """Under which the other machines reach it."""
    _servers: Any

    @classmethod
    @contextlib.contextmanager
    def held(cls, client: Client, address: str, host: str) -> Iterator[ServerMachine]:
        """Hold the machine of the worker with that address of Dask.

        Raises:
            TargetFailed: the worker is gone.
        """
        future = client.submit(
            Servers,
            actor=True,
            workers=[address],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )
        try:
            try:
                # An actor keeps the client that is the current one when it is first called.
                with client.as_current():
                    actor: Any = future.result(timeout=_ACTOR_S)
                    actor.ready().result(_ACTOR_S)
            except Exception as error:
                raise TargetFailed(f"the worker at {address} holds no servers: {error}") from error
            yield cls(host, actor)
        finally:
            # Without it the scheduler has the worker forget the actor, which ends its servers.
            future.release()

    @contextlib.contextmanager
    def opened(
        self, name: str, *, versions: Collection[str], threads: int | None, flags: Sequence[str]
    ) -> Iterator[Target]:
        """A server of ours there, for as long as the context.

        Raises:
            TargetFailed: as `running.open_target`, or the machine is gone.
        """
        try:
            opened = self._servers.open(name, list(versions), threads, list(flags)).result(
                2 * READY_S
            )
        except TargetFailed:
            raise
        except Exception as error:
            raise TargetFailed(f"the machine of the servers at {self.host}: {error}") from error
        try:
            with tempfile.TemporaryDirectory(prefix="trilane-") as folder:
                cacert = None
                if opened.authority is not None:
                    cacert = Path(folder) / "ca.pem"
                    cacert.write_bytes(opened.authority)
                yield replace(
                    opened.target,
                    cacert=None if cacert is None else str(cacert),
                    cacert_there=opened.target.cacert,
                    place=_There(servers=self._servers),
                )
        finally:
            # A machine that is gone took its servers with it.
            with contextlib.suppress(Exception):
                self._servers.close(opened.number).result(READY_S)
