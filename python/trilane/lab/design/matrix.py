"""A matrix of arms: every client with every version, strategy, session, server and message.

What its rows of `exclude` name is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import product

from trilane.lab.design.toml_table import Table
from trilane.lab.design.vocabulary import MESSAGES, STRATEGIES, VERSIONS
from trilane.lab.design.words import is_not
from trilane.lab.design.workload import ArmOptions, ArmSpec, Workload


def expand(table: Table, workload: Workload, options: ArmOptions) -> Iterator[ArmSpec]:
    """Arms of a matrix, named `client-version-strategy`, the client varying slowest.

    Those of calls are named `server-version-message`.
    """
    clients = table.texts("client")
    versions = _known(table, "version", VERSIONS)
    strategies = _known(table, "strategy", STRATEGIES)
    sessions = table.flags("session", (True,))
    servers = table.text_or_texts("server") or (options["server"],)
    messages = _known(table, "message", MESSAGES) if "message" in table else (None,)
    excluded = [_Excluded(row) for row in table.tables("exclude")]
    table.close()
    axes = (clients, servers, versions, strategies, sessions, messages)
    for client, server, version, strategy, session, message in product(*axes):
        values = (client, server, version, strategy, session, message)
        if any([row.matches(values) for row in excluded]):  # noqa: C419 - all are to be counted
            continue
        chosen = options.copy()
        chosen["session"], chosen["server"] = session, server
        if message is not None:
            chosen["message"] = message
        yield workload.arm(client, version, strategy, **chosen)
    for row in excluded:
        if not row.used:
            raise row.table.bad(None, "excludes nothing: no arm of the matrix is like that")


def _known(table: Table, axis: str, words: Collection[str]) -> tuple[str, ...]:
    """The values of an axis; before `exclude` complains that a misspelt one does not occur."""
    values = table.texts(axis)
    for index, value in enumerate(values):
        if value not in words:
            raise table.bad(axis, is_not(axis, value, words), index)
    return values


class _Excluded:
    """One row of `exclude`: the arms that have, for every key it has, one of its values."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.used = False
        session = table.flag("session", None)
        self._wanted = (
            *(table.text_or_texts(axis) for axis in ("client", "server", "version", "strategy")),
            () if session is None else (session,),
            table.text_or_texts("message"),
        )
        table.close()

    def matches(self, values: tuple[str | bool | None, ...]) -> bool:
        found = all(
            not wanted or value in wanted
            for wanted, value in zip(self._wanted, values, strict=True)
        )
        self.used = self.used or found
        return found
