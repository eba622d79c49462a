"""What the numbers allow to say: the winner, the limit that was met, and one sentence."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from trilane.lab.analysis import looks, stats
from trilane.lab.experiment.form import Answer
from trilane.lab.model.comparison import (
    Announced,
    ArmLoad,
    Comparison,
    Floor,
    JudgedArm,
    LoadBound,
    Ratio,
)
from trilane.lab.model.measures import BY_NAME, CLIENT_CPU, RATE, Measure
from trilane.lab.model.sample import Sample
from trilane.lab.model.validity import Reason, Validity
from trilane.quantity import time_text

NO_BLOCK = "No verdict: no block was completed."
"""The verdict on what was ended before anything could be compared."""
BESIDE = "Of all arms: "
"""What stands between the answer of a form's own question and what else was found."""

# METHOD: a worker above 95 % busy is saturated. A server thread shares its core with the kernel's
# network work, some of it not charged to it, so it counts as saturated a little earlier.
_CLIENT_SATURATED = 0.95
_SERVER_SATURATED = 0.90
# Of more arms the ratios to the baseline are told: the pairs are more than a sentence holds.
_ALL_PAIRS_TOLD = 3
# Of a question that the experiment announced so many pairs are told one by one.
_PAIRS_TOLD = 2
_CLAIMS = frozenset({"higher", "lower", "no_difference"})
# With so many arms their comparison is the form's own question, whichever it names.
_NO_OTHERS = 2
# Of many arms so many are told whose difference lies within that to themselves.
_VETOES = 2


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
            )
        )
    if comparison.interrupted:
        reasons.append(
            Reason(
                code="interrupted",
                verdict="suspect",
                numbers={"blocks_done": plan.blocks_done, "blocks": plan.blocks},
                text=f"interrupted after {plan.blocks_done} of {plan.blocks} blocks",
            )
        )
    return Validity.of(reasons)


def _biased(floor: Floor, margin: float) -> bool:
    """Whether A/A shows a difference, and one that the comparison would not call none."""
    shown = not floor.low <= 1 <= floor.high
    return shown and stats.beyond(floor.ratio, 1 + margin)


def sentence(comparison: Comparison, different: Reason | None, asked: Answer | None = None) -> str:
    """The verdict: the answer of the form's own question, then what else was found.

    That is which arm won, by how much, at what cost; and what is suspect.
    """
    first = answer(comparison, asked)
    answered = asked if first is not None and asked is not None else Answer()
    said = _judged(comparison, different, answered.pair)
    if comparison.plan.blocks_done:
        others = [each for each in comparison.announced if each.name != answered.compare]
        told = [_answered(comparison, question) for question in others]
        said = "; ".join([said.removesuffix("."), *filter(None, told)]) + "."
    if reasons := doubts(comparison):
        more = len(reasons) - 1
        rest = f" and {more} more {'reason' if more == 1 else 'reasons'}" if more else ""
        said = f"{said.removesuffix('.')}; suspect because of {reasons[0].text}{rest}."
    return said if first is None else f"{first} {BESIDE}{said}"


def answer(comparison: Comparison, asked: Answer | None) -> str | None:
    """The sentence that answers the form's own question.

    None where the comparison of all arms does, and where there is nothing to tell.
    """
    if asked is None or len(comparison.arms) <= _NO_OTHERS or comparison.plan.blocks_done == 0:
        return None
    if asked.measure is not None:
        said = _values(comparison, BY_NAME[asked.measure])
    elif isinstance(asked.compare, str):
        named = [each for each in comparison.announced if each.name == asked.compare]
        told = [_answered(comparison, question) for question in named]
        said = next((text[0].upper() + text[1:] for text in told if text), None)
    else:
        said = asked.compare and _compared(comparison, asked.compare)
    if said is None:
        return None
    # METHOD §3: whoever reads the answer alone reads this too.
    return f"{said}, but suspect." if doubts(comparison) else f"{said}."


def _values(comparison: Comparison, measure: Measure) -> str | None:
    """What a measure is of each arm."""
    told = []
    for arm in comparison.arms:
        found = arm.summary.get(measure.name)
        if found is None or found.median is None:
            continue
        text = f"{arm.title} {_quantity(found.median, measure)}"
        if found.low is not None and found.high is not None:
            text += f" ({_quantity(found.low, measure)} to {_quantity(found.high, measure)})"
        told.append(text)
    return f"{measure.label[0].upper()}{measure.label[1:]}: {', '.join(told)}" if told else None


