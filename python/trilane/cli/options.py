"""What several commands share: options in one spelling, and where a report goes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from trilane.cli import units

State = Annotated[
    Path | None,
    typer.Option("--state", metavar="DIR", help="State folder. [default: $XDG_STATE_HOME/trilane]"),
]
Fresh = Annotated[
    bool, typer.Option("--new", help="Begin anew, do not continue an interrupted run.")
]
UntilDecided = Annotated[
    bool,
    typer.Option(
        "--until-decided",
        help="End once the results decide, at looks planned beforehand; --blocks is the most.",
    ),
]
H1 = Annotated[bool, typer.Option("--h1", help="HTTP/1.1.")]
H2 = Annotated[bool, typer.Option("--h2", help="HTTP/2 over TLS.")]
H2c = Annotated[bool, typer.Option("--h2c", help="HTTP/2 in cleartext.")]
H3 = Annotated[bool, typer.Option("--h3", help="HTTP/3.")]
Rate = Annotated[
    str | None,
    typer.Option(
        "-R",
        "--rate",
        "-q",
        metavar="PER_SECOND",
        help="Open model: so many requests per second in every arm, ranked by latency.",
    ),
]
Timeout = Annotated[str, typer.Option(metavar="TIME", help="Limit of one request.")]
Margin = Annotated[str, typer.Option(metavar="SHARE", help="What counts as no difference.")]
Seed = Annotated[
    str | None, typer.Option(metavar="N", help="Seed of order and bootstrap. [default: random]")
]
Threads = Annotated[
    str, typer.Option("-t", "--threads", metavar="N", help="Client threads, server threads too.")
]
Header = Annotated[
    list[str] | None,
    typer.Option(
        "-H",
        "--header",
        metavar="FIELD",
        help="Header field 'name: value' or @FILE; ${NAME} in it is an environment variable.",
    ),
]
Method = Annotated[
    str | None, typer.Option("-X", "--method", metavar="METHOD", help="Request method.")
]
Body = Annotated[
    str | None, typer.Option("-b", "--body", metavar="TEXT", help="Request body, or @file.")
]
ExpectStatus = Annotated[
    str | None, typer.Option(metavar="CODES", help="What counts as ok, such as 200-299,404.")
]
CheckBody = Annotated[
    bool,
    typer.Option("--check-body", help="Sum every body, not a sample: one unlike the first fails."),
]
Profile = Annotated[
    bool,
    typer.Option(
        "--profile",
        help="Afterwards run each arm once more under perf; the report has flame graphs.",
    ),
]
NoPin = Annotated[bool, typer.Option("--no-pin", help="Do not pin client and server to CPUs.")]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Have the load made by the machines of this cluster, such as tls://10.0.0.1:8786.",
    ),
]
Workers = Annotated[
    str | None, typer.Option("--workers", metavar="N", help="So many of them. [default: all]")
]
WorkerLabel = Annotated[
    list[str] | None,
    typer.Option("--worker-label", metavar="NAME", help="Only those with this label (repeatable)."),
]
Advertise = Annotated[
    str | None,
    typer.Option(
        "--advertise",
        metavar="HOST",
        help="Where they reach servers on this machine. [default: its address to the scheduler]",
    ),
]
ClusterCa = Annotated[
    Path | None,
    typer.Option("--cluster-tls-ca", metavar="FILE", help="Authority of a cluster at tls://."),
]
ClusterCert = Annotated[
    Path | None, typer.Option("--cluster-tls-cert", metavar="FILE", help="Our certificate there.")
]
ClusterKey = Annotated[
    Path | None, typer.Option("--cluster-tls-key", metavar="FILE", help="Its private key.")
]
ReportHere = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Write the report to FILE. [default: report.html, if nobody else's file is there]",
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "-v",
        "--verbose",
        help="Print the whole report, not only the thirty lines that most people need.",
    ),
]
Output = Annotated[Literal["text", "json"], typer.Option("--format", help="What stdout gets.")]


def versions(*, h1: bool, h2: bool, h2c: bool, h3: bool) -> list[str]:
    """The versions whose flags were given, by their names."""
    given = {"h1": h1, "h2": h2, "h2c": h2c, "h3": h3}
    return [name for name, on in given.items() if on]


def count(flag: str, text: str | None) -> int | None:
    """A whole number from 1 on; None where it was not given."""
    return None if text is None else units.count(flag, text)


def blocks(text: str | None, *, until_decided: bool) -> int | None:
    """The number of `--blocks`, which is the most with `--until-decided`; None where not given."""
    from trilane.lab.asked import too_few

    number = None if text is None else units.count("--blocks", text)
    problem = too_few(number, until_decided=until_decided)
    if problem is not None:
        raise units.Usage(f"--until-decided --blocks {text}: {problem}")
    return number


def keep_report(page: str, folder: Path, wanted: Path | None, unnamed: Path | None = None) -> Path:
    """Write a report beside its runs, and to `wanted` or, where that is None, to `unnamed`.

    The user named `wanted`, and not `unnamed`: what is there is replaced only if it is a report of
    ours. The path to print.
    """
    from trilane.lab.storage import store

    kept = folder / "report.html"
    store.write_text(kept, page)
    if wanted is None and unnamed is not None:
        if _is_foreign(unnamed):
            sys.stderr.write(
                f"trilane: {unnamed} is not a report of trilane: left as it is "
                "(--report FILE writes the report elsewhere)\n"
            )
        else:
            wanted = unnamed
    if wanted is None:
        return kept
    try:
        store.write_text(wanted, page)
    except OSError as error:
        sys.stderr.write(f"trilane: could not write {wanted}: {error.strerror}; it is in {kept}\n")
        return kept
    return wanted


def _is_foreign(path: Path) -> bool:
    """Whether something is there that is not a page of ours."""
    try:
        with path.open("rb") as file:
            return b'<meta name="generator" content="Trilane">' not in file.read(4096)
    except FileNotFoundError:
        return False
    except OSError:
        return True
