"""A matrix of arms: every client with every version, strategy, session, server and message.

What its rows of `exclude` name is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import product
from typing import Any

from trilane.lab.experiment.bad_experiment import BadExperiment, Key
from trilane.lab.experiment.experiment_tables import MatrixTable
from trilane.lab.experiment.vocabulary import MESSAGES, STRATEGIES, VERSIONS
from trilane.lab.experiment.words import is_not
from trilane.lab.experiment.workload import ArmSpec, Workload

# What a matrix varies, with the words that there are for it.
_WORDS: Mapping[str, Collection[str] | None] = {
    "client": None,
    "server": None,
    "version": VERSIONS,
    "strategy": STRATEGIES,
    "session": None,
    "message": MESSAGES,
}


def expand(
    table: MatrixTable, options: Mapping[str, Any], workload: Workload, key: Key
) -> Iterator[ArmSpec]:
    """Arms of a matrix, named `client-version-strategy`, the client varying slowest.

    Those of calls are named `server-version-message`. `options` are what all of them are given, by
    the names that an arm has for it, those of the matrix included.

    Raises:
        BadExperiment: an axis is empty or has an unknown word, or a row of `exclude` excludes
            nothing; the key of the error begins with `key`.
    """
    for axis, words in _WORDS.items():
        _check(axis, options.get(axis), words, key)
    shared = {name: value for name, value in options.items() if name not in {*_WORDS, "exclude"}}
    excluded = [{axis: _several(getattr(row, axis)) for axis in _WORDS} for row in table.exclude]
    used: set[int] = set()
    for values in product(*(_several(options.get(axis, (None,))) for axis in _WORDS)):
        arm = dict(zip(_WORDS, values, strict=True))
        left_out = {
            index
            for index, row in enumerate(excluded)
            if all(not row[axis] or arm[axis] in row[axis] for axis in _WORDS)
        }
        used |= left_out
        if not left_out:
            said = {axis: value for axis, value in arm.items() if value is not None}
            yield workload.arm(**shared, **said)
    for index in range(len(excluded)):
        if index not in used:
            problem = "excludes nothing: no arm of the matrix is like that"
            raise BadExperiment(problem, (*key, "exclude", index))


def _check(axis: str, values: Any, words: Collection[str] | None, key: Key) -> None:
    """Refuse an unknown word, before `exclude` complains that a misspelt one does not occur."""
    if values == ():
        raise BadExperiment("is empty: then there is no arm", (*key, axis))
    for index, value in enumerate(values or ()):
        if words is not None and value not in words:
            raise BadExperiment(is_not(axis, value, words), (*key, axis, index))


def _several(value: Any) -> tuple[Any, ...]:
    """What one value or several are; none for None."""
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)
