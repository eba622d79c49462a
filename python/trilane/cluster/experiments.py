"""Experiments on a cluster: what the lab asks of one (`trilane.lab.clients.cluster.Cluster`).

    with experiments.opened(Asked("tls://10.0.0.1:8786"), experiment.cluster) as cluster:
        trilane.lab.run(experiment, cluster=cluster)

The load of every run is made by the machines of the cluster; servers run on the coordinator's own
machine, or on the one worker that the experiment names by its label.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from trilane.cluster.load import Cluster, ClusterFailed, Place, Tls
from trilane.cluster.server_machine import ServerMachine
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.clients.engine_run import Misused
from trilane.lab.experiment.experiment import Machines
from trilane.lab.targets.running import Target, TargetFailed

_WRONG_USAGE = 2


@dataclass(frozen=True, slots=True)
class Asked:
    """Which cluster, and how it is reached."""

    address: str
    """Of its scheduler: `tls://host:8786`."""
    workers: int | None = None
    """How many machines make the load, in place of what the experiment says."""
    labels: Sequence[str] = ()
    """That each of them has, beside those of the experiment."""
    tls: Tls | None = None
    advertise: str | None = None
    """Under which the machines reach servers on this one; None: the address of the interface that
    leads to the scheduler.
    """


@dataclass(frozen=True, slots=True)
class OnCluster:
    """A cluster for experiments."""

    host: str
    """Under which the machines of the clients reach our servers."""
    places: Sequence[Place]
    """The workers that make the load."""
    _load: Cluster
    _servers: ServerMachine | None = field(default=None)

    @property
    def servers_elsewhere(self) -> bool:
        """Whether servers run on a machine of the cluster; else they run on this one."""
        return self._servers is not None

    def described(self) -> str:
        """Its machines in a few words: equal for clusters on which a run may go on."""
        machines = sorted(f"{place.host} ({place.cores} CPUs)" for place in self.places)
        servers = "this machine" if self._servers is None else self.host
        return f"clients on {', '.join(machines)}; servers on {servers}"

    def opened(
        self, name: str, *, versions: Collection[str], threads: int | None, flags: Sequence[str]
    ) -> contextlib.AbstractContextManager[Target]:
        """A server of ours on the machine of the servers, for as long as the context.

        Raises:
            TargetFailed: as `running.open_target`, or the machine is gone.
        """
        if self._servers is None:
            raise TargetFailed("no machine of the cluster has the servers: label one of them")
        return self._servers.opened(name, versions=versions, threads=threads, flags=flags)

    def measure(self, arguments: Sequence[str]) -> bytes:
        """The result of `trilane load` with these arguments, as its `--format json` writes it.

        Raises:
            Misused: the engine, or a cluster, does not take the arguments.
            RunFailed: there is no result.
        """
        try:
            return self._load.measure(arguments)
        except ClusterFailed as error:
            kind = Misused if error.code == _WRONG_USAGE else RunFailed
            raise kind(str(error)) from error


@contextlib.contextmanager
def opened(asked: Asked, machines: Machines | None = None) -> Iterator[OnCluster]:
    """The cluster for an experiment that says by labels which `machines` it runs on.

    Raises:
        ClusterFailed: it cannot be reached, or has not the machines that are asked for.
    """
    machines = machines or Machines()
    load = Cluster(
        asked.address,
        workers=asked.workers or machines.workers,
        labels=[*machines.clients, *asked.labels],
        tls=asked.tls,
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(load)
        places = load.places()
        servers = None
        if machines.server is not None:
            servers = _servers(asked, machines.server, places, stack)
        host = servers.host if servers is not None else asked.advertise or _own(asked.address)
        yield OnCluster(host, places, load, servers)


def _servers(
    asked: Asked, label: str, clients: Sequence[Place], stack: contextlib.ExitStack
) -> ServerMachine:
    """The one machine that has this label, held until the stack ends; raises ClusterFailed."""
    cluster = stack.enter_context(Cluster(asked.address, labels=[label], tls=asked.tls))
    found = cluster.places()
    if len(found) > 1:
        names = ", ".join(place.name for place in found)
        raise ClusterFailed(
            f"{len(found)} workers have the label {label!r}: {names}; servers are on one: "
            "start the others without it"
        )
    (place,) = found
    if place.address in {client.address for client in clients}:
        raise ClusterFailed(
            f"the worker {place.name} has the label {label!r} of the servers and makes load, "
            "too: give the machines of the load a label of their own"
        )
    held = ServerMachine.held(cluster.client, place.address, place.host)
    try:
        return stack.enter_context(held)
    except TargetFailed as error:
        raise ClusterFailed(str(error)) from error


def _own(address: str) -> str:
    """The address of this machine on the way to a scheduler; raises ClusterFailed."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    try:
        port = parts.port or 8786
        family, kind, _, _, to = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_DGRAM)[0]
        # Nothing is sent: the kernel chooses the interface, and with it the address.
        with socket.socket(family, kind) as probe:
            probe.connect(to)
            return str(probe.getsockname()[0])
    except (OSError, ValueError) as error:
        raise ClusterFailed(
            f"no address of this machine leads to {address} ({error}): say under which its "
            "servers are reached: --advertise HOST"
        ) from error
