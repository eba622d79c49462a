"""`trilane cluster`: a scheduler with workers for trying, and one machine's worker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trilane.cli import packages, units
from trilane.cli.ending import fail
from trilane.cli.units import Usage

if TYPE_CHECKING:
    from trilane.cluster.connecting import Tls

cluster_app = typer.Typer(
    name="cluster",
    help="Machines that carry out one load together (docs/cluster.md).",
    rich_markup_mode=None,
)

START_HELP = """Start a scheduler and workers on this machine, until Ctrl-C.

It prints what to type for a load, and for workers on other machines. Any cluster of Dask will do as
well (docs/cluster.md). Who takes part has to show a certificate: without --cluster-tls-* that of
cluster.pem and cluster-key.pem in the state folder, which are made once; the key only you can read.
With --insecure, whoever reaches the port can run programs as you."""

WORKER_HELP = """Let this machine take part, until Ctrl-C: a worker for the scheduler at ADDRESS.

It offers the CPUs of this machine; --label gives it names by which loads and experiments choose
workers. Whoever can use the scheduler can run programs on it as you. For tls:// it shows the
certificate of the state folder, as trilane cluster start does, or that of --cluster-tls-*."""

Port = Annotated[str, typer.Option(metavar="PORT", help="Of the scheduler; 0: any.")]
Threads = Annotated[
    str | None,
    typer.Option("-t", "--threads", metavar="N", help="CPUs of each worker. [default: all]"),
]
Label = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A name to choose it by (repeatable)."),
]
Ca = Annotated[
    Path | None,
    typer.Option("--cluster-tls-ca", metavar="FILE", help="Authority that all trust, PEM."),
]
Cert = Annotated[
    Path | None,
    typer.Option("--cluster-tls-cert", metavar="FILE", help="Certificate of this machine, PEM."),
]
Key = Annotated[
    Path | None, typer.Option("--cluster-tls-key", metavar="FILE", help="Its private key, PEM.")
]


def start(  # noqa: PLR0913, PLR0917 - one parameter per flag
    workers: Annotated[
        str, typer.Option("-w", "--workers", metavar="N", help="Workers on this machine; 0: none.")
    ] = "2",
    threads: Threads = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Port = "8786",
    label: Label = None,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Without TLS: let whoever reaches --host run programs as you."
        ),
    ] = False,
) -> int:
    """Run the command; the exit code."""
    packages.need_cluster("cluster start")
    from trilane.cluster import local
    from trilane.cluster.connecting import ClusterFailed

    try:
        return local.start(
            workers=_whole("--workers", workers, 1000),
            threads=None if threads is None else units.count("-t", threads),
            host=host,
            port=_whole("--port", port, 65_535),
            labels=_labels(label),
            tls=_files(ca, cert, key),
            insecure=insecure,
        )
    except ClusterFailed as error:
        return fail("trilane cluster start", str(error), error.code)


def worker(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="As tls://host:8786.")],
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Its name in results. [default: this machine's]"),
    ] = None,
    threads: Threads = None,
    label: Label = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="Address of this machine at which others reach it."),
    ] = None,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> int:
    """Run the command; the exit code."""
    packages.need_cluster("cluster worker")
    from trilane.cluster import local
    from trilane.cluster.connecting import ClusterFailed

    try:
        return local.work(
            address,
            name=name,
            threads=None if threads is None else units.count("-t", threads),
            labels=_labels(label),
            host=host,
            tls=_files(ca, cert, key),
        )
    except ClusterFailed as error:
        return fail("trilane cluster worker", str(error), error.code)


def _files(ca: Path | None, cert: Path | None, key: Path | None) -> Tls | None:
    from trilane.cluster.connecting import Tls

    if ca is None and cert is None and key is None:
        return None
    if ca is None or cert is None or key is None:
        raise Usage("--cluster-tls-ca, --cluster-tls-cert and --cluster-tls-key go together")
    return Tls(ca, cert, key)


def _labels(given: list[str] | None) -> list[str]:
    for label in given or ():
        if not label or any(sign in label for sign in "=, ") or not label.isprintable():
            raise Usage(f"--label takes a name without blanks, commas and =, not {label!r}")
    return given or []


def _whole(flag: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:9]) <= most):
        raise Usage(f"{flag} takes a whole number from 0 to {most}, not {text!r}")
    return int(text[:9])
