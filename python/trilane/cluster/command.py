"""`trilane load --cluster ADDRESS …`: the cluster's flags, and the load with what is left."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trilane import _core
from trilane.cluster.connecting import ClusterFailed, Tls
from trilane.cluster.load import Cluster

_COMMAND = "trilane load"
_MOST_WORKERS = 65_535
_INTERRUPTED = 130

_FLAGS = {
    "--cluster": "the address of a scheduler, such as tls://host:8786",
    "--workers": "a whole number from 1 on",
    "--worker-label": "a name that workers were started with",
    "--cluster-tls-ca": "a file in PEM form",
    "--cluster-tls-cert": "a file in PEM form",
    "--cluster-tls-key": "a file in PEM form",
    "--cluster-clock-port": "a UDP port of the scheduler's machine",
}
_REPEATABLE = "--worker-label"
_TLS = ("--cluster-tls-ca", "--cluster-tls-cert", "--cluster-tls-key")


class WrongUsage(ClusterFailed):
    """The command was used wrongly; the message says what to type."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 2)


@dataclass(slots=True)
class Asked:
    """A command line, divided."""

    given: dict[str, list[str]] = field(default_factory=dict)
    """The cluster's flags, and their values."""
    load: list[str] = field(default_factory=list)
    """What is left: arguments of a load."""

    def one(self, flag: str) -> str | None:
        """The value of a flag that is given once, or not at all."""
        return self.given.get(flag, [None])[0]


def load(arguments: Sequence[str]) -> int:
    """Run `trilane load` with those arguments, `--cluster` among them; the exit code."""
    try:
        asked = divided(arguments)
        with Cluster(
            _needed(asked, "--cluster"),
            workers=_number(asked, "--workers", _MOST_WORKERS),
            labels=asked.given.get(_REPEATABLE, ()),
            tls=_tls(asked),
            clock_port=_number(asked, "--cluster-clock-port", 65_535) or 0,
        ) as cluster:
            return cluster.run(asked.load)
    except ClusterFailed as error:
        sys.stderr.write(_core.for_terminal(f"{_COMMAND}: error: {error}\n"))
        if isinstance(error, WrongUsage):
            sys.stderr.write(f"try: {_COMMAND} --help\n")
        return error.code
    except KeyboardInterrupt:
        sys.stderr.write(f"{_COMMAND}: error: interrupted\n")
        return _INTERRUPTED


def divided(arguments: Sequence[str]) -> Asked:
    """The cluster's flags apart from the load's arguments; what follows `--` is the load's.

    Raises:
        WrongUsage: a flag has no value, or more than one.
    """
    asked = Asked()
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            asked.load += [argument, *rest]
            break
        flag, mark, value = argument.partition("=")
        if flag not in _FLAGS:
            asked.load.append(argument)
            continue
        if not mark:
            value = next(rest, "")
        if not value:
            raise WrongUsage(f"{flag} takes {_FLAGS[flag]}")
        values = asked.given.setdefault(flag, [])
        values.append(value)
        if len(values) > 1 and flag != _REPEATABLE:
            raise WrongUsage(f"{flag} is given twice: {' and '.join(values)}")
    return asked


def _needed(asked: Asked, flag: str) -> str:
    value = asked.one(flag)
    if value is None:
        raise WrongUsage(f"{flag} is missing: it takes {_FLAGS[flag]}")
    return value


def _number(asked: Asked, flag: str, most: int) -> int | None:
    text = asked.one(flag)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= most):
        raise WrongUsage(f"{flag} takes {_FLAGS[flag]}, at most {most}, not {text!r}")
    return int(text[:9])


def _tls(asked: Asked) -> Tls | None:
    given = [flag for flag in _TLS if flag in asked.given]
    if not given:
        return None
    if len(given) < len(_TLS):
        raise WrongUsage(f"{', '.join(_TLS)} go together, and only {', '.join(given)} is there")
    ca, cert, key = (Path(_needed(asked, flag)) for flag in _TLS)
    return Tls(ca, cert, key)
