"""What was found, in at most twenty words: the experiment's own question first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trilane.lab.analysis import stats, verdict
from trilane.lab.experiment import form
from trilane.lab.model.answer import MOST_WORDS
from trilane.lab.model.arm import ENGINE
from trilane.lab.model.comparison import Announced, Comparison, JudgedArm, Ratio
from trilane.lab.model.measures import BY_NAME, CAPACITY, RATE, Measure
from trilane.lab.model.validity import Reason
from trilane.quantity import time_text

NO_BLOCK = "No answer: no block was completed."
"""Of what was ended before anything could be compared."""

# Whoever needs less of these is the faster one; of other measures the sentence says which it is.
_SPEED = frozenset({"requests_per_s", "elapsed_s", "total_s", "repetition_s", "ns_per_op"})
_FEW_PAIRS = 2
PAIR = 2
"""With so many arms their comparison is the question, whatever else was asked."""
UNLIKE = {"different_bodies": "bodies", "different_statuses": "statuses"}
"""What arms received that are not ranked, by the code of the reason."""


def of_comparison(
    comparison: Comparison, different: Reason | None = None, asked: form.Answer | None = None
) -> str:
    """The headline of one comparison; `different` as for `verdict.validity`."""
    told = _Told.of(comparison)
    arms = comparison.arms
    if comparison.plan.blocks_done == 0:
        return NO_BLOCK
    if len(arms) == 1:
        return _alone(told, arms[0])
    if different is not None and all(row.finding == "invalid" for row in told.rows):
        unlike = UNLIKE.get(different.code, "responses")
        return f"No ranking: the arms received different {unlike}."
    said = None if asked is None or len(arms) <= PAIR else _asked(told, asked)
    return said or _of_all(told)


def _of_all(told: _Told) -> str:
    """What was found of all arms."""
    if told.comparison.plan.blocks_done < stats.LEAST_BLOCKS and not told.claims:
        return told.too_few
    return _ranked(told) if told.comparison.ranking.pairs else _against_baseline(told)


def fitting(*candidates: str) -> str:
    """The first that is short enough, else the last: from the fullest to the shortest."""
    for text in candidates:
        if len(text.split()) <= MOST_WORDS:
            return text
    return candidates[-1]


def names(arms: Sequence[JudgedArm]) -> dict[str, str]:
    """What arms are called in a sentence: their titles without the parts that all of them have."""
    return _apart(arms)[1]


def _apart(arms: Sequence[JudgedArm]) -> tuple[list[str], dict[str, str]]:
    """The parts of their titles that all arms have, and each title without these."""
    parts = {arm.name: arm.title.split(", ") for arm in arms}
    shared = [part for part in parts[arms[0].name] if all(part in each for each in parts.values())]
    short = {
        name: ", ".join(part for part in title if part not in shared)
        for name, title in parts.items()
    }
    if len(arms) == 1 or not all(short.values()) or len({*short.values()}) < len(arms):
        return [], {arm.name: arm.title for arm in arms}
    return shared, short


def joined(texts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def multiple(value: float) -> str:
    """A ratio: `2.44×`, `130×`."""
    return f"{number(value)}×"


def number(value: float) -> str:
    """A ratio as digits that matter, never as a power of ten."""
    if 0.995 <= value < 1.005:
        return f"{value:.3f}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 10 else f"{value:.2f}"


def interval(row: Ratio) -> str:
    """Of a row that has one: `(1.94–2.80)`."""
    return f"({number(row.low or 0)}–{number(row.high or 0)})"


@dataclass(frozen=True, slots=True)
class _Told:
    """A comparison, and how sentences name its parts."""

    comparison: Comparison
    measure: Measure
    names: Mapping[str, str]

    @classmethod
    def of(cls, comparison: Comparison) -> _Told:
        return cls(comparison, BY_NAME[comparison.ranking.measure], names(comparison.arms))

    @property
    def rows(self) -> list[Ratio]:
        """Every pair that was compared on the measure that decides."""
        return [row for row in verdict.rows(self.comparison) if row.measure == self.measure.name]

    @property
    def claims(self) -> bool:
        return any(row.finding in verdict.CLAIMS for row in self.rows)

    @property
    def too_few(self) -> str:
        done = self.comparison.plan.blocks_done
        what = "1 block" if done == 1 else f"{done} blocks"
        return f"No answer yet: {what} cannot show a difference; it takes {stats.LEAST_BLOCKS}."

    @property
    def margin(self) -> str:
        return f"{100 * self.comparison.plan.margin:.0f} %"

    @property
    def in_measure(self) -> str:
        return f" in {self.measure.label}"

    def named(self, row: Ratio) -> tuple[str, str, str]:
        """The two arms of a pair: what both are among all arms, and what tells one from the other.

        As `hyper: `, `HTTP/2`, `HTTP/1.1`.
        """
        pair = [arm for arm in self.comparison.arms if arm.name in (row.arm, row.to)]
        all_have, _ = _apart(self.comparison.arms)
        shared, called = _apart(pair)
        # Which client it is matters where clients are compared, and here they are not.
        engines = all(arm.client == ENGINE for arm in pair)
        telling = [part for part in shared if part not in all_have]
        telling = telling[1:] if engines and telling and "engine" in telling[0] else telling
        return f"{', '.join(telling)}: " if telling else "", called[row.arm], called[row.to]

    def faster(self, row: Ratio) -> str:
        """`HTTP/2 is faster than HTTP/1.1: 2.44× the requests/s (1.94–2.80)`."""
        better = row.finding == self.measure.better
        both, arm, to = self.named(row)
        if self.measure.name in _SPEED:
            word = "faster" if better else "slower"
            of = f"{multiple(row.ratio or 0)} the {self.measure.label} {interval(row)}"
            return f"{both}{arm} is {word} than {to}: {of}"
        times = f"{multiple(row.ratio or 0)} {interval(row)}"
        if self.measure is CAPACITY:
            return f"{both}{arm} holds a {row.finding} rate than {to}: {times}"
        return f"{both}{arm} has {row.finding} {self.measure.label} than {to}: {times}"

    def times(self, row: Ratio, *, first: bool = True) -> str:
        """`0.41× the elapsed time of HTTP/1.1 (0.38–0.45)`; later ones leave the measure out."""
        of = ""
        if self.measure.name in _SPEED and self.measure is not RATE:
            of = f"the {self.measure.label} of " if first else "of "
        return f"{multiple(row.ratio or 0)} {of}{self.names[row.to]} {interval(row)}"

    @property
    def most(self) -> str:
        """`is fastest`, `has the lowest p99 latency`."""
        if self.measure.name in _SPEED:
            return "is fastest"
        if self.measure is CAPACITY:
            return "holds the highest rate"
        degree = "highest" if self.measure.better == "higher" else "lowest"
        return f"has the {degree} {self.measure.label}"

    def none_shown(self, row: Ratio) -> str:
        """Of a pair that is undecided."""
        both, arm, to = self.named(row)
        if row.low is None:
            return f"{arm} and {to} could not be compared{self.in_measure}."
        pair = f"{both}{'no' if both else 'No'} difference between {arm} and {to} was shown"
        if row.vetoed:
            return fitting(
                f"{pair}: {multiple(row.ratio or 0)} is within what arms differ from themselves.",
                f"{pair} {interval(row)}.",
            )
        if self.comparison.plan.blocks_done < stats.LEAST_BLOCKS:
            return self.too_few
        more = f"; some {row.more_blocks:,} more blocks might" if row.more_blocks else ""
        span = f"({number(row.low)}–{number(row.high or 0)}×)"
        return fitting(
            f"{pair}{self.in_measure} {span}{more}.", f"{pair} {span}{more}.", f"{pair} {span}."
        )

    def same(self, row: Ratio) -> str:
        """Of a pair without a difference."""
        both, arm, to = self.named(row)
        span = f"({number(row.low or 0)}–{number(row.high or 0)}×)"
        within = f"{arm} and {to} are within {self.margin} of each other"
        none = f"{both}no difference" if both else "No difference"
        return fitting(f"{none}: {within}{self.in_measure} {span}.", f"{none}: {within} {span}.")

    def pair(self, row: Ratio) -> str:
        """What was found of one pair."""
        if row.finding in ("higher", "lower"):
            return f"{self.faster(row)}."
        if row.finding == "no_difference":
            return self.same(row)
        if row.finding == "undecided":
            return self.none_shown(row)
        broken = [self.names[arm.name] for arm in _invalid(self.comparison)]
        ran = [name for name in broken if name in (self.names[row.arm], self.names[row.to])]
        why = f": {joined(ran)} ran invalid" if ran else ""
        return f"{self.names[row.arm]} and {self.names[row.to]} cannot be compared{why}."


def _invalid(comparison: Comparison) -> list[JudgedArm]:
    return [arm for arm in comparison.arms if arm.validity.verdict == "invalid"]


def _alone(told: _Told, arm: JudgedArm) -> str:
    if arm.validity.verdict == "invalid":
        return f"No result: {arm.title} ran invalid."
    summary = arm.summary[told.measure.name]
    if summary.median is None:
        return NO_BLOCK
    span = ""
    if summary.low is not None and summary.high is not None:
        span = f" ({_bare(summary.low)}–{_bare(summary.high)})"
    why = "the server offers nothing else" if told.comparison.absent else "nothing else was asked"
    value = f"{_bare(summary.median)} requests/s{span}"
    if told.measure is not RATE:
        value = f"{quantity(summary.median, told.measure)} {told.measure.label}"
    return f"{arm.title} reached {value}; {why}."


def _bare(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def quantity(value: float, measure: Measure) -> str:
    """A value with its unit."""
    if measure.unit == "s":
        return time_text(float(f"{value:.3g}"))
    unit = {"1": "", "us": " µs"}.get(measure.unit, f" {measure.unit}")
    return f"{_bare(value)}{unit}"


def _ranked(told: _Told) -> str:
    """Who leads of a few arms, by how much, and who cannot be told from it."""
    comparison = told.comparison
    arms = [arm for arm in comparison.arms if arm.validity.verdict != "invalid"]
    broken = [told.names[arm.name] for arm in _invalid(comparison)]
    if len(arms) < PAIR:
        return fitting(
            f"No ranking: {joined(broken)} ran invalid.",
            f"No ranking: {len(broken)} of {len(comparison.arms)} arms ran invalid.",
        )
    valid = {arm.name for arm in arms}
    pairs = [row for row in comparison.ranking.pairs if {row.arm, row.to} <= valid]
    if len(pairs) == 1 and not broken:
        return _leading(told, pairs[0], told.pair(pairs[0]))
    if pairs and all(row.finding == "no_difference" for row in pairs):
        return f"No difference: all {len(arms)} arms are within {told.margin}{told.in_measure}."
    best, beaten = _best(told, arms, pairs)
    if not beaten:
        more = [row.more_blocks for row in pairs if row.more_blocks]
        might = f"; some {min(more):,} more blocks might" if more else ""
        none = f"No difference between {len(arms)} arms was shown{told.in_measure}"
        decided = [row for row in pairs if row.finding in ("higher", "lower")]
        also = f"; {told.faster(decided[0])}" if decided else ""
        return fitting(f"{none}{also}{might}.", f"{none}{might}.")
    rivals = [
        row
        for row in (_from(row, best) for row in pairs if best in (row.arm, row.to))
        if row.to not in {each.to for each in beaten}
    ]
    ran = f"; {joined(broken)} ran invalid" if broken else ""
    return _leading(told, beaten[0], _of_best(told, best, beaten, rivals, ran))


def _of_best(
    told: _Told, best: str, beaten: Sequence[Ratio], rivals: Sequence[Ratio], ran: str
) -> str:
    """The best arm, whom it beats, and `rivals`, whom nothing tells it from."""
    name, nearest = told.names[best], _nearest(beaten)
    if not rivals:
        # METHOD §3: no arm has won where another ran invalid.
        most = "leads" if ran else told.most
        by = " and ".join(told.times(row, first=n == 0) for n, row in enumerate(beaten))
        return fitting(
            f"{name} {most}: {by}{ran}.",
            f"{name} {most}: {by}.",
            f"{name} {most}, next {told.times(nearest)}.",
        )
    unlike = joined([told.names[row.to] for row in rivals])
    span = f" ({number(rivals[0].low or 0)}–{number(rivals[0].high or 0)}×)"
    span = span if len(rivals) == 1 and rivals[0].low is not None else ""
    over = " and ".join(told.times(row, first=n == 0) for n, row in enumerate(beaten))
    lead = f"{name} leads: {over}"
    return fitting(
        f"{lead}; {unlike} cannot be told from it{span}{ran}.",
        f"{lead}; {unlike} cannot be told from it.",
        f"{name} leads {joined([told.names[row.to] for row in beaten])}, not {unlike}{span}.",
        f"{name} leads {len(beaten)} arms; {len(rivals)} cannot be told from it.",
    )


def _nearest(rows: Sequence[Ratio]) -> Ratio:
    return min(rows, key=lambda row: abs(math.log(row.ratio or 1.0)))


def _from(row: Ratio, arm: str) -> Ratio:
    """The pair, with this arm as the one that is divided."""
    return row if row.arm == arm or not row.ratio else row.turned()


def _best(
    told: _Told, arms: Sequence[JudgedArm], pairs: Sequence[Ratio]
) -> tuple[str, list[Ratio]]:
    """The arm that nobody beats and that beats most, and its pairs with those that it beats."""
    better = told.measure.better
    beats: dict[str, list[Ratio]] = {arm.name: [] for arm in arms}
    lost: set[str] = set()
    for row in pairs:
        if row.finding not in ("higher", "lower"):
            continue
        won = row if row.finding == better else row.turned()
        beats[won.arm].append(won)
        lost.add(won.to)
    sign = 1 if better == "higher" else -1

    def place(arm: JudgedArm) -> tuple[int, float]:
        median = arm.summary[told.measure.name].median
        return len(beats[arm.name]), -math.inf if median is None else sign * median

    leaders = [arm for arm in arms if arm.name not in lost] or list(arms)
    best = max(leaders, key=place).name
    return best, beats[best]


def _leading(told: _Told, row: Ratio, said: str) -> str:
    """Where the client was the limit of the rate it ranks itself, and that is said."""
    if told.measure is not RATE or row.finding not in ("higher", "lower"):
        return said
    ends = {arm.name: arm.load.bound for arm in told.comparison.arms}
    full = any(ends[name] in ("client", "client+server") for name in (row.arm, row.to))
    return fitting(f"With this client as the limit, {said}", said) if full else said


def _against_baseline(told: _Told) -> str:
    """Many arms: how many differ from the baseline, and which the most."""
    comparison, measure = told.comparison, told.measure
    rows = [r for r in comparison.ratios if r.measure == measure.name and r.ratio]
    base = told.names[comparison.baseline]
    better = sorted((r for r in rows if r.finding == measure.better), key=_size)
    worse = [r for r in rows if r.finding in ("higher", "lower") and r not in better]
    degree, other = ("higher", "lower") if measure.better == "higher" else ("lower", "higher")
    words = (f"have {degree} {measure.label}", f"have {other} {measure.label}")
    words = ("are faster", "are slower") if measure.name in _SPEED else words
    if not better and not worse:
        more = [row.more_blocks for row in rows if row.more_blocks]
        might = f"; some {min(more):,} more blocks might" if more else ""
        none = f"No difference from {base} was shown in any of {len(rows)} arms"
        return fitting(f"{none}{told.in_measure}{might}.", f"{none}{might}.", f"{none}.")
    if not better:
        return fitting(
            f"{len(worse)} of {len(rows)} arms {words[1]} than {base}, none the reverse."
        )
    of = f" the {measure.label}" if measure.name in _SPEED and measure is not RATE else ""
    most = (
        f"{told.names[better[0].arm]}: {multiple(better[0].ratio or 0)}{of} {interval(better[0])}"
    )
    count = f"{len(better)} of {len(rows)} arms {words[0]} than {base}"
    also = f"; {len(worse)} the reverse" if worse else ""
    return fitting(
        f"{count}, most {most}{also}.",
        f"{count}, most {most}.",
        f"{len(better)} of {len(rows)} {words[0]} than {base}, most {most}.",
        f"{count}{also}.",
        f"{count}.",
    )


def _size(row: Ratio) -> float:
    return -abs(math.log(row.ratio or 1.0))


def _asked(told: _Told, asked: form.Answer) -> str | None:
    """The answer of the form's own question; None where there is nothing to tell."""
    if asked.measure is not None:
        return _values(told, BY_NAME[asked.measure])
    if isinstance(asked.compare, str):
        named = [each for each in told.comparison.announced if each.name == asked.compare]
        return _question(told, named[0]) if named else None
    if asked.compare is None:
        return None
    row = verdict.row_of(verdict.rows(told.comparison), told.measure.name, *asked.compare)
    return None if row is None else told.pair(row)


