"""`trilane race`: its flags, and the experiment that they make."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from trilane.cli import on_cluster, options, packages, running, units
from trilane.cli.options import Fresh, Output, State, UntilDecided
from trilane.cli.units import Usage

HELP = """Race HTTP/1.1, HTTP/2 and HTTP/3 against each other.

Without a URL the embedded server is started, raced and stopped. With https:// the arms are h1,
h2 and h3, with http:// they are h1 and h2c; --h1 --h2 --h2c --h3 choose among them. Every arm
keeps the same number of requests in flight: h1 on as many connections, h2 and h3 on 4.

Each block runs every arm once and one of them twice, in random order: what arms differ from
themselves is the noise floor. Of three arms, ten blocks can show a difference with one block that
disagrees; with six, the fewest that can show one at all, all must agree.

--until-decided looks at the results after 10, 14, 20 and 30 blocks and ends once every comparison
of what decides is decided: a difference, or none beyond --margin. The looks are planned before
anything is measured and share the 5 % of false claims, so intervals are wider than 95 %.
--blocks says how many blocks there are at most. Blocks that other programs or machines disturbed
are made again at a look, at most a quarter of them.

Every run is kept: Ctrl-C, a crash or kill -9 lose at most the one that was under way, and the same
command continues where it stopped (--new begins anew).

--in-flight 1,8,64 races at each of these numbers and looks for where one version overtakes another.

--search 'p99<10ms, error_rate<0.1%' races for capacity: each run is a search for the highest rate
at which all of it holds, as that of `trilane load --search`, by a process of its own, made of runs
of -d (2s): a minute or two in all. Six blocks, unless --blocks says more. -R is where it begins.

--grpc pkg.Service/Method races with gRPC calls over HTTP/2 and HTTP/3: -b is their message as JSON,
and the flags of `trilane load` about them mean the same here.

--cluster ADDRESS has the load of every run made by the machines of a cluster (trilane cluster
start, or any of Dask), with all their processors unless -t says how many threads they have in all.
Without a URL the server is on this machine.

--fail-if takes [ARM:]MEASURE>LIMIT about the ratio of an arm to the baseline, such as h3:p99>1.1 or
requests_per_s<-5%, as `trilane compare` does. It is breached when the whole 95 % interval lies
beyond the limit, or when nothing was measured for it, as of an arm that could not run.

--profile runs each arm once more under perf when all is measured, and adds flame graphs of both
ends to the report. Without perf, or where the kernel forbids it, the report says so. Ctrl-C then
ends the profiles alone: the result is whole.

