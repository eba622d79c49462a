"""`trilane ab`: its flags, and the experiment that they make."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from trilane.cli import options, packages, running, units
from trilane.cli.ending import fail
from trilane.cli.options import Fresh, Output, State, UntilDecided
from trilane.cli.units import Usage

HELP = """Measure two revisions of a program against each other, on this machine, interleaved.

--base and --head are revisions of the git repository in the current folder: branches, tags,
commits. Each is checked out in a working tree of its own in the state folder (`git worktree list`
names them), and both are built by --build before anything is measured. Then one of three is
compared, by a command that runs there:

--serve starts a server; {port} is a free port, and over TLS {cert} and {key} are PEM files of the
lab's. Both are loaded by `trilane load`.

--client asks {url}, of the embedded server or of --url, and is timed from outside; over TLS
{cacert} is the PEM file to trust. The embedded server counts its requests.

--command is anything else that ends, timed from outside: wall clock, CPU and peak memory. A run of
it or of a client runs it again and again for -d, or --repeat times, and tells the mean. Another
exit code than 0 fails the run.

Blocks hold both revisions in random order, and one of them twice: what a revision differs from
itself is the noise floor. Servers are loaded in turns of --turn, each run with a process of its
own, so that what changes on the machine changes for all. What is not committed is not measured.

--budget says how far head may be from base, such as 'cpu +5%, p99 +10%, rate -5%' or 'wall +3%,
rss +10%'; cpu is that of the server or the client per request, or that of the command. It is
breached when the whole 95 % interval lies beyond, and when nothing was measured for it.

--until-decided looks at the results after planned numbers of blocks and ends once every budget is
met or breached, or without a budget once every comparison is decided; the looks share the 5 % of
false claims.

