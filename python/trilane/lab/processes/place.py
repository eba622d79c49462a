"""Where programs of the lab run: on this machine, or at an end of an emulated network.

An end is a network namespace of the kernel. A program gets there through a small one (`enter`) that
enters the namespace and becomes the program, with the same process id. What the lab itself asks of
a server there it has done by a process that stays there (`worker`).
"""

from __future__ import annotations

import base64
import contextlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar, cast

from trilane.interpreter import PYTHON
from trilane.lab.processes import supervisor
from trilane.lab.processes.supervisor import Child

_P = ParamSpec("_P")
_T = TypeVar("_T")
# This only ends a hang: what is done there has limits of its own.
_ANSWER_S = 3600.0
WORKER = (*PYTHON, "-m", "trilane.lab.processes.worker")


@dataclass(frozen=True, slots=True)
class Place:
    """Where programs run, and how they get there."""

    user: str = ""
    """The file of a user namespace that is entered first; empty for none."""
    network: str = ""
    """The file of a network namespace; empty: the programs stay on this machine's network."""
    congestion_control: str | None = None
    """How TCP sends there; None: as on this machine."""
    _worker: list[Child] = field(default_factory=list, repr=False, compare=False)

    def command(self, words: Sequence[str]) -> list[str]:
        """What to start so that the program of `words` (its absolute path first) runs there."""
        if not self.network:
            return list(words)
        return [*supervisor.isolated("enter"), self.user, self.network, *words]

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """What `call` needs while the context lives; raises ProcessFailed."""
        with supervisor.started(self.command(WORKER), pipes=True, ends_with_stdin=True) as child:
            self._worker.append(child)
            try:
                yield
            finally:
                self._worker.remove(child)

    def call(self, function: Callable[_P, _T], *args: _P.args, **keywords: _P.kwargs) -> _T:
        """What a function of a module gives there; it raises what the function raises.

        Raises:
            ProcessFailed: the process that does this ended, or did not answer.
        """
        if not self.network:
            return function(*args, **keywords)
        (worker,) = self._worker
        asked = pickle.dumps((function, args, keywords))
        worker.write_line(base64.b64encode(asked), _ANSWER_S)
        line = worker.read_line("what came of a call", _ANSWER_S)
        # Written by our own process.
        returned, value = pickle.loads(base64.b64decode(line))  # noqa: S301
        if not returned:
            raise value
        return cast("_T", value)


HERE = Place()
"""This machine's own network."""
