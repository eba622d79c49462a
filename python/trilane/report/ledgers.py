"""The ledger for people: few arms side by side, many grouped by what they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trilane.lab.model.comparison import BUILD, Comparison, JudgedArm
from trilane.report import formatting, view

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Fact:
    """One row of the ledger."""

    name: str
    equal: bool
    """Whether the arms that tell it have the same; what the others have is unknown."""
    each: list[str]
    """The value of every arm, in the order of the arms."""
    values: list[tuple[str, list[str]]]
    """Each value with the titles of the arms that have it, in the order of the arms."""

    @property
    def shared(self) -> bool:
        """Whether one value stands for all arms: never for one of which it is unknown."""
        return len(self.values) == 1


def facts(comparison: Comparison) -> list[Fact]:
    """What must be equal between arms, or be printed because it is not."""
    arms = comparison.arms
    silent = {arm.name for arm in arms if not _tells(arm)}
    made = []
    for row in comparison.ledger.rows:
        groups: dict[str, list[str]] = {}
        each = []
        for arm in arms:
            value = row.values.get(arm.name)
            unknown = value is None and arm.name in silent
            each.append(UNKNOWN if unknown else said(value))
            groups.setdefault(each[-1], []).append(arm.title)
        made.append(Fact(row.name, row.equal, each, list(groups.items())))
    return made


def _tells(arm: JudgedArm) -> bool:
    """Whether nothing told by the arm's client means that there is none.

    The engine tells all that it knows of its connections, their phases first. Other clients under
    test tell what they did, and of their connections nothing.
    """
    return any(run.phases is not None for run in view.runs(arm))


def said(value: Any) -> str:
    """A value of the ledger as text."""
    if value is None:
        return formatting.NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} {said(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(said(inner) for inner in value)
    return str(value)


# A race is about these: they differ by design and are shown in the report's ledger only.
_BY_DESIGN = frozenset(
    {
        "version obtained",
        "ALPN",
        "connections",
        "streams per connection",
        "server settings",
        "client settings",
        "request header fields",
        "request header (bytes)",
    }
)
# Arms of a lab run choose these.
_BY_ARM = frozenset(
    {
        "client library",
        "client library version",
        "client runtime",
        "strategy",
        "session kept",
        "most requests in flight",
        "connections opened",
        "client threads",
        "model",
        "client version",
        "client revision",
        BUILD,
    }
)


def unexpected(comparison: Comparison) -> list[str]:
    """Facts that differ between arms although nothing in the arms asked for it."""
    clients = {arm.client for arm in comparison.arms}
    strategies = {arm.strategy for arm in comparison.arms}
    known = _BY_DESIGN if len(clients) == len(strategies) == 1 else _BY_DESIGN | _BY_ARM
    return [
        str(row.name) for row in comparison.ledger.rows if not row.equal and row.name not in known
    ]