Exit codes: 0 done, 1 could not run, 2 wrong usage, 3 a budget was breached, 4 the measurement is
invalid, 130 interrupted (what was measured is still reported)."""
# Limits of a request, and of a command each time it is run.
_TIMEOUT, _TIMEOUT_OF_A_COMMAND = "30s", "10m"


def ab(  # noqa: PLR0913, PLR0917 - one parameter per flag
    serve: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="Starts a server; {port} is where."),
    ] = None,
    client: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Asks {url}, and ends.")
    ] = None,
    command: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Is timed from outside.")
    ] = None,
    base: Annotated[str, typer.Option(metavar="REVISION", help="What is compared with.")] = "main",
    head: Annotated[str, typer.Option(metavar="REVISION", help="What is compared.")] = "HEAD",
    branch: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What head's branch is called in `trilane history`. [default: as git calls it]",
        ),
    ] = None,
    build: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Builds it, in each tree once.")
    ] = None,
    build_timeout: Annotated[str, typer.Option(metavar="TIME", help="Limit of a build.")] = "1h",
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="What --client asks. [default: the embedded server]"),
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="What is asked for. [default: /, of --client /hello]"),
    ] = None,
    ready: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Answers 200 when it is ready. [default: --path]"),
    ] = None,
    h1: options.H1 = False,
    h2: options.H2 = False,
    h2c: options.H2c = False,
    h3: options.H3 = False,
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
    repeat: Annotated[
        str | None,
        typer.Option(metavar="N", help="How often a run runs the command. [default: for -d]"),
    ] = None,
    prepare: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="Runs before the command each time, not timed."),
    ] = None,
    blocks: Annotated[
        str | None,
        typer.Option(metavar="N", help="Blocks, 7 or more. [default: 10, 30 with --until-decided]"),
    ] = None,
    until_decided: UntilDecided = False,
    duration: Annotated[
        str | None,
        typer.Option("-d", "--duration", metavar="TIME", help="Length of a run. [default: 1s]"),
    ] = None,
    warmup: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Warm-up of a run. [default: 1s, none of --client and --command]"
        ),
    ] = None,
    turn: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Servers are loaded in turns of this length, 0s: one run after the other. "
            "[default: 20ms, with -R 0s]",
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help=f"Limit of one request. [default: {_TIMEOUT}; of a command "
            f"{_TIMEOUT_OF_A_COMMAND}]",
        ),
    ] = None,
    bodies: Annotated[
        str,
        typer.Option(
            metavar="same|differ",
            help="Whether both answer with the same bodies; with differ all but bytes is compared.",
        ),
    ] = "same",
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
    report: options.ReportHere = None,
    verbose: options.Verbose = False,
    state: State = None,
    output: Output = "text",
) -> int:
    """Run the command; the exit code."""
    packages.need_lab("ab")
    from trilane.lab import ab as lab
    from trilane.lab.analysis import within_blocks
    from trilane.lab.asked import Wanted
    from trilane.lab.experiment.bad_experiment import BadExperiment
    from trilane.lab.revisions import NoRevision, RevisionFailed
    from trilane.lab.storage import store

    version = _version(options.versions(h1=h1, h2=h2, h2c=h2c, h3=h3), tls=tls)
    given = (
        *(("-H", field) for field in header or ()),
        ("-X", method),
        ("-b", body),
        ("--expect-status", expect_status),
    )
    shape = {"-c": connections, "-m": streams, "-R": rate, "--ready": ready, **dict(given)}
    shape["--turn"] = turn
    over = {"--path": path, f"--{version}": version, "--tls": tls or None}
    again = {"--repeat": repeat, "--prepare": prepare}
    _refuse(shape, serve is None, "--serve: a client or a command decides that")
    _refuse(again, serve is not None, "--client and --command: a server is loaded for -d")
    _refuse(over, command is not None, "--serve and --client")
    _refuse({"--path": path}, url is not None, "the embedded server: --url has a path")
    _refuse({"-d": duration}, repeat is not None, "runs of a length in time: leave out --repeat")
    times = options.blocks(blocks, until_decided=until_decided)
    if times is not None and times < lab.LEAST_BLOCKS:
        least = lab.LEAST_BLOCKS
        raise Usage(f"--blocks {blocks}: give at least {least}: fewer may decide nothing")
    asked = lab.Flags(
        base=base,
        head=head,
        serve=serve,
        client=client,
        command=command,
        url=url,
        branch=branch,
        build=build,
        build_timeout_s=units.duration("--build-timeout", build_timeout),
        version=version or "h1",
        tls=tls,
        path=path if path is not None else "/" if client is None else "/hello",
        ready=ready,
        connections=options.count("-c", connections),
        streams=options.count("-m", streams),
        rate=None if rate is None else units.rate("-R", rate),
        repeat=options.count("--repeat", repeat),
        prepare=prepare,
        duration_s=units.duration("-d", duration or "1s"),
        warmup_s=units.duration("--warmup", warmup or ("1s" if serve else "0s"), zero=True),
        timeout_s=units.duration(
            "--timeout", timeout or (_TIMEOUT if serve else _TIMEOUT_OF_A_COMMAND)
        ),
        threads=units.count("-t", threads),
        pin=not no_pin,
        turn_s=_turn(turn, serve=serve, rate=rate),
        margin=units.share("--margin", margin),
        bodies_differ=_bodies(bodies),
        budget=budget or (),
        load=[word for flag, value in given if value is not None for word in (flag, value)],
    )
    seeded = None if seed is None else units.seed("--seed", seed)
    running.check_place("--report", report)
    running.check_place("--markdown", markdown)
    folder = store.state_folder(state).absolute()
    try:
        made = lab.experiment(asked, Path.cwd(), folder, running.say)
    except (lab.BadAb, NoRevision, BadExperiment) as error:
        raise Usage(str(error)) from error
    except RevisionFailed as error:
        return fail("trilane ab", str(error))
    wanted = Wanted(
        made.experiment,
        lab.FORM,
        blocks=times,
        until_decided=until_decided,
        seed=seeded,
        state=state,
        fresh=fresh,
        whole=True,
        command=["trilane", *sys.argv[1:]],
    )
    sides = within_blocks.Sides(
        a=lab.BASE,
        b=lab.HEAD,
        labels={name: revision.asked for name, revision in made.revisions.items()},
        revisions={name: revision.commit for name, revision in made.revisions.items()},
        budgets=made.budgets,
    )
    return running.run(
        "trilane ab",
        wanted,
        report,
        output,
        markdown,
        lambda found: within_blocks.contrast(found.result, found.folder, sides),
        here=True,
        verbose=verbose,
    )


def _turn(text: str | None, *, serve: str | None, rate: str | None) -> float | None:
    """Seconds of a turn; None where one run follows the other."""
    from trilane.lab import ab

    seconds = None if text is None else units.duration("--turn", text, zero=True)
    if seconds and rate is not None:
        raise Usage("--turn and -R: at a rate one run follows the other: leave one out")
    if seconds is None and serve is not None and rate is None:
        return ab.TURN_S
    return seconds or None


def _bodies(text: str) -> bool:
    """Whether the bodies of both revisions may differ."""
    if text not in {"same", "differ"}:
        raise Usage(f"--bodies takes same or differ, not {text!r}")
    return text == "differ"


def _version(spoken: list[str], *, tls: bool) -> str | None:
    """The one version that was asked for, if any."""
    if len(spoken) > 1:
        raise Usage(f"--{spoken[0]} and --{spoken[1]}: revisions are compared over one version")
    if tls and spoken not in ([], ["h1"]):
        raise Usage(f"--tls goes with --h1: --{spoken[0]} says it already")
    return spoken[0] if spoken else None


def _refuse(flags: Mapping[str, object], misplaced: bool, where: str) -> None:
    """Refuse flags that mean nothing where they are misplaced; `where` is what they go with."""
    for flag, value in flags.items():
        if misplaced and value is not None:
            raise Usage(f"{flag} goes with {where}")
