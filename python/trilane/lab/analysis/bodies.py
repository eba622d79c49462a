"""Whether the arms of a comparison were given the same responses.

Arms whose bodies or statuses differ are never ranked, whatever measured them (METHOD §3). What
counts is what every run was given, not its first response alone: a server may lie to the first
callers, and one run that agrees by chance proves nothing. So two arms differ where most pairs of
their runs do, and runs that differ from most others are named.

The engine reports the mean length of all bodies and the CRC-32 of a sample; a client under test the
sum of all lengths and of the CRC-32 of all bodies, from which that of one URL's body follows. Of
several URLs the first alone is compared. Answers of a service differ by format, and are checked
against a reading in their own format instead (`clients.call_reference`).
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from trilane.lab.model.arm import Arm
from trilane.lab.model.run import Run
from trilane.lab.model.validity import Reason

# Mean lengths that are closer are those of one page that changes.
_SAME_LENGTH = 0.01
_ADVICE = "make the server give every arm the same"

_Fact = TypeVar("_Fact", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Body:
    """One body."""

    bytes: int
    crc32: str | None
    """Eight hexadecimal digits; None where the client only counted."""

    def __str__(self) -> str:
        size = f"{self.bytes:,} {'byte' if self.bytes == 1 else 'bytes'}"
        return size if self.crc32 is None else f"{size} with CRC-32 {self.crc32}"

    def may_be(self, other: Body) -> bool:
        """Whether nothing that both tell differs."""
        return self.bytes == other.bytes and (
            self.crc32 == other.crc32 or None in {self.crc32, other.crc32}
        )


@dataclass(frozen=True, slots=True)
class Received:
    """What the ok responses of a run were, as far as it tells."""

    status: str | None = None
    """That of more than half of them."""
    mean_bytes: float | None = None
    """Mean length of their bodies."""
    body: Body | None = None
    """The body of more than half of them."""

    def __str__(self) -> str:
        if self.body is not None and not self._lies_elsewhere(self.body.bytes):
            return str(self.body)
        if self.mean_bytes is None:
            return "bodies of unknown length"
        # Three digits: a mean that is told as a whole number looks like a length.
        return f"{self.mean_bytes:,.{0 if self.mean_bytes >= 1000 else 1}f} bytes on average"

    def has_another_status(self, other: Received) -> bool | None:
        """Whether most responses had different statuses; None where one of both does not tell."""
        if self.status is None or other.status is None:
            return None
        return self.status != other.status

    def has_another_body(self, other: Received) -> bool | None:
        """Whether most responses had different bodies; None where one of both does not tell."""
        if self.body is None or other.body is None:
            return None
        return not self.body.may_be(other.body)

    def is_longer(self, other: Received) -> bool | None:
        """Whether bodies were longer on average; None where one of both does not tell."""
        if self.mean_bytes is None or other.mean_bytes is None:
            return None
        return self._lies_elsewhere(other.mean_bytes) and self.mean_bytes > other.mean_bytes

    def is_shorter(self, other: Received) -> bool | None:
        """Whether bodies were shorter on average; None where one of both does not tell."""
        return other.is_longer(self)

    def _lies_elsewhere(self, length: float) -> bool:
        if self.mean_bytes is None:
            return False
        return abs(self.mean_bytes - length) > _SAME_LENGTH * max(self.mean_bytes, length)


def of_run(run: Run) -> Received:
    """What a run was given."""
    if run.grpc is not None or run.websocket is not None or run.scenario is not None:
        # What these were given is judged by other things: messages, and checks of each step.
        return Received()
    statuses = sum(run.status.values())
    status, count = max(run.status.items(), key=lambda item: item[1], default=(None, 0))
    return Received(
        status=status if 2 * count > statuses else None,
        mean_bytes=_mean_bytes(run),
        body=_body(run),
    )


def _mean_bytes(run: Run) -> float | None:
    if run.plan.request.urls != 1:
        # How often each of several came depends on where the run ended.
        return None
    if run.bodies is not None:
        return run.bodies.mean_bytes
    if run.target.body is not None:
        # As results of before told it.
        return float(run.target.body.bytes)
    content, ok = _content(run)
    return None if content is None else content / ok


def _content(run: Run) -> tuple[int | None, int]:
    """Bytes that a client under test read in so many ok responses; None where it cannot be said."""
    content, ok = run.content, run.requests.ok
    # What was sent with a coding is told decoded here and as it came by the engine.
    if content is None or ok == 0 or run.plan.request.coding:
        return None, ok
    return content.bytes, ok


def _body(run: Run) -> Body | None:
    told, most = run.target.body, None if run.bodies is None else run.bodies.most
    if run.bodies is not None and most is not None:
        return Body(most.bytes, most.crc32) if 2 * most.count > run.bodies.summed else None
    if told is not None:
        # Of few responses none may be in the sample.
        same = run.bodies is None or run.bodies.mean_bytes == told.bytes
        return Body(told.bytes, told.crc32) if same else None
    size, ok = _content(run)
    if size is None or run.content is None or run.plan.request.urls != 1:
        return None
    each, rest = divmod(size, ok)
    if run.content.digest is None:
        return None if rest else Body(each, None)
    crc, left = divmod(run.content.digest, ok)
    # Bodies that differ among each other have no one sum.
    return None if rest or left else Body(each, f"{crc:08x}")


def of_arm(arm: Arm, runs: Sequence[Run]) -> list[Received]:
    """What runs of an arm were given; nothing of a call, whose answers differ by format."""
    return [] if arm.message is not None else [of_run(run) for run in runs]


def differ(first: Sequence[Received], second: Sequence[Received]) -> bool:
    """Whether the runs of two arms were given different responses.

    A page that changes from one request to the next has other sums in every run, and then its mean
    lengths alone can tell.
    """
    if len({*first, *second}) < 2:
        return False
    pairs = list(itertools.product(first, second))
    # A run, or two that differ, may have met a page that changes.
    steady = all(
        _most(itertools.combinations(runs, 2), lambda one, other: _not(one.has_another_body(other)))
        for runs in (first, second)
    )
    return (
        differ_in_status(first, second)
        or _most(pairs, Received.is_longer)
        or _most(pairs, Received.is_shorter)
        or (steady and _most(pairs, Received.has_another_body))
    )


def differ_in_status(first: Sequence[Received], second: Sequence[Received]) -> bool:
    """Whether the runs of two arms were answered with different statuses."""
    return _most(itertools.product(first, second), Received.has_another_status)


def _most(
    pairs: Iterable[tuple[Received, Received]],
    holds: Callable[[Received, Received], bool | None],
) -> bool:
    """Whether it holds for more than half of the pairs that tell; not where none does."""
    told = [held for pair in pairs if (held := holds(*pair)) is not None]
    return 2 * sum(told) > len(told)


def _not(held: bool | None) -> bool | None:
    return None if held is None else not held


def groups(
    arms: Sequence[Arm],
    runs: Mapping[str, Sequence[Run]],
    differ: Callable[[Sequence[Received], Sequence[Received]], bool] = differ,
) -> list[list[Arm]]:
    """The arms by what they were given, in their order; one group where no two are known to differ.

    `runs` holds the runs of each arm by its name; `differ` is what keeps two apart.
    """
    given = {arm.name: of_arm(arm, runs[arm.name]) for arm in arms}
    found: list[list[Arm]] = []
    for arm in arms:
        same = (g for g in found if not any(differ(given[arm.name], given[o.name]) for o in g))
        group = next(same, None)
        if group is None:
            found.append([arm])
        else:
            group.append(arm)
    return found


def usual(runs: Sequence[Received]) -> Received:
    """What most of these runs were given; what no majority was given is unknown."""
    lengths = [run.mean_bytes for run in runs if run.mean_bytes is not None]
    return Received(
        status=_majority(run.status for run in runs),
        mean_bytes=statistics.median(lengths) if lengths else None,
        body=_majority(run.body for run in runs),
    )


def _majority(values: Iterable[_Fact | None]) -> _Fact | None:
    known = [value for value in values if value is not None]
    value, count = next(iter(Counter(known).most_common(1)), (None, 0))
    return value if 2 * count > len(known) else None


def reason(found: Sequence[Sequence[Arm]], runs: Mapping[str, Sequence[Run]]) -> Reason | None:
    """Why arms of different `groups` are not ranked; None where there is one group."""
    if len(found) < 2:
        return None
    return _reason({" and ".join(a.title for a in group): _given(group, runs) for group in found})


def difference(first: Sequence[Received], second: Sequence[Received]) -> Reason | None:
    """Why an arm is not judged that was given `second` in B and `first` in A; None where it may."""
    return _reason({"A": first, "B": second}) if differ(first, second) else None


def suspected(given: Mapping[str, Sequence[Received]]) -> Reason | None:
    """What one run of each, by title, already says, as does a page that changes every time."""
    pairs = itertools.permutations(itertools.chain.from_iterable(given.values()), 2)
    differs = any(
        one.has_another_status(other) or one.has_another_body(other) or one.is_longer(other)
        for one, other in pairs
    )
    return _reason({title: runs for title, runs in given.items() if runs}) if differs else None


def _reason(given: Mapping[str, Sequence[Received]]) -> Reason:
    """What those were given, by title, of which each is known to differ from another."""
    pairs = itertools.combinations(given.values(), 2)
    if any(differ_in_status(*pair) for pair in pairs):
        told = [f"{title} got {usual(runs).status or 'several'}" for title, runs in given.items()]
        text = f"different statuses are never ranked: {', '.join(told)}"
        return Reason(code="different_statuses", verdict="invalid", text=text, advice=_ADVICE)
    told = [f"{title} read {usual(runs)}" for title, runs in given.items()]
    text = f"different bodies are never ranked: {', '.join(told)}"
    return Reason(code="different_bodies", verdict="invalid", text=text, advice=_ADVICE)


def odd_runs(found: Sequence[Sequence[Arm]], runs: Mapping[str, Sequence[Run]]) -> list[Reason]:
    """The runs that were given another body than most of their group, a reason for each arm."""
    reasons = []
    for group in found:
        common = usual(_given(group, runs))
        if common.body is None:
            # The page changes from run to run.
            continue
        for arm in group:
            given = of_arm(arm, runs[arm.name])
            odd = [
                run
                for run in given
                if run.has_another_body(common) or run.is_longer(common) or run.is_shorter(common)
            ]
            if not odd:
                continue
            text = (
                f"{arm.title}: {len(odd)} of {len(given)} {'run' if len(given) == 1 else 'runs'} "
                f"read {odd[0]}, most runs read {common}"
            )
            numbers = {"runs": float(len(odd)), "of_runs": float(len(given))}
            reasons.append(
                Reason(code="different_bodies", verdict="suspect", numbers=numbers, text=text)
            )
    return reasons


def _given(group: Sequence[Arm], runs: Mapping[str, Sequence[Run]]) -> list[Received]:
    return [given for arm in group for given in of_arm(arm, runs[arm.name])]
