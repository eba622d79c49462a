"""What runs on this machine: a scheduler with workers for trying, or one worker for elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker

from dask.system import CPU_COUNT
from distributed import LocalCluster, Nanny

from trilane import _core
from trilane.cluster import connecting
from trilane.cluster.connecting import ClusterFailed, Tls

_JOINS_S = 60.0
_CLOSES_S = 10.0
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start(
    *,
    workers: int,
    threads: int | None,
    host: str,
    port: int,
    labels: Sequence[str],
    tls: Tls | None,
    insecure: bool = False,
) -> int:
    """Run a scheduler and workers until a signal comes; the exit code.

    Without `tls` it has this user's own certificate, or none where it may be `insecure`.

    Raises:
        ClusterFailed: they do not start.
    """
    own = None if tls is not None or insecure else _own_tls()
    shown = tls or own
    security = None if shown is None else shown.security()
    with connecting.quiet(), _ending() as told:
        try:
            with _shielded():
                cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=threads or max(1, CPU_COUNT // max(1, workers)),
                    host=host,
                    scheduler_port=port,
                    # Its pages are served in any case: where nobody else is, at any port.
                    dashboard_address="127.0.0.1:0",
                    scheduler_kwargs={"dashboard": False},
                    security=security,
                    resources=dict.fromkeys(labels, 1),
                    silence_logs=logging.CRITICAL,
                )
        except (OSError, RuntimeError, TimeoutError) as error:
            raise ClusterFailed(f"no scheduler at {host}:{port}: {_root(error)}") from error
        with cluster:
            address = cluster.scheduler_address
            files = "" if tls is None else _typed(tls)
            if shown is None:
                _warn(_reachable(host))
            _say(f"scheduler at {address}, workers on this machine: {workers}; Ctrl-C ends it")
            _say(f"for a load:                   trilane load --cluster {address}{files} URL")
            _say(f"for a worker on each machine: trilane cluster worker {address}{files}")
            if own is not None and not _is_own(host):
                _say(f"on other machines, first:     {_copied(own)}")
            told.wait()
    return 0


def work(
    address: str,
    *,
    name: str | None,
    threads: int | None,
    labels: Sequence[str],
    host: str | None,
    tls: Tls | None,
) -> int:
    """Run a worker for a scheduler until a signal comes or the scheduler ends; the exit code.

    Raises:
        ClusterFailed: it cannot join, or the scheduler was lost.
    """
    known = connecting.parsed(address, tls=tls is not None)
    security = connecting.security_of(known, tls)
    connecting.knock(known, security)
    if known.startswith("tcp:"):
        _warn("without TLS, whoever reaches this worker or its scheduler can run programs as you")
    cores = threads or CPU_COUNT
    called = name or socket.gethostname()

    async def run() -> bool:
        """Whether it ended because it was told to."""
        nanny = Nanny(
            known,
            name=called,
            nthreads=cores,
            resources=dict.fromkeys(labels, 1),
            security=security,
            host=host,
            # As above: these pages ask for no certificate.
            dashboard_address="127.0.0.1:0",
            dashboard=False,
            death_timeout=_JOINS_S,
            silence_logs=logging.CRITICAL,
        )
        told = asyncio.Event()
        for number in _ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, told.set)
        try:
            with _shielded():
                await nanny
            _say(f"worker {called} offers {cores} cores to {known}; Ctrl-C ends it")
            ends = [asyncio.create_task(told.wait()), asyncio.create_task(nanny.finished())]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
        finally:
            await nanny.close(timeout=_CLOSES_S)
        return told.is_set()

    with connecting.quiet():
        try:
            ended = asyncio.run(run())
        except (OSError, RuntimeError, TimeoutError, ValueError) as error:
            raise ClusterFailed(f"{called} cannot join {known}: {_root(error)}") from error
    if not ended:
        raise ClusterFailed(f"the scheduler at {known} was lost, or sent {called} away")
    return 0


def _own_tls() -> Tls:
    """This user's own files, which are made where there are none.

    Raises:
        ClusterFailed: they cannot be.
    """
    own = Tls.own()
    try:
        _core.make_cluster_identity(own.key.parent)
    except OSError as error:
        raise ClusterFailed(
            f"no certificate for the cluster: {error}; type --cluster-tls-ca, --cluster-tls-cert "
            "and --cluster-tls-key, or --insecure where only you reach it"
        ) from error
    return own


def _copied(own: Tls) -> str:
    """What to do so that other machines have the files."""
    return f"copy {own.cert} and {own.key} to ~/.local/state/trilane there"


def _reachable(host: str) -> str:
    """Who can run programs here without TLS."""
    who = "every user of this machine" if _is_own(host) else f"whoever reaches {host}"
    return f"{who} can run programs as you: --insecure asks nobody for a certificate"


def _is_own(host: str) -> bool:
    """Whether only this machine reaches what listens at an address."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _warn(text: str) -> None:
    sys.stderr.write(f"trilane cluster: warning: {text}\n")
    sys.stderr.flush()


@contextmanager
def _ending() -> Iterator[threading.Event]:
    """What is set by a signal that ends the command, also by one that comes while all is started.

    Dask cannot close what has not started yet.
    """
    told = threading.Event()
    before = {number: signal.getsignal(number) for number in _ENDING}
    try:
        for number, handler in before.items():
            if handler != signal.SIG_IGN:
                signal.signal(number, lambda *_: told.set())
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _shielded() -> Iterator[None]:
    """Within, SIGINT waits, and processes that are started never get it.

    At a terminal it is sent to all of them, and a worker would end with a traceback. It is this
    process that ends them. Nor do they import modules of the current folder, such as a typing.py,
    to which multiprocessing would lead them.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    # Where it is started by the first process, it lets the signal through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _typed(tls: Tls) -> str:
    """The flags that say the same."""
    return f" --cluster-tls-ca {tls.ca} --cluster-tls-cert {tls.cert} --cluster-tls-key {tls.key}"


def _root(error: BaseException) -> str:
    """What the error began with, in one line."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return " ".join(str(error).split())[:300] or type(error).__name__


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
