"""`trilane ab`: its flags, and the experiment that they make."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from trilane.cli import options, packages, running, units
from trilane.cli.ending import fail
from trilane.cli.options import Fresh, Output, State, UntilDecided
from trilane.cli.units import Usage

HELP = """Measure two revisions of a server against each other, on this machine, interleaved.

--base and --head are revisions of the git repository in the current folder: branches, tags,
commits. Each is checked out in a working tree of its own in the state folder (`git worktree list`
names them), and both are built by --build before anything is measured. --serve starts the server
there; {port} is a free port, and over TLS {cert} and {key} are PEM files of the lab's.

Blocks hold both revisions in random order, and one of them twice: what a revision differs from
itself is the noise floor. What is not committed is not measured.

--budget says how far head may be from base, such as 'cpu +5%, p99 +10%, rate -5%'; cpu is that of
the server per request. It is breached when the whole 95 % interval lies beyond, and when nothing
was measured for it.

--until-decided looks at the results after planned numbers of blocks and ends once every comparison
is decided; the looks share the 5 % of false claims.

Exit codes: 0 done, 1 could not run, 2 wrong usage, 3 a budget was breached, 4 the measurement is
invalid, 130 interrupted (what was measured is still reported)."""

_REPORT = Path("report.html")
_VERSIONS = ("h1", "h2", "h2c", "h3")


def ab(  # noqa: PLR0913, PLR0917 - one parameter per flag
    serve: Annotated[
        str,
        typer.Option(
            metavar="COMMAND", help="Starts the server; {port} is where.", show_default=False
        ),
    ],
    base: Annotated[str, typer.Option(metavar="REVISION", help="What is compared with.")] = "main",
    head: Annotated[str, typer.Option(metavar="REVISION", help="What is compared.")] = "HEAD",
    build: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Builds the server, in each tree once.")
    ] = None,
    build_timeout: Annotated[str, typer.Option(metavar="TIME", help="Limit of a build.")] = "1h",
    path: Annotated[str, typer.Option(metavar="PATH", help="What is asked for.")] = "/",
    ready: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Answers 200 when it is ready. [default: --path]"),
    ] = None,
    h1: Annotated[bool, typer.Option("--h1", help="HTTP/1.1, the default.")] = False,
    h2: Annotated[bool, typer.Option("--h2", help="HTTP/2 over TLS.")] = False,
    h2c: Annotated[bool, typer.Option("--h2c", help="HTTP/2 in cleartext.")] = False,
    h3: Annotated[bool, typer.Option("--h3", help="HTTP/3.")] = False,
    tls: Annotated[bool, typer.Option("--tls", help="HTTP/1.1 over TLS.")] = False,
    budget: Annotated[
        list[str] | None,
        typer.Option(metavar="EXPR,…", help="How far head may be from base (repeatable)."),
    ] = None,
    connections: Annotated[
        str | None,
        typer.Option("-c", "--connections", metavar="N", help="[default: 8, of h2 and h3 1]"),
    ] = None,
    streams: Annotated[
        str | None,
        typer.Option("-m", "--streams", metavar="N", help="[default: 1, of h2 and h3 8]"),
    ] = None,
    rate: options.Rate = None,
    blocks: Annotated[
        str | None,
        typer.Option(metavar="N", help="Blocks, 7 or more. [default: 10, 30 with --until-decided]"),
    ] = None,
    until_decided: UntilDecided = False,
    duration: Annotated[
        str, typer.Option("-d", "--duration", metavar="TIME", help="Length of a run.")
    ] = "1s",
    warmup: Annotated[str, typer.Option(metavar="TIME", help="Warm-up of a run.")] = "1s",
    timeout: options.Timeout = "30s",
    margin: options.Margin = "5%",
    seed: options.Seed = None,
    threads: options.Threads = "1",
    header: options.Header = None,
    method: options.Method = None,
    body: options.Body = None,
    expect_status: options.ExpectStatus = None,
    no_pin: options.NoPin = False,
    fresh: Fresh = False,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what was found as Markdown, for a pull request."),
    ] = None,
    report: Annotated[Path, typer.Option(metavar="FILE", help="Where the report goes.")] = _REPORT,
    state: State = None,
    output: Output = "text",
) -> int:
    """Run the command; the exit code."""
    packages.need_lab("ab")
    from trilane.lab import ab as lab
    from trilane.lab.asked import Wanted
    from trilane.lab.experiment.bad_experiment import BadExperiment
    from trilane.lab.revisions import NoRevision, RevisionFailed
    from trilane.lab.storage import store

    spoken = [name for name, on in zip(_VERSIONS, (h1, h2, h2c, h3), strict=True) if on]
    if len(spoken) > 1:
        raise Usage(f"--{spoken[0]} and --{spoken[1]}: revisions are compared over one version")
    if tls and spoken not in ([], ["h1"]):
        raise Usage(f"--tls goes with --h1: --{spoken[0]} says it already")
    given = (
        *(("-H", field) for field in header or ()),
        ("-X", method),
        ("-b", body),
        ("--expect-status", expect_status),
    )
    times = options.blocks(blocks, until_decided=until_decided)
    if times is not None and times < lab.LEAST_BLOCKS:
        least = lab.LEAST_BLOCKS
        raise Usage(f"--blocks {blocks}: give at least {least}: fewer may decide nothing")
    asked = lab.Flags(
        base=base,
        head=head,
        serve=serve,
        build=build,
        build_timeout_s=units.duration("--build-timeout", build_timeout),
        version=spoken[0] if spoken else "h1",
        tls=tls,
        path=path,
        ready=ready,
        connections=options.count("-c", connections),
        streams=options.count("-m", streams),
        rate=None if rate is None else units.rate("-R", rate),
        duration_s=units.duration("-d", duration),
        warmup_s=units.duration("--warmup", warmup, zero=True),
        timeout_s=units.duration("--timeout", timeout),
        threads=units.count("-t", threads),
        pin=not no_pin,
        margin=units.share("--margin", margin),
        budget=budget or (),
        load=[word for flag, value in given if value is not None for word in (flag, value)],
    )
    seeded = None if seed is None else units.seed("--seed", seed)
    running.check_report(report)
    running.check_report(markdown)
    folder = store.state_folder(state).absolute()
    try:
        made = lab.experiment(asked, Path.cwd(), folder, running.say)
    except (lab.BadAb, NoRevision, BadExperiment) as error:
        raise Usage(str(error)) from error
    except RevisionFailed as error:
        return fail("trilane ab", str(error))
    wanted = Wanted(
        made,
        lab.FORM,
        blocks=times,
        until_decided=until_decided,
        seed=seeded,
        state=state,
        fresh=fresh,
        command=["trilane", *sys.argv[1:]],
    )
    return running.run("trilane ab", wanted, report, output, markdown)
