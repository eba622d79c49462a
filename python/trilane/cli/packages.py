"""The packages of the extra `trilane[lab]`: only `load`, `serve` and `doctor` do without them."""

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
    absent = [name for name in _MODULES if importlib.util.find_spec(name) is None]
    if absent:
        raise NotInstalled(
            f"`trilane {command}` needs {', '.join(absent)}: type: pip install 'trilane[lab]'"
        )
