"""What is asked of the lab: an experiment with what the command line or a caller changes about it.

`chosen` applies the changes, `order` shuffles the runs by the seed, `fingerprint` tells plans apart
that cannot go on with each other, and `from_manifest` asks again for what a run folder was.
"""

from __future__ import annotations

import hashlib
import json
import random
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trilane import hiding
from trilane.lab.analysis import stats
from trilane.lab.blocks import shuffled
from trilane.lab.clients.cluster import Cluster
from trilane.lab.experiment import networks
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.experiment.form import MOST_TIMES, Form
from trilane.lab.model.manifest import Manifest

CLUSTER = "cluster"
"""Among the facts about the machine: those that made the load in its place."""


class CannotRun(RuntimeError):
    """The experiment could not be run; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for, already parsed."""

    experiment: Experiment
    form: str
    quick: bool = False
    publish: bool = False
    blocks: int | None = None
    """With `until_decided` at most so many."""
    until_decided: bool = False
    """The results are looked at, as planned before, and the run ends once they decide."""
    within_s: float | None = None
    """Most seconds for blocks after the first looks, in place of the form's."""
    seed: int | None = None
    arms: Sequence[str] = ()
    """Only these."""
    count: int | None = None
    """Requests in place of the form's."""
    network: str = ""
    """The emulated network of every arm in place of its own; empty: as the file says."""
    check_body: bool = False
    """The engine sums every body, instead of a sample."""
    state: Path | None = None
    fresh: bool = False
    """Begin anew, although an interrupted run of the same plan could go on."""
    whole: bool = False
    """Every arm has to run: without one of them there is nothing to compare."""
    profile: bool = False
    """Once the runs are made, each arm has another under a profiler."""
    cluster: Cluster | None = None
    """The machines that make the load, and may have the servers; None: all is on this one."""
    command: Sequence[str] = ("trilane", "lab", "run")
    """What was typed, to be typed again; nothing: the folder is what it is repeated from."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One place in the order."""

    point: int
    block: int
    position: int
    arm: str
    slot: int
    again: bool = False
    """The block was disturbed and is made again."""

    @property
    def key(self) -> tuple[int, int, str, int, bool]:
        """What tells a run from all others."""
        return self.point, self.block, self.arm, self.slot, self.again


def default_form(experiment: Experiment, arms: Collection[str] = ()) -> str:
    """The form where none is named: the fair one, or the first that has these arms."""
    forms = sorted(experiment.forms, key=lambda form: form != "fair")
    having = [
        form for form in forms if set(arms) <= {arm.name for arm in experiment.forms[form].arms}
    ]
    return (having or forms)[0]


def too_few(blocks: int | None, *, until_decided: bool) -> str | None:
    """Why so many blocks cannot be what was asked for; None where they can."""
    if until_decided and blocks is not None and blocks < stats.LEAST_BLOCKS:
        return f"it takes at least {stats.LEAST_BLOCKS} blocks to decide anything, not {blocks}"
    return None


def pointless(wanted: Wanted) -> bool:
    """Whether a time is given to a run whose number of blocks is fixed."""
    return wanted.within_s is not None and not chosen(wanted).stats.until_decided


def unusable(form: Form, network: str) -> str | None:
    """Why the arms of a form cannot be put on a network; None where they can, and for none."""
    if problem := networks.problem(network):
        return problem
    try:
        # With what a sweep adds.
        points = form.on_network(network).points() if network else ()
    except ValueError as error:
        return str(error)
    found = (networks.problem(arm.network) for _, point in points for arm in point.arms)
    return next(filter(None, found), None)


def chosen(wanted: Wanted) -> Form:
    """The form with everything that was asked applied to it."""
    form = wanted.experiment.forms[wanted.form]
    if wanted.quick:
        form = form.quickened(wanted.arms)
    if wanted.count is not None:
        form = form.with_count(wanted.count)
    if wanted.network:
        form = form.on_network(wanted.network)
    if wanted.check_body:
        form = replace(form, workload=replace(form.workload, check_body=True))
    if wanted.arms:
        form = form.only(wanted.arms)
    blocks = form.stats.publish_blocks if wanted.publish else form.stats.blocks
    # Fewer could never show a difference, whatever the file says.
    blocks = max(blocks, stats.LEAST_BLOCKS)
    until_decided = wanted.until_decided or form.stats.until_decided
    if until_decided:
        blocks *= MOST_TIMES
    # For a publication nothing stays open for want of time, unless that is asked for.
    within_s = None if wanted.publish else form.stats.within_s
    numbers = replace(
        form.stats,
        blocks=wanted.blocks or blocks,
        until_decided=until_decided,
        within_s=within_s if wanted.within_s is None else wanted.within_s,
    )
    # What `--quick` would change need not fit what was asked for any more.
    return replace(form, stats=numbers, quick=None)


def order(form: Form, seed: int) -> list[Entry]:
    """Every run, point after point, each block shuffled by `seed`."""
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    planned = []
    for number, (_, point) in enumerate(form.points()):
        for block in range(point.stats.blocks):
            names = [arm.name for arm in point.arms]
            places = shuffled(names, block, chance, aa=point.stats.aa)
            planned += [
                Entry(number, block, position, arm, slot)
                for position, (arm, slot) in enumerate(places)
            ]
    return planned


def fingerprint(experiment: Experiment, form: Form, cluster: Cluster | None = None) -> str:
    """Equal for plans of which one can go on where the other stopped.

    Secrets make no other plan: tokens change, and nobody can try them out on the fingerprint.
    """
    whole = replace(experiment, forms={form.name: form}, path=None)
    plan = hiding.document(whole.to_dict())
    # Where a list has it makes no other plan.
    del plan["group"]
    if cluster is not None:
        plan["on"] = cluster.described()
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def from_manifest(manifest: Manifest, state: Path | None) -> Wanted:
    """What was asked for in an earlier experiment or race, to be asked again in the same order."""
    if manifest.experiment is None:
        raise CannotRun(
            "this race is of a version that did not keep what it takes to repeat it: to make it "
            f"again, type its command: {manifest.command}"
        )
    if hiding.has_hidden(manifest.experiment):
        raise CannotRun(
            "its secrets were not kept: to make it again, type its command with them: "
            f"{manifest.command} (a run of -H 'authorization: Bearer ${{TOKEN}}' can be replayed "
            "where TOKEN is set)"
        )
    if manifest.form is None or manifest.blocks is None:
        raise CannotRun("its manifest does not say which form was run, and how often")
    try:
        experiment = Experiment.from_dict(manifest.experiment)
        form = experiment.forms[manifest.form]
    except (KeyError, TypeError, ValueError) as error:
        raise CannotRun(f"its manifest does not say what was run: {error!r}") from error
    stats_then = replace(form.stats, blocks=manifest.blocks)
    clients = manifest.clients_now
    arms = tuple(replace(arm, client=clients.get(arm.client, arm.client)) for arm in form.arms)
    forms = {form.name: replace(form, arms=arms, stats=stats_then, quick=None)}
    return Wanted(
        experiment=replace(experiment, forms=forms),
        form=form.name,
        quick=manifest.quick,
        blocks=manifest.blocks,
        seed=manifest.seed,
        state=state,
        fresh=True,
        command=shlex.split(manifest.command),
    )
