"""What the numbers allow to claim: the winner, the limit, and what speaks against it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from trilane.lab.analysis import stats
from trilane.lab.model.comparison import ArmLoad, Comparison, Floor, LoadBound, Ratio
from trilane.lab.model.measures import RATE, TAILS, TIMES
from trilane.lab.model.sample import Sample
from trilane.lab.model.validity import Reason, Validity

# METHOD: a worker above 95 % busy is saturated. A server thread shares its core with the kernel's
# network work, some of it not charged to it, so it counts as saturated a little earlier.
_CLIENT_SATURATED = 0.95
_SERVER_SATURATED = 0.90
# What these falsify is how long something took.
_OF_TIME = frozenset({"worker_busy", "stood_still", "late", "queued", "short_turns"})
CLAIMS = frozenset({"higher", "lower", "no_difference"})
"""Findings that say something."""


def bound(samples: Sequence[Sample]) -> ArmLoad:
    """What set the rate of an arm, from the CPU of both ends (medians over its runs)."""
    client = [max(s.run.cost.busy) for s in samples if s.run and s.run.cost.busy]
    server = [s.server.busy for s in samples if s.server and s.server.busy is not None]
    client_busy = statistics.median(client) if client else None
    server_busy = statistics.median(server) if server else None
    client_full = client_busy is not None and client_busy >= _CLIENT_SATURATED
    server_full = server_busy is not None and server_busy >= _SERVER_SATURATED
    found: LoadBound
    if client_full:
        found = "client+server" if server_full else "client"
    elif server_full:
        found = "server"
    else:
        found = "elsewhere" if server_busy is None else "waiting"
    return ArmLoad(bound=found, client_busy=client_busy, server_busy=server_busy)


def bound_text(load: ArmLoad) -> str:
    """`bound` for people."""
    return {
        "client": "client-bound",
        "server": "server-bound",
        "client+server": "client- and server-bound",
        "waiting": "neither end was saturated",
        "elsewhere": "server- or network-bound",
    }[load.bound]


def merged(reasons: Sequence[Reason], runs: int) -> list[Reason]:
    """Reasons of one code told once, with how many of so many runs gave them."""
    kinds: dict[str, list[Reason]] = {}
    for reason in reasons:
        kinds.setdefault(reason.code, []).append(reason)
    return [
        replace(
            same[0],
            text=f"{same[0].text} ({len(same)} of {runs} runs)",
            numbers={**same[0].numbers, "runs": len(same), "of_runs": runs},
        )
        if runs > 1
        else same[0]
        for same in kinds.values()
    ]


def winner(names: Sequence[str], pairs: Sequence[Ratio], better: str = "higher") -> str | None:
    """The arm that beats every other one; None when no arm does, or not all were compared."""
    worse = "lower" if better == "higher" else "higher"
    for name in names:
        findings = [
            pair.finding == (better if pair.arm == name else worse)
            for pair in pairs
            if name in (pair.arm, pair.to)
        ]
        if findings and len(findings) == len(names) - 1 and all(findings):
            return name
    return None


def validity(
    comparison: Comparison, different: Reason | None, odd_runs: Sequence[Reason]
) -> Validity:
    """Verdict on the whole comparison; each reason names its arm.

    `different` says which arms were given different responses, None where none were; `odd_runs`
    which runs of an arm.
    """
    reasons = [
        replace(reason, text=f"{arm.title}: {reason.text}")
        for arm in comparison.arms
        for reason in arm.validity.reasons
        if concerns(reason, comparison.ranking.measure, arm.load)
    ]
    if different is not None:
        reasons.insert(0, different)
    reasons.extend(odd_runs)
    floor = comparison.noise_floor[comparison.ranking.measure]
    plan = comparison.plan
    if plan.blocks_done >= stats.LEAST_BLOCKS and floor and _biased(floor, plan.margin):
        reasons.append(
            Reason(
                code="differs_from_itself",
                verdict="suspect",
                numbers={"low": floor.low, "high": floor.high},
                text="arms differed from themselves: their second run in a block was at "
                f"{floor.low:.3f} to {floor.high:.3f} times their first",
                advice="stop other programs, or make runs longer",
            )
        )
    if comparison.interrupted:
        reasons.append(
            Reason(
                code="interrupted",
                verdict="suspect",
                numbers={"blocks_done": plan.blocks_done, "blocks": plan.blocks},
                text=f"interrupted after {plan.blocks_done} of {plan.blocks} blocks",
                advice="type the same command to go on",
            )
        )
    elif plan.blocks_done == 0 and not any(reason.verdict == "invalid" for reason in reasons):
        reasons.append(Reason(code="no_result", verdict="invalid", text="no block was completed"))
    return Validity.of(reasons)


def concerns(reason: Reason, measure: str, load: ArmLoad) -> bool:
    """Whether a reason against an arm speaks against what was concluded on this measure.

    A busy client falsifies a rate and not the CPU of a request; nor the rate, where the server was
    full and the client was not: then it is the server's. Too few responses for a p99 falsify a p99
    alone. What makes a run invalid concerns everything.
    """
    if reason.verdict == "invalid":
        return True
    if reason.code == "few_for_p99":
        return measure in TAILS
    if reason.code == "worker_busy" and measure == RATE.name and load.bound == "server":
        return False
    return reason.code not in _OF_TIME or measure in TIMES


def _biased(floor: Floor, margin: float) -> bool:
    """Whether A/A shows a difference, and one that the comparison would not call none."""
    shown = not floor.low <= 1 <= floor.high
    return shown and stats.beyond(floor.ratio, 1 + margin)


def rows(comparison: Comparison) -> list[Ratio]:
    """Every pair that was compared, on every measure; a pair may be in it more than once."""
    announced = [row for question in comparison.announced for row in question.pairs]
    return [*comparison.ratios, *comparison.ranking.pairs, *announced]


def row_of(rows: Iterable[Ratio], measure: str, arm: str, to: str) -> Ratio | None:
    """The first row of a measure that has these two arms, as the ratio of `arm` to `to`."""
    for row in rows:
        if row.measure == measure and (row.arm, row.to) == (arm, to):
            return row
        if row.measure == measure and (row.to, row.arm) == (arm, to) and row.ratio:
            return row.turned()
    return None


def claims(comparison: Comparison) -> bool:
    """Whether anything was found, though it be that there is no difference."""
    return any(row.finding in CLAIMS for row in rows(comparison))
