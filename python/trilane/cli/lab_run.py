"""`trilane lab run` and `trilane lab replay`: flags, progress, where results go."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trilane.cli import on_cluster, options, packages, running, units
from trilane.cli.options import Fresh, Output, State, UntilDecided
from trilane.cli.units import Usage

if TYPE_CHECKING:
    from trilane.lab.asked import Wanted
    from trilane.lab.experiment.experiment import Experiment

RUN_HELP = """Run an experiment, or go on with one that was interrupted.

NAME is one of `trilane lab list`, or a .toml file. Every run is a fresh process; each block holds
every arm once, and one of them twice, in random order. Ctrl-C, a crash or kill -9 lose at most the
run that was under way: the same command continues where it stopped (--new begins anew).

An expectation of the file is breached when the whole interval lies outside of it, or when nothing
was measured for it, as of an arm that could not run here.

--until-decided looks at the results at numbers of blocks that are planned before anything is
measured, and ends a point once every comparison of the measure that decides is decided: a
difference, or none. The looks share the 5 % of false claims. --blocks is the most. --within TIME
bounds it: each point of a sweep gets its first look, and more blocks as far as TIME lasts for all.
How long both take is said before the first run. An experiment's file can ask for both.

-t picks arms and -n sets the requests, as in: trilane lab run strategies -t sync -t sync_threads
-n 1000

--cluster ADDRESS has the load made by the machines of a cluster (trilane cluster start, or any of
Dask): each run is one load of all of them. Its arms are the engine's, and its servers are on this
machine, on the machine that the file names by [cluster], or not ours.

--profile runs each arm once more under perf when all is measured, and adds flame graphs of both
ends to the report. Without perf, or where the kernel forbids it, the report says so. Ctrl-C then
ends the profiles alone: the result is whole.