def _question(told: _Told, question: Announced) -> str | None:
    """What was found of a comparison by factor."""
    rows = [row for row in question.pairs if row.measure == told.measure.name and row.low]
    if not rows:
        return None
    if len(rows) == 1:
        return told.pair(rows[0])
    differ = sorted((row for row in rows if row.finding in ("higher", "lower")), key=_size)
    if not differ:
        same = sum(row.finding == "no_difference" for row in rows)
        equal = f"; {same} are within {told.margin}" if same else ""
        return f"No difference was shown in {len(rows)} pairs{told.in_measure}{equal}."
    count = f"{len(differ)} of {len(rows)} pairs differ"
    most = told.faster(differ[0])
    candidates = [f"{count}, most {most}.", f"{count}{told.in_measure}."]
    if len(rows) <= _FEW_PAIRS:
        candidates.insert(0, "; ".join(told.pair(row).removesuffix(".") for row in rows) + ".")
    return fitting(*candidates)


def _values(told: _Told, measure: Measure) -> str | None:
    """What a measure is of each arm."""
    found = [
        (told.names[arm.name], summary.median)
        for arm in told.comparison.arms
        if (summary := arm.summary.get(measure.name)) and summary.median is not None
    ]
    if not found:
        return None
    label = f"{measure.label[0].upper()}{measure.label[1:]}"
    each = ", ".join(f"{name} {quantity(value, measure)}" for name, value in found)
    low, high = (pick(value for _, value in found) for pick in (min, max))
    span = f"{quantity(low, measure)} to {quantity(high, measure)}"
    return fitting(f"{label}: {each}.", f"{label}: {span} over {len(found)} arms.")


