"""The packages of the extras `trilane[lab]` and `trilane[cluster]`, where commands need them."""

from __future__ import annotations

import importlib.util

_MODULES = ("altair", "hdrh", "jinja2", "msgspec", "numpy", "scipy", "vl_convert")


class NotInstalled(Exception):
    """Packages that a command needs are missing; the message names them and says what to type."""


def need_lab(command: str) -> None:
    """Refuse to go on without the packages of the lab.

    All are looked for before anything runs: what makes charts is imported at the end of a race.

    Raises:
        NotInstalled: one of them is missing.
    """
    _need(command, _MODULES, "lab")


def need_cluster(command: str) -> None:
    """Refuse to go on without what spreads a load over machines.

    Raises:
        NotInstalled: it is missing.
    """
    _need(command, ("distributed",), "cluster")


def _need(command: str, modules: tuple[str, ...], extra: str) -> None:
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    if absent:
        raise NotInstalled(
            f"`trilane {command}` needs {', '.join(absent)}: type: pip install 'trilane[{extra}]'"
        )