def _quantity(value: float, measure: Measure) -> str:
    if measure.unit == "s":
        return time_text(float(f"{value:.3g}"))
    return _short(value) if measure.unit == "1" else f"{_short(value)} {measure.unit}"


def _compared(comparison: Comparison, pair: tuple[str, str]) -> str | None:
    """What was found of a pair of arms on the measure that decides; None where one is not here."""
    named, measure = _Named.of(comparison), _measure(comparison)
    announced = [row for question in comparison.announced for row in question.pairs]
    rows = [*comparison.ratios, *comparison.ranking.pairs, *announced]
    row = row_of(rows, measure.name, *pair)
    if row is None:
        return None
    if row.finding == "undecided":
        return _open(comparison, named, row)
    if row.finding == "no_difference":
        share = 100 * comparison.plan.margin
        return f"No difference beyond {share:.0f} % in {measure.label}: {_loses(named, row)}"
    if row.finding in _CLAIMS:
        return f"{_loses(named, row)} in {measure.label}"
    invalid = [
        each.title
        for each in comparison.arms
        if each.name in pair and each.validity.verdict == "invalid"
    ]
    why = f": {' and '.join(invalid)} ran invalid" if invalid else ""
    both = f"{named[row.arm]} and {named[row.to]}"
    return f"{both} cannot be compared in {measure.label}{why}"


def _open(comparison: Comparison, named: _Named, row: Ratio) -> str:
    """What is to be said of a pair that is undecided."""
    label, done = _measure(comparison).label, comparison.plan.blocks_done
    if row.vetoed:
        return f"Undecided in {label}: {_within_noise(named, row)}"
    if done >= stats.LEAST_BLOCKS:
        return f"Undecided {_against(named, row, f' in {label}')}"
    pair = f"{named[row.arm]} differs from {named[row.to]} in {label}"
    return (
        f"Undecided whether {pair}: {_blocks(done)} cannot show it, it takes {stats.LEAST_BLOCKS}"
    )


def row_of(rows: Iterable[Ratio], measure: str, arm: str, to: str) -> Ratio | None:
    """The first row of a measure that has these two arms, as the ratio of `arm` to `to`."""
    for row in rows:
        if row.measure == measure and (row.arm, row.to) == (arm, to):
            return row
        if row.measure == measure and (row.to, row.arm) == (arm, to) and row.ratio:
            return row.turned()
    return None


def doubts(comparison: Comparison) -> list[Reason]:
    """What makes suspect whatever is claimed: of arms that are ranked beside an invalid one, too.

    Nothing where nothing is claimed.
    """
    if comparison.plan.blocks_done == 0:
        return []
    rows = [*comparison.ratios, *comparison.ranking.pairs]
    rows += [row for question in comparison.announced for row in question.pairs]
    if comparison.validity.verdict == "invalid" and not any(row.finding in _CLAIMS for row in rows):
        return []
    return [reason for reason in comparison.validity.reasons if reason.verdict == "suspect"]


def _answered(comparison: Comparison, question: Announced) -> str | None:
    """What was found of a question that the experiment announced; None where nothing was ranked."""
    named, measure = _Named.of(comparison), _measure(comparison)
    rows = [row for row in question.pairs if row.measure == measure.name and row.low]
    if not rows:
        return None
    if len(rows) <= _PAIRS_TOLD:
        return f"{question.name}: " + ", ".join(f"{_loses(named, r)}{_finding(r)}" for r in rows)
    differ = sorted(
        (row for row in rows if row.finding in ("higher", "lower")),
        key=lambda row: -abs(math.log(row.ratio or 1.0)),
    )
    said = f"{question.name}: {len(differ)} of {len(rows)} pairs differ in {measure.label}"
    if differ:
        said += f", most {_loses(named, differ[0])}"
    same = sum(row.finding == "no_difference" for row in rows)
    if same:
        said += f", {same} show no difference beyond {100 * comparison.plan.margin:.0f} %"
    return said


def _finding(pair: Ratio) -> str:
    """What a ratio that is told by its numbers does not show."""
    return {
        "undecided": f", undecided{f' ({more})' if (more := _more(pair)) else ''}",
        "no_difference": ", no difference",
        "invalid": ", invalid",
    }.get(pair.finding, "")