def over_points(
    answer: form.Answer | None, baseline: str, made: Sequence[Comparison], what: str
) -> str:
    """The headline over a sweep, whose points are called `what`, such as `networks`."""
    measured = [each for each in made if each.plan.blocks_done]
    if not measured:
        return NO_BLOCK
    if len(measured) == 1:
        return measured[0].said.headline
    pair = counted_pair(answer, baseline, measured)
    if pair is None:
        return _winners(measured, what)
    found = [(each, row_at(each, pair)) for each in measured]
    told, known = next(
        ((_Told.of(each), row) for each, row in found if row is not None),
        (_Told.of(measured[0]), None),
    )
    both, arm, to = ("", *pair) if known is None else told.named(known)
    counts = Counter(_kind(row, told) for _, row in found)
    rest = ", ".join(
        f"{counts[kind]} {kind}" for kind in ("equal", "undecided", "invalid") if counts[kind]
    )
    tail = f"; {rest}" if rest else ""
    at = "on" if what == "networks" else "at"
    of = f"of {len(measured)} {what}"
    if counts["better"]:
        lost = f", loses {at} {counts['worse']}" if counts["worse"] else ""
        who, where = f"{both}{arm} beats {to}", f"{at} {counts['better']} {of}{lost}"
    elif counts["worse"]:
        who, where = f"{both}{arm} loses to {to}", f"{at} {counts['worse']} {of}"
    else:
        none = f"{both}{'no' if both else 'No'} difference between {arm} and {to} was shown"
        return fitting(
            f"{none}{told.in_measure} {at} any {of}{tail}.",
            f"{none} {at} any {of}{tail}.",
            f"{none} {at} any {of}.",
        )
    whole = f"{who}{told.in_measure} {where}"
    return fitting(f"{whole}{tail}.", f"{whole}.", f"{who} {where}{tail}.", f"{who} {where}.")


