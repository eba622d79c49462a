"""A cluster as experiments see it: machines that make a load together, and one for the servers.

`trilane.cluster.experiments` is one; the lab knows no more of it than this. Servers keep the URLs
and certificates that they have on one machine: the engine is told by `--connect-to` where to find
them, as on an emulated network 127.0.0.1 is the server.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from trilane.lab.experiment.form import Form
from trilane.lab.experiment.vocabulary import GO_BENCH
from trilane.lab.experiment.workload import ArmSpec
from trilane.lab.model.arm import EMBEDDED, ENGINE
from trilane.lab.model.measures import BY_NAME
from trilane.lab.targets import running
from trilane.lab.targets.running import Target

# What is seen of a client's process from outside, or of its network interface: on a cluster there
# are many, on machines that the lab does not watch.
_OF_ONE_PROCESS = frozenset(
    {
        *("total_s", "user_s", "system_s", "cpu_percent", "peak_rss_bytes"),
        *("wire_bytes_per_request", "syscalls_per_request"),
    }
)


class Cluster(Protocol):
    """Machines that carry out the load of a run together."""

    @property
    def host(self) -> str:
        """Name or address under which the machines of the clients reach our servers."""

    @property
    def servers_elsewhere(self) -> bool:
        """Whether servers run on a machine of the cluster; else they run on this one."""

    def described(self) -> str:
        """Its machines in a few words: equal for clusters on which a run may go on."""

    def opened(
        self, name: str, *, versions: Collection[str], threads: int | None, flags: Sequence[str]
    ) -> contextlib.AbstractContextManager[Target]:
        """A server of ours on the machine of the servers, for as long as the context.

        It has `threads` worker threads (None: as many as that machine has CPUs). `Target.place` is
        there, and `Target.cacert` a file here.

        Raises:
            TargetFailed: as `running.open_target`, or the machine is gone.
        """

    def measure(self, arguments: Sequence[str]) -> bytes:
        """The result of `trilane load` with these arguments, as its `--format json` writes it.

        Raises:
            Misused: the engine, or a cluster, does not take the arguments.
            RunFailed: there is no result.
        """


def refusal(form: Form, *, servers_elsewhere: bool = False) -> str | None:
    """Why a form cannot be measured on a cluster, with the way out; None where it can."""
    told = next(filter(None, map(_refused, form.arms)), None)
    if told is not None:
        return told
    if any(arm.network for _, point in form.points() for arm in point.arms):
        return "an emulated network lies on one machine: leave the network out"
    if form.turn_s is not None:
        return "runs take turns by the clock of one machine: leave turn out"
    if form.rank in _OF_ONE_PROCESS:
        what = BY_NAME[form.rank].label
        return f"{what} is that of one process, and ranks nothing on a cluster: rank by another"
    if servers_elsewhere and form.workload.body_file:
        return "the machine of the servers does not have the file of body_file: give body_bytes"
    return None


def _refused(arm: ArmSpec) -> str | None:
    """Why an arm cannot run on a cluster."""
    if arm.client == GO_BENCH:
        return f"{arm.name} is a benchmark of Go's, which runs in one process: leave it out"
    if arm.client != ENGINE:
        return (
            f"{arm.name} is of {arm.client}, a client that runs on one machine: on a cluster the "
            f"engine makes the load: take arms with client = {ENGINE!r}, by -t"
        )
    if running.stays_here(arm.server):
        return (
            f"the server of {arm.name} {running.ON_THIS_MACHINE}; or take the server {EMBEDDED!r}, "
            "or start it yourself and give its URL"
        )
    return None


def connect_to(host: str, origin: str) -> str:
    """What `--connect-to` takes for a server of ours that has this origin on its own machine."""
    port = urlsplit(origin).port
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