def _judged(
    comparison: Comparison, different: Reason | None, told: tuple[str, str] | None = None
) -> str:
    """What was found of all arms, without the pair that was `told` before."""
    arms = {arm.name: arm for arm in comparison.arms}
    if len(arms) == 1:
        return _alone(comparison, next(iter(arms.values())))
    if comparison.plan.blocks_done == 0:
        return NO_BLOCK
    if not comparison.ranking.pairs:
        return _against_baseline(comparison, different)
    broken = [arm.title for arm in arms.values() if arm.validity.verdict == "invalid"]
    best = comparison.ranking.winner
    if best is None:
        return _no_winner(comparison, broken, different, told)
    pairs = [pair for pair in comparison.ranking.pairs if best in (pair.arm, pair.to)]
    margins = " and ".join(_advantage(comparison, best, pair) for pair in pairs)
    bounds = {arm.load.bound for arm in arms.values()}
    lead = f"{arms[best].title} won"
    if _measure(comparison) is RATE and bounds & {"client", "client+server"}:
        # A saturated client ranks itself: that is not a property of the server.
        lead = f"Client-bound: this client got most requests/s over {arms[best].title}"
    if doubts(comparison):
        # METHOD §3: whoever reads the name alone reads this too.
        lead += ", but suspect"
    return f"{lead}: {margins}{_cost(comparison, arms, best)}."


@dataclass(frozen=True, slots=True)
class _Named:
    """What a comparison calls its arms, and the level of its intervals."""

    titles: Mapping[str, str]
    level: str

    @classmethod
    def of(cls, comparison: Comparison) -> _Named:
        return cls(titles(comparison), looks.percent(comparison.plan.level))

    def __getitem__(self, arm: str) -> str:
        return self.titles[arm]


def titles(comparison: Comparison) -> dict[str, str]:
    """Name for people of every arm."""
    return {arm.name: arm.title for arm in comparison.arms}


def _measure(comparison: Comparison) -> Measure:
    return BY_NAME[comparison.ranking.measure]


def _alone(comparison: Comparison, arm: JudgedArm) -> str:
    title = arm.title
    if arm.validity.verdict == "invalid":
        return f"{title} ran alone and invalid: {arm.validity.reasons[0].text}."
    measure = _measure(comparison)
    value = arm.summary[measure.name].median
    if value is None:
        return NO_BLOCK
    why = "nothing else was asked for"
    if comparison.absent:
        why = "the server offers nothing to compare it with"
    if measure is RATE:
        return f"{title} reached {value:,.0f} requests/s; {why}."
    return f"{title}: {measure.label} {_short(value)} {measure.unit}; {why}."


def _against_baseline(comparison: Comparison, different: Reason | None) -> str:
    """Many arms: what each is against the baseline, the best and the worst told."""
    named, measure = _Named.of(comparison), _measure(comparison)
    rows = [r for r in comparison.ratios if r.measure == measure.name and r.ratio]
    better = [r for r in rows if r.finding == measure.better]
    worse = [r for r in rows if r.finding in ("higher", "lower") and r not in better]
    base = named[comparison.baseline]
    vetoed = [_within_noise(named, row) for row in rows if row.vetoed]
    unlike = [] if different is None else [different.text]
    also = "".join(f"; {why}" for why in [*unlike, *vetoed[:_VETOES]])
    if not better and not worse:
        done = comparison.plan.blocks_done
        if done < stats.LEAST_BLOCKS:
            return (
                f"No difference shown to {base} in {measure.label}: {_blocks(done)} cannot show "
                f"one, it takes {stats.LEAST_BLOCKS}{also}."
            )
        return (
            f"No difference shown: no arm differs from {base} in {measure.label}{also}"
            f"{_more_for_all(rows)}."
        )
    direction = measure.better == "higher"
    best = sorted(better, key=lambda row: row.ratio or 0.0, reverse=direction)
    worst = sorted(worse, key=lambda row: row.ratio or 0.0, reverse=not direction)
    parts = [
        f"{len(some)} of {len(rows)} arms {verb} {base} in {measure.label}, {most} "
        f"{named[some[0].arm]} at {_interval(named, some[0])}"
        for some, verb, most in ((best, "beat", "most"), (worst, "trail", "furthest"))
        if some
    ]
    return "; ".join(parts) + also + _more_for_all(rows) + "."


def _more_for_all(rows: Sequence[Ratio]) -> str:
    """About how many more blocks would decide what is undecided of many arms."""
    more = sorted(row.more_blocks for row in rows if row.more_blocks)
    if len(more) < 2:
        return f"; about {more[0]:,} more {_noun(more[0])} would decide the rest" if more else ""
    return (
        f"; about {more[0]:,} more {_noun(more[0])} would decide the first of {len(more)} "
        f"undecided arms, about {more[-1]:,} all"
    )