Exit codes: 0 done, 1 could not run, 2 wrong usage, 3 a --fail-if was breached, 4 the measurement is
invalid, 130 interrupted (what was measured is still reported)."""


def race(  # noqa: PLR0913, PLR0917 - one parameter per flag
    urls: Annotated[
        list[str] | None,
        typer.Argument(metavar="URL", show_default=False, help="What to race against: one URL."),
    ] = None,
    h1: options.H1 = False,
    h2: options.H2 = False,
    h2c: options.H2c = False,
    h3: options.H3 = False,
    in_flight: Annotated[
        str | None,
        typer.Option(
            metavar="N,…",
            help="Requests in flight in every arm; several numbers are swept. [default: 64]",
        ),
    ] = None,
    rate: options.Rate = None,
    search: Annotated[
        str | None,
        typer.Option(
            metavar="EXPR,…",
            help="Find the highest rate at which all of it holds, such as 'p99<10ms, failed<1'.",
        ),
    ] = None,
    connections: Annotated[
        str | None,
        typer.Option("-c", "--connections", metavar="N", help="Connections of h2 and h3."),
    ] = None,
    streams: Annotated[
        str | None,
        typer.Option("-m", "--streams", metavar="N", help="Streams per connection of h2 and h3."),
    ] = None,
    blocks: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Blocks. [default: 10, 6 with --search, 30 with --until-decided]"
        ),
    ] = None,
    until_decided: UntilDecided = False,
    duration: Annotated[
        str | None,
        typer.Option(
            "-d",
            "--duration",
            "-z",
            "-D",
            metavar="TIME",
            help="Length of a run. [default: 1s, on a slow network what a p99 needs, up to 20s]",
        ),
    ] = None,
    warmup: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Warm-up of a run. [default: 1s, or six round trips if longer]"
        ),
    ] = None,
    timeout: options.Timeout = "30s",
    baseline: Annotated[
        str | None,
        typer.Option(metavar="ARM", help="The arm ratios refer to. [default: the oldest version]"),
    ] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(metavar="ARM:ARM", help="Compare these two on every measure (repeatable)."),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(metavar="EXPR,…", help="Exit with 3 when the race breaches one of these."),
    ] = None,
    margin: options.Margin = "5%",
    seed: options.Seed = None,
    threads: options.Threads = "1",
    header: options.Header = None,
    method: options.Method = None,
    body: options.Body = None,
    grpc: Annotated[
        str | None,
        typer.Option(
            metavar="PKG.SERVICE/METHOD", help="Call this gRPC method; -b is its message."
        ),
    ] = None,
    proto: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="A .proto file that describes it. [default: reflection]"),
    ] = None,
    proto_path: Annotated[
        list[str] | None, typer.Option(metavar="DIR", help="Where its imports are looked for.")
    ] = None,
    descriptor_set: Annotated[
        str | None, typer.Option(metavar="FILE", help="A FileDescriptorSet that describes it.")
    ] = None,
    messages: Annotated[
        str | None, typer.Option(metavar="N", help="Messages that each stream sends.")
    ] = None,
    messages_in_flight: Annotated[
        str | None,
        typer.Option(metavar="N", help="Messages of a bidirectional call without an answer."),
    ] = None,
    answers: Annotated[
        str | None,
        typer.Option(metavar="N|1/N|any", help="Answers of its server to each message."),
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help="The deadline that a call tells.")
    ] = None,
    grpc_mode: Annotated[
        str | None, typer.Option(metavar="wire|codec", help="When messages are encoded.")
    ] = None,
    gzip: Annotated[bool, typer.Option("--gzip", help="Compress the messages of calls.")] = False,
    insecure: Annotated[
        bool, typer.Option("-k", "--insecure", help="Accept any certificate.")
    ] = False,
    cacert: Annotated[
        str | None, typer.Option(metavar="FILE", help="Trust this certificate authority.")
    ] = None,
    cert: Annotated[str | None, typer.Option(metavar="FILE", help="Client certificate.")] = None,
    key: Annotated[str | None, typer.Option(metavar="FILE", help="Its private key.")] = None,
    sni: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name to ask for and to verify.")
    ] = None,
    connect_to: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Connect here instead.")
    ] = None,
    connect_timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Limit of a connect and handshake.")
    ] = None,
    expect_status: options.ExpectStatus = None,
    check_body: options.CheckBody = False,
    congestion_control: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of the TCP arms. [default: cubic, like QUIC, if here]"),
    ] = None,
    no_pin: options.NoPin = False,
    fresh: Fresh = False,
    profile: options.Profile = False,
    network: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            help="Emulate a network to the server: rtt=40ms,rate=20mbit,loss=1%, or 4g, dsl, ….",
        ),
    ] = "",
    cluster: options.Cluster = None,
    workers: options.Workers = None,
    worker_label: options.WorkerLabel = None,
    advertise: options.Advertise = None,
    cluster_tls_ca: options.ClusterCa = None,
    cluster_tls_cert: options.ClusterCert = None,
    cluster_tls_key: options.ClusterKey = None,
    report: options.ReportHere = None,
    verbose: options.Verbose = False,
    state: State = None,
    output: Output = "text",
) -> int:
    """Run the command; the exit code."""
    packages.need_lab("race")
    from trilane.lab import race as lab
    from trilane.lab.asked import Wanted
    from trilane.lab.experiment.bad_experiment import BadExperiment

    machines = on_cluster.asked(
        "race",
        cluster,
        workers,
        worker_label,
        advertise,
        (cluster_tls_ca, cluster_tls_cert, cluster_tls_key),
    )
    given = (
        *(("-H", field) for field in header or ()),
        ("-X", method),
        ("-b", body),
        ("--cacert", cacert),
        ("--cert", cert),
        ("--key", key),
        ("--sni", sni),
        ("--connect-to", connect_to),
        ("--connect-timeout", connect_timeout),
        ("--expect-status", expect_status),
        *(("--proto", file) for file in proto or ()),
        *(("--proto-path", folder) for folder in proto_path or ()),
        ("--descriptor-set", descriptor_set),
        ("--messages", messages),
        ("--messages-in-flight", messages_in_flight),
        ("--answers", answers),
        ("--deadline", deadline),
        ("--grpc-mode", grpc_mode),
    )
    flags = [word for flag, value in given if value is not None for word in (flag, value)]
    if insecure:
        flags.append("-k")
    if gzip:
        flags.append("--gzip")
    if check_body:
        flags.append("--check-body")
    asked = lab.Flags(
        url=_one(urls or []),
        versions=options.versions(h1=h1, h2=h2, h2c=h2c, h3=h3),
        in_flight=[]
        if in_flight is None
        else [units.count("--in-flight", each) for each in in_flight.split(",")],
        rate=None if rate is None else units.rate("-R", rate),
        search=[] if search is None else _goals(search),
        connections=options.count("-c", connections),
        streams=options.count("-m", streams),
        baseline=baseline,
        duration_s=None if duration is None else units.duration("-d", duration),
        warmup_s=None if warmup is None else units.duration("--warmup", warmup, zero=True),
        timeout_s=units.duration("--timeout", timeout),
        margin=units.share("--margin", margin),
        # On a cluster the default is what its machines have.
        threads=None if machines and threads == "1" else units.count("-t", threads),
        pin=not no_pin,
        congestion_control=congestion_control,
        network=network,
        pairs=pair or (),
        fail_if=units.listed(fail_if),
        load=flags,
        grpc=grpc,
    )
    times = options.blocks(blocks, until_decided=until_decided)
    seeded = None if seed is None else units.seed("--seed", seed)
    running.check_place("--report", report)
    try:
        made = lab.experiment(asked)
    except (lab.BadRace, BadExperiment) as error:
        raise Usage(str(error)) from error
    if insecure:
        sys.stderr.write(
            "trilane race: warning: -k: no certificate is verified: whoever is between can read "
            "and change all of it\n"
        )
    wanted = Wanted(
        made,
        lab.FORM,
        blocks=times,
        until_decided=until_decided,
        seed=seeded,
        state=state,
        fresh=fresh,
        profile=profile,
        command=["trilane", *sys.argv[1:]],
    )
    return on_cluster.run(
        "trilane race", machines, wanted, report, output, here=True, verbose=verbose
    )


def _one(urls: list[str]) -> str | None:
    """The URL that was typed, if any."""
    match urls:
        case [_, other, *_]:
            raise Usage(
                f"{other}: a race compares versions at one URL: leave it out, or load several by "
                "trilane load, a run for each version"
            )
        case _:
            return urls[0] if urls else None


def _goals(text: str) -> list[str]:
    """What a search has to keep, each as it was typed."""
    from trilane import _core

    goals = units.listed([text])
    try:
        _core.check_goals(goals)
    except ValueError as error:
        raise Usage(f"--search {text}: {error}") from error
    return goals
