"""Clients and servers that an experiment names: whether there are such, before anything runs."""

from __future__ import annotations

from collections.abc import Collection

from trilane.lab.clients import contenders
from trilane.lab.experiment import experiment_file, places
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.experiment.vocabulary import COMMAND, GO_BENCH
from trilane.lab.experiment.words import is_not
from trilane.lab.experiment.workload import ArmSpec
from trilane.lab.model.arm import ENGINE
from trilane.lab.targets import running


def check(experiment: Experiment, form: str, arms: Collection[str]) -> None:
    """Refuse clients and servers of these arms of a form that are nowhere.

    A client or server that exists and cannot run here has a right name: its arm is skipped.

    Raises:
        BadExperiment: a name is nowhere; with the key, in a file with its line, and the nearest
            right name.
        BadContender: the description of a contender is wrong.
    """
    clients = [ENGINE, GO_BENCH, COMMAND]
    meant = [arm for arm in experiment.forms[form].arms if arm.name in arms]
    if any(arm.client not in clients for arm in meant):
        clients += contenders.discover(places.contenders())
    servers = running.names()
    for index, arm in enumerate(experiment.forms[form].arms):
        if arm not in meant:
            continue
        for part, value, known in (
            ("client", arm.client, clients),
            ("server", arm.server, _servers(arm, servers)),
        ):
            if value not in known:
                problem = is_not(part, value, known)
                key = ("forms", form, "arms", index, part)
                error = experiment_file.placed(problem, key, value, experiment)
                raise error


def _servers(arm: ArmSpec, servers: list[str]) -> list[str]:
    """What the arm may name as its server."""
    if "://" in arm.server or running.is_folder(arm.server):
        return [arm.server]
    if arm.client != GO_BENCH:
        return servers
    # The module of a benchmark need not be a server.
    folders = [folder for place in places.servers() for folder in place.iterdir()]
    return sorted({folder.name for folder in folders if folder.is_dir()})