Exit codes: 0 done, 1 could not run, 2 wrong usage, 3 an expectation of the file was breached, 4 the
measurement is invalid, 130 interrupted (what was measured is still reported)."""
REPLAY_HELP = """Make the runs of an earlier experiment or race again: same plan, seed and order."""

Report = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE", help="Write the report here too; it is kept with the runs."
    ),
]


def run(  # noqa: PLR0913, PLR0917 - one parameter per flag
    name: Annotated[str, typer.Argument(metavar="NAME", help="Experiment, or a .toml file.")],
    form: Annotated[
        str | None,
        typer.Option(
            "--form",
            metavar="FORM",
            help="published, fair ... [default: fair, or the one that has the arms of -t]",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller, within 2 minutes on two cores.")
    ] = False,
    publish: Annotated[
        bool, typer.Option("--publish", help="As many blocks as a publication needs.")
    ] = False,
    arms: Annotated[
        list[str] | None,
        typer.Option("-t", "--arm", metavar="ARM", help="Only this arm, repeatable."),
    ] = None,
    count: Annotated[
        str | None, typer.Option("-n", "--count", metavar="N", help="Requests per run.")
    ] = None,
    network: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            help="Put every arm on this emulated network: rtt=40ms,loss=1%, or 4g, dsl, ….",
        ),
    ] = "",
    check_body: options.CheckBody = False,
    blocks: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Blocks. [default: the file's, three times that if --until-decided]"
        ),
    ] = None,
    until_decided: UntilDecided = False,
    within: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="With --until-decided: after the first looks no blocks that would end later.",
        ),
    ] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="N", help="Seed of order and bootstrap. [default: random]")
    ] = None,
    fresh: Fresh = False,
    profile: options.Profile = False,
    cluster: options.Cluster = None,
    workers: options.Workers = None,
    worker_label: options.WorkerLabel = None,
    advertise: options.Advertise = None,
    cluster_tls_ca: options.ClusterCa = None,
    cluster_tls_cert: options.ClusterCert = None,
    cluster_tls_key: options.ClusterKey = None,
    report: Report = None,
    verbose: options.Verbose = False,
    state: State = None,
    output: Output = "text",
) -> int:
    """Run the command; the exit code."""
    packages.need_lab("lab run")
    from trilane.lab.asked import Wanted, pointless, unusable
    from trilane.lab.experiment.bad_experiment import BadExperiment
    from trilane.lab.experiment.check_workload import BROUGHT
    from trilane.lab.experiment.experiment import Experiment

    machines = on_cluster.asked(
        "lab run",
        cluster,
        workers,
        worker_label,
        advertise,
        (cluster_tls_ca, cluster_tls_cert, cluster_tls_key),
    )
    if quick and publish:
        raise Usage("--quick and --publish contradict each other")
    try:
        experiment = Experiment.load(name)
    except BadExperiment as error:
        raise Usage(str(error)) from error
    wanted = Wanted(
        experiment=experiment,
        form=_form(experiment, form, arms or ()),
        quick=quick,
        publish=publish,
        blocks=options.blocks(blocks, until_decided=until_decided),
        until_decided=until_decided,
        within_s=None if within is None else _within(within),
        seed=None if seed is None else units.seed("--seed", seed),
        arms=arms or (),
        count=None if count is None else units.count("-n", count),
        network=network,
        check_body=check_body,
        state=state,
        fresh=fresh,
        profile=profile,
        command=["trilane", *sys.argv[1:]],
    )
    _check_arms(wanted)
    if check_body and (kind := experiment.forms[wanted.form].workload.kind) in BROUGHT:
        raise Usage(f"--check-body: a workload of kind {kind} has checks of its own: leave it out")
    if problem := unusable(experiment.forms[wanted.form], network):
        raise Usage(f"--network {network}: {problem}")
    if pointless(wanted):
        raise Usage(f"--within {within} is for blocks until it is decided: add --until-decided")
    running.check_place("--report", report)
    return on_cluster.run("trilane lab", machines, wanted, report, output, verbose=verbose)


def replay(  # noqa: PLR0913, PLR0917 - one parameter per flag
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run folder, its name, or a prefix.")],
    cluster: options.Cluster = None,
    workers: options.Workers = None,
    worker_label: options.WorkerLabel = None,
    advertise: options.Advertise = None,
    cluster_tls_ca: options.ClusterCa = None,
    cluster_tls_cert: options.ClusterCert = None,
    cluster_tls_key: options.ClusterKey = None,
    report: Report = None,
    verbose: options.Verbose = False,
    state: State = None,
    output: Output = "text",
) -> int:
    """Run the command; the exit code."""
    packages.need_lab("lab replay")
    from trilane.lab.asked import CLUSTER, CannotRun, from_manifest
    from trilane.lab.storage import runs, store

    machines = on_cluster.asked(
        "lab replay",
        cluster,
        workers,
        worker_label,
        advertise,
        (cluster_tls_ca, cluster_tls_cert, cluster_tls_key),
    )
    try:
        folder = runs.find(run, store.state_folder(state))
        manifest = runs.read_manifest(folder)
        wanted = from_manifest(manifest, state)
    except (runs.BadRun, CannotRun) as error:
        raise Usage(str(error)) from error
    made_on = manifest.machine.get(CLUSTER)
    if machines is None and made_on is not None:
        raise Usage(
            f"{folder.name} was made on a cluster ({made_on}): say on which it is to be made "
            "again: --cluster tls://HOST:8786"
        )
    running.check_place("--report", report)
    return on_cluster.run("trilane lab", machines, wanted, report, output, verbose=verbose)


def _within(text: str) -> float:
    from trilane.lab.experiment.check import SHORTEST_S

    seconds = units.duration("--within", text)
    if seconds < SHORTEST_S:
        raise Usage(f"--within takes {SHORTEST_S:g}s or more, not {text}")
    return seconds


def _form(experiment: Experiment, name: str | None, arms: Sequence[str]) -> str:
    """The form that was named, else the one that has the arms, else the fair one."""
    from trilane.lab.asked import default_form
    from trilane.lab.experiment.words import meant

    if name is None:
        return default_form(experiment, arms)
    if name not in experiment.forms:
        near = meant(name, experiment.forms)
        raise Usage(f"--form {name}: {experiment.name} has no such form{near}")
    return name


def _check_arms(wanted: Wanted) -> None:
    from trilane.lab.experiment.words import meant

    known = {arm.name: form.name for form in wanted.experiment.forms.values() for arm in form.arms}
    mine = [arm.name for arm in wanted.experiment.forms[wanted.form].arms]
    for arm in wanted.arms:
        if arm in mine:
            continue
        if arm in known:
            raise Usage(f"-t {arm} is an arm of --form {known[arm]}, not of {wanted.form}")
        raise Usage(f"-t {arm}: {wanted.experiment.name} has no such arm{meant(arm, mine)}")