def points_by_finding(
    answer: form.Answer | None, baseline: str, points: Sequence[tuple[str, Comparison]]
) -> list[str]:
    """Which points the counted pair was better, worse and undecided at, a sentence each."""
    measured = [each for each in points if each[1].plan.blocks_done]
    pair = counted_pair(answer, baseline, [made for _, made in measured]) if measured else None
    if pair is None:
        return [f"{capital(at)}{made.said.headline}" for at, made in measured]
    told = _Told.of(measured[0][1])
    arm = told.names.get(pair[0], pair[0])
    found: dict[str, list[str]] = {}
    for at, made in measured:
        where = at.removeprefix("at ").removesuffix(": ")
        found.setdefault(_kind(row_at(made, pair), told), []).append(where)
    return [
        f"{arm} {words}: {'; '.join(found[kind])}."
        for kind, words in (
            ("better", "is better at"),
            ("worse", "is worse at"),
            ("equal", "is equal at"),
            ("undecided", "is undecided at"),
            ("invalid", "is invalid at"),
        )
        if kind in found
    ]


def capital(text: str) -> str:
    """Only our own words begin a sentence in capitals: names of arms stay as they are."""
    return f"At{text[2:]}" if text.startswith("at ") else text


def _kind(row: Ratio | None, told: _Told) -> str:
    """What a point counts as; a difference that is surely within the margin counts as none."""
    if row is None:
        return "invalid"
    if row.finding in ("higher", "lower"):
        ends = (row.low or 0.0, 1 / (row.high or math.inf))
        if min(ends) >= 1 / (1 + told.comparison.plan.margin):
            return "equal"
        return "better" if row.finding == told.measure.better else "worse"
    return {"no_difference": "equal", "undecided": "undecided"}.get(row.finding, "invalid")


