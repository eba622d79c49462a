"""Why one arm is ahead, as far as what was measured carries it: up to three sentences, or none.

A sentence is made only of claims of the comparison itself, whose p is adjusted for its whole
family, and which go the same way as what they explain. So two equal arms have no cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trilane.lab.analysis import verdict
from trilane.lab.analysis.headline import multiple, names, quantity
from trilane.lab.model.comparison import Comparison, JudgedArm, Ratio
from trilane.lab.model.measures import BY_NAME, CLIENT_CPU, RATE, SERVER_CPU, SYSCALLS, Measure

MOST = 3
_PAYLOAD = ("wire_bytes_per_request", "bytes_per_request")
# System calls for a request below which at least two requests have been in one.
_SHARED = 0.5
_FASTER = frozenset({"requests_per_s", "elapsed_s", "total_s", "mean_s", "p50"})


def because(comparison: Comparison, row: Ratio | None) -> list[str]:
    """Of the pair that the headline is about; `row` is that pair on the measure that decides."""
    if row is None or row.finding not in ("higher", "lower") or row.measure not in _FASTER:
        return []
    ahead = row if row.finding == BY_NAME[row.measure].better else row.turned()
    arms = {arm.name: arm for arm in comparison.arms}
    pair = arms[ahead.arm], arms[ahead.to]
    told = _Pair(comparison, names(comparison.arms), *pair)
    return [*told.limit(), *told.calls(), *told.network()][:MOST]


def over_points(points: Sequence[tuple[str, Comparison]]) -> list[str]:
    """Over a sweep: the first sentence of its first and of its last point that has one."""
    told = [
        f"{at[:1].upper()}{at[1:]}{first[:1].lower()}{first[1:]}"
        for at, made in points
        for first in made.said.because[:1]
    ]
    return told if len(told) < 2 else [told[0], told[-1]]


class _Pair:
    """The arm that is ahead, and the one behind it."""

    def __init__(
        self,
        comparison: Comparison,
        called: Mapping[str, str],
        ahead: JudgedArm,
        behind: JudgedArm,
    ) -> None:
        self._comparison, self._called = comparison, called
        self._ahead, self._behind = ahead, behind

    def limit(self) -> Iterator[str]:
        """Which end both arms filled, and what a request cost it."""
        bounds = {self._ahead.load.bound, self._behind.load.bound}
        for end, words, measure in (
            ("server", "The server's CPU was the limit", SERVER_CPU),
            ("client", "This client's CPU was the limit", CLIENT_CPU),
        ):
            both = all(end in bound.split("+") for bound in bounds)
            cost = self._costs(measure)
            if both and cost:
                yield f"{words}: a request costs it {cost}."

    def calls(self) -> Iterator[str]:
        """System calls, where one of the ends was the limit."""
        if self._comparison.ranking.measure != RATE.name:
            return
        if cost := self._costs(SYSCALLS):
            calls = self._ahead.summary[SYSCALLS.name].median or 1.0
            share = (
                f"; over {self._called[self._ahead.name]} some {1 / calls:.0f} requests share one"
            )
            told = share if calls < _SHARED else ""
            yield f"This client's system calls per request: {cost}{told}."

    def network(self) -> Iterator[str]:
        """Bytes, where neither end was full in either arm and the network is the emulated one."""
        if not all(arm.is_alone and arm.load.bound == "waiting" for arm in self._arms):
            return
        for name in _PAYLOAD:
            row = self._row(BY_NAME[name])
            if row is not None and row.ratio is not None:
                yield (
                    f"Neither end's CPU was the limit; {self._called[row.arm]} put "
                    f"{multiple(row.ratio)} the bytes of {self._called[row.to]} on the network."
                )
                return

    @property
    def _arms(self) -> tuple[JudgedArm, JudgedArm]:
        return self._ahead, self._behind

    def _row(self, measure: Measure) -> Ratio | None:
        """The pair on another measure, where it was found to be less for the one ahead."""
        row = verdict.row_of(
            verdict.rows(self._comparison), measure.name, self._ahead.name, self._behind.name
        )
        return row if row is not None and row.finding == "lower" else None

    def _costs(self, measure: Measure) -> str | None:
        """`3.3 µs over HTTP/2 and 8.8 µs over HTTP/1.1`, where that is a finding."""
        if self._row(measure) is None:
            return None
        told = []
        for arm in self._arms:
            found = arm.summary.get(measure.name)
            if found is None or found.median is None:
                return None
            told.append(f"{quantity(found.median, measure)} over {self._called[arm.name]}")
        return " and ".join(told)
