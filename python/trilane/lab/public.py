"""Experiments from Python: `trilane.lab.run`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trilane.lab import study
from trilane.lab.asked import Wanted, default_form, pointless, too_few, unusable
from trilane.lab.clients.cluster import Cluster
from trilane.lab.experiment.check import SHORTEST_S
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.experiment.words import meant
from trilane.lab.model.lab import LabResult
from trilane.lab.study import Watcher


def run(  # noqa: PLR0913 - what the command has as flags
    experiment: Experiment | str | Path,
    *,
    form: str | None = None,
    quick: bool = False,
    blocks: int | None = None,
    until_decided: bool = False,
    within_s: float | None = None,
    seed: int | None = None,
    arms: Sequence[str] = (),
    network: str = "",
    state: Path | str | None = None,
    fresh: bool = False,
    cluster: Cluster | None = None,
    watcher: Watcher | None = None,
) -> LabResult:
    """Run an experiment as `trilane lab run` does, and give its result.

    `experiment` is one built in code, the name of one (`trilane.lab.Experiment.load`) or a file.
    `form` is by default the fair one, or the first that has the `arms` asked for (none: all).
    `network` is the emulated network of every arm, as `trilane network` takes it (empty: as the
    file says). `quick` makes it small, `blocks` and `seed` are the file's number and a random one.
    With `until_decided` the results are looked at as planned before anything is measured, and the
    run ends once they decide, after `blocks` at most (by default three times the file's). Each
    point of a sweep ends by itself; with `within_s` its blocks after the first look are made only
    as far as these seconds last for all. The runs lie in `state` (None:
    `$XDG_STATE_HOME/trilane`), and an interrupted run of the same plan goes on there, unless it is
    to begin `fresh`. `cluster` is one that `trilane.cluster.experiments` has opened (None: all is
    on this machine). `watcher` is told of progress (None: nothing is).

    Ctrl-C ends it with the result of what was measured (`LabResult.interrupted`).

    Raises:
        BadExperiment: the experiment cannot be run as it is written.
        ValueError: there is no such form, arm or network, or `blocks` is less than 1.
        CannotRun: nothing can be measured here (`trilane.lab.CannotRun`).
        Busy: another process makes the same runs (`trilane.lab.storage.journal`).
    """
    made = experiment if isinstance(experiment, Experiment) else Experiment.load(experiment)
    chosen = default_form(made, arms) if form is None else form
    if chosen not in made.forms:
        raise ValueError(f"{made.name} has no form {chosen!r}{meant(chosen, made.forms)}")
    known = [arm.name for arm in made.forms[chosen].arms]
    for arm in arms:
        if arm not in known:
            raise ValueError(f"{made.name} has no arm {arm!r} in form {chosen}{meant(arm, known)}")
    if problem := unusable(made.forms[chosen], network):
        raise ValueError(f"network={network!r}: {problem}")
    if blocks is not None and blocks < 1:
        raise ValueError(f"blocks must be at least 1, not {blocks}")
    problem = too_few(blocks, until_decided=until_decided)
    if problem is not None:
        raise ValueError(f"blocks={blocks} with until_decided: {problem}")
    wanted = Wanted(
        made,
        chosen,
        quick=quick,
        blocks=blocks,
        until_decided=until_decided,
        within_s=within_s,
        seed=seed,
        arms=arms,
        network=network,
        state=None if state is None else Path(state),
        fresh=fresh,
        cluster=cluster,
        # What was built in code is repeated from its folder.
        command=(),
    )
    if within_s is not None and within_s < SHORTEST_S:
        raise ValueError(f"within_s must be at least {SHORTEST_S:g}, not {within_s:g}")
    if pointless(wanted):
        raise ValueError(f"within_s={within_s} is for until_decided=True")
    return study.run(wanted, watcher or Watcher.quiet()).result
