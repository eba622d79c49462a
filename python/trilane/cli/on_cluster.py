"""What `race`, `lab run` and `lab replay` share about clusters: which one, and a run on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trilane.cli import options, packages, running
from trilane.cli.ending import WRONG_USAGE, fail
from trilane.cli.units import Usage

if TYPE_CHECKING:
    from trilane.cluster.experiments import Asked
    from trilane.lab.asked import Wanted


def asked(
    command: str,
    address: str | None,
    workers: str | None,
    labels: Sequence[str] | None,
    advertise: str | None,
    tls: tuple[Path | None, Path | None, Path | None],
) -> Asked | None:
    """The cluster that was typed, `tls` with its authority, certificate and key; None: no cluster.

    Raises:
        Usage: a flag lacks another one.
    """
    files = dict(zip(("ca", "cert", "key"), tls, strict=True))
    if address is None:
        typed = {
            "--workers": workers,
            "--worker-label": labels,
            "--advertise": advertise,
            **{f"--cluster-tls-{name}": file for name, file in files.items()},
        }
        for flag, value in typed.items():
            if value:
                raise Usage(f"{flag} goes with --cluster ADDRESS, such as tls://10.0.0.1:8786")
        return None
    packages.need_cluster(f"{command} --cluster")
    from trilane.cluster.experiments import Asked
    from trilane.cluster.load import Tls

    ca, cert, key = files["ca"], files["cert"], files["key"]
    secured = None
    if ca is not None and cert is not None and key is not None:
        secured = Tls(ca, cert, key)
    elif any(tls):
        lacking = next(name for name, file in files.items() if file is None)
        raise Usage(f"--cluster-tls-{lacking} is missing: ca, cert and key go together")
    return Asked(
        address,
        workers=options.count("--workers", workers),
        labels=labels or (),
        tls=secured,
        advertise=advertise,
    )


def run(
    command: str,
    cluster: Asked | None,
    wanted: Wanted,
    report: Path | None,
    output: str,
    *,
    here: bool = False,
    verbose: bool = False,
) -> int:
    """Run an experiment as `running.run`, on a cluster where there is one; the exit code.

    Raises:
        Usage: the experiment names what there is not, or the engine or the cluster refuses it.
    """
    if cluster is None:
        return running.run(command, wanted, report, output, here=here, verbose=verbose)
    from trilane.cluster import experiments
    from trilane.cluster.load import ClusterFailed

    try:
        with experiments.opened(cluster, wanted.experiment.cluster) as machines:
            spread = replace(wanted, cluster=machines)
            return running.run(command, spread, report, output, here=here, verbose=verbose)
    except ClusterFailed as error:
        if error.code == WRONG_USAGE:
            raise Usage(str(error)) from error
        return fail(command, str(error))