def _no_winner(
    comparison: Comparison,
    broken: Sequence[str],
    different: Reason | None,
    told: tuple[str, str] | None,
) -> str:
    plan, named = comparison.plan, _Named.of(comparison)
    others = [pair for pair in comparison.ranking.pairs if {pair.arm, pair.to} != {*(told or ())}]
    decided = [pair for pair in others if pair.finding in ("higher", "lower", "no_difference")]
    if len(comparison.arms) > _ALL_PAIRS_TOLD:
        decided = [pair for pair in decided if pair.to == comparison.baseline]
    parts = [_loses(named, pair) for pair in decided]
    if broken:
        head = f"No winner: {' and '.join(broken)} ran invalid and cannot be ranked"
    elif different is not None:
        head = f"No winner: {different.text}"
    else:
        pairs = comparison.ranking.pairs
        if plan.blocks_done < stats.LEAST_BLOCKS:
            head = (
                f"No winner: {_blocks(plan.blocks_done)} cannot show one, "
                f"it takes {stats.LEAST_BLOCKS}"
            )
        elif all(pair.finding == "no_difference" for pair in pairs):
            label = _measure(comparison).label
            equal = [f"{named[p.arm]} {_interval(named, p)} of {named[p.to]}" for p in pairs]
            return f"No difference beyond {100 * plan.margin:.0f} % in {label}: {', '.join(equal)}."
        else:
            open_pairs = [pair for pair in others if pair.finding == "undecided"]
            undecided = [_against(named, pair) for pair in open_pairs if not pair.vetoed]
            heads = [f"undecided {' and '.join(undecided)}"] if undecided else []
            heads += [_within_noise(named, pair) for pair in open_pairs if pair.vetoed]
            head = f"No winner: {'; '.join(heads) or 'the best arms do not differ'}"
    return "; ".join([head, *parts]) + "."


def _blocks(count: int) -> str:
    return f"{count} {_noun(count)}"


def _noun(count: int) -> str:
    return "block" if count == 1 else "blocks"


def _against(named: _Named, pair: Ratio, measure: str = "") -> str:
    seen = "nothing to compare" if pair.low is None else f"{pair.low:.2f}–{pair.high:.2f}×"
    told = "; ".join(filter(None, [seen, _more(pair)]))
    return f"whether {named[pair.arm]} differs from {named[pair.to]}{measure} ({told})"


def _more(pair: Ratio) -> str:
    more = pair.more_blocks
    return f"about {more:,} more {_noun(more)} would decide" if more else ""


def _within_noise(named: _Named, pair: Ratio) -> str:
    """Why a difference that the test shows is not claimed."""
    return (
        f"{named[pair.arm]} at {_interval(named, pair)} of {named[pair.to]} is no farther from it "
        f"than the second run of these arms was from their first ({pair.aa:.2f}×)"
    )


def _advantage(comparison: Comparison, best: str, pair: Ratio) -> str:
    named, measure = _Named.of(comparison), _measure(comparison)
    row = pair if pair.arm == best else pair.turned()
    of = "" if measure is RATE else f" the {measure.label} of"
    interval = f"{named.level} interval {row.low:.2f}–{row.high:.2f}"
    return f"{row.ratio:.2f}×{of} {named[row.to]} ({interval})"


def _loses(named: _Named, pair: Ratio) -> str:
    return f"{named[pair.arm]} is at {_interval(named, pair)} of {named[pair.to]}"


def _interval(named: _Named, pair: Ratio) -> str:
    return f"{pair.ratio:.2f}× ({named.level} interval {pair.low:.2f}–{pair.high:.2f})"


def _cost(comparison: Comparison, arms: Mapping[str, JudgedArm], best: str) -> str:
    if _measure(comparison) is CLIENT_CPU:
        return ""
    costs = {
        name: summary.median
        for name, arm in arms.items()
        if (summary := arm.summary.get(CLIENT_CPU.name)) and summary.median is not None
    }
    if len(costs) < len(arms):
        return ""
    mine = costs.pop(best)
    named = titles(comparison)
    others = " and ".join(f"{_short(cost)} over {named[name]}" for name, cost in costs.items())
    return f", at {_short(mine)} µs of client CPU per request against {others}"


def _short(value: float) -> str:
    """Three digits, and never as a power of ten."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
