"""A load on a cluster, seen from the coordinator: the process whose user typed the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class ClusterFailed(Exception):
    """The cluster could not do what was asked; the message is one sentence for the user."""

    def __init__(self, message: str, code: int = 1) -> None:
        """`code` is the exit code of DESIGN §5: 1 could not run, 2 wrong usage."""
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM form for a scheduler at `tls://`; both ends show a certificate of the same authority."""

    ca: Path
    cert: Path
    key: Path


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
        patience_s: float = 30.0,
    ) -> None:
        """Take the scheduler's `address` (`tcp://host:8786`, `tls://host:8786` or `host:8786`).

        `workers` is how many take part (None: all that there are), those with the most cores first;
        `labels` leaves only workers that have all of them. `patience_s` limits each step that does
        not last as long as the load: connecting, preparing, collecting.
        """

    def __enter__(self) -> Cluster:
        """Connect.

        Raises:
            ClusterFailed: nothing answers at the address, or dask is not installed.
        """

    def __exit__(self, *_: object) -> None:
        """Stop what still runs, and disconnect."""

    def places(self) -> list[Place]:
        """The workers that a run would use now, in the order of their index in its result.

        Raises:
            ClusterFailed: there are fewer than asked for.
        """

    def run(self, argv: Sequence[str]) -> int:
        """Carry out `trilane load ARGV` for a user at a terminal; the exit code of DESIGN §5.

        Results go to stdout, the live view and messages to stderr, as on one machine. Ctrl-C ends
        the load on all workers and prints what was measured.

        Raises:
            ClusterFailed: the load could not begin.
        """

    def measure(self, argv: Sequence[str]) -> bytes:
        """Carry out `trilane load ARGV` and return its result: JSON, `trilane.run/1`.

        `argv` is what follows the word `load`, without the cluster's flags, `-o` and `--format`. A
        run that is invalid, breached a gate or lost a worker has a result, too, and says so there.

        Raises:
            ClusterFailed: there is no result; the message says why.
        """