def counted_pair(
    answer: form.Answer | None, baseline: str, measured: Sequence[Comparison]
) -> tuple[str, str] | None:
    """The pair that is counted over points: the one asked for, or that of two arms."""
    if answer is not None and answer.pair is not None:
        return answer.pair
    arms = [arm.name for arm in measured[0].arms]
    others = [name for name in arms if name != baseline]
    return (others[0], baseline) if len(others) == 1 else None


def row_at(comparison: Comparison, pair: tuple[str, str]) -> Ratio | None:
    """The pair at a point, as the map has it: what was announced is a question of its own."""
    announced = [row for question in comparison.announced for row in question.pairs]
    measure = comparison.ranking.measure
    return verdict.row_of(announced, measure, *pair) or verdict.row_of(
        verdict.rows(comparison), measure, *pair
    )


def _winners(measured: Sequence[Comparison], what: str) -> str:
    """Who leads at how many points of a sweep of several arms."""
    told = _Told.of(measured[0])
    leaders = Counter(name for each in measured if (name := _leader(each)) is not None)
    at = "on" if what == "networks" else "at"
    of = f"of {len(measured)} {what}"
    if not leaders:
        return f"No arm was shown to lead {at} any {of}."
    (first, most), *others = leaders.most_common()
    base = told.names.get(told.comparison.baseline, told.comparison.baseline)
    leads = told.most if told.comparison.ranking.pairs else f"is furthest ahead of {base}"
    said = f"{first} {leads} {at} {most} {of}"
    also = "".join(f", {name} {at} {count}" for name, count in others)
    return fitting(f"{said}{also}.", f"{said}, {len(others)} others at the rest.", f"{said}.")


def _leader(comparison: Comparison) -> str | None:
    """The name of the winner; of many arms, of the one furthest ahead of the baseline."""
    told = _Told.of(comparison)
    if comparison.ranking.pairs:
        name = comparison.ranking.winner
    else:
        ahead = [row for row in told.rows if row.finding == told.measure.better]
        ahead = [row for row in ahead if row.to == comparison.baseline]
        name = min(ahead, key=_size).arm if ahead else None
    return None if name is None else told.names[name]
