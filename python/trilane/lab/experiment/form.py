"""One form of an experiment: what is done, by whom, how often, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trilane.lab.experiment import networks
from trilane.lab.experiment.factors import ByFactor
from trilane.lab.experiment.workload import ArmSpec, Number, Value, Workload

MOST_TIMES = 3
"""A run that ends once it is decided has at most so many times the blocks that it has otherwise."""


@dataclass(frozen=True, slots=True)
class Stats:
    """How often the arms run."""

    blocks: int = 10
    """With `until_decided` the most, once the experiment runs."""
    publish_blocks: int = 20
    """Blocks of `--publish`."""
    aa: bool = True
    """One arm runs twice in every block, the arms in turn, which shows the noise."""
    until_decided: bool = False
    """The run looks at its results and ends once they decide (`analysis/looks`)."""
    within_s: Number | None = None
    """With `until_decided`: after its first look a point gets more blocks only as far as these
    seconds last for all points; None: until the most blocks are made.
    """
    budgets: bool = False
    """What is expected are budgets, announced beforehand and judged each by itself, and a run until
    it is decided ends once they are (`analysis/spending`).
    """


@dataclass(frozen=True, slots=True)
class Sweep:
    """A quantity that is varied; every value is a point, at which the arms are compared."""

    key: str
    """`count`, `in_flight`, `body_bytes`, `rtt` (values in seconds), or `network` (values are
    settings that are added to the arm's).
    """
    values: tuple[Value, ...]
    unit: str
    crossings: tuple[tuple[str, str], ...] = ()
    """Pairs of arms of which one may overtake the other, on the measure that ranks."""


@dataclass(frozen=True, slots=True)
class Published:
    """A pair of numbers of the post; only their ratio is set beside ours."""

    measure: str
    arm: str
    to: str
    values: tuple[Number, Number]
    """The post's number of `arm`, then of `to`, in one unit."""
    at: Value | None = None
    """Value of the sweep."""
    where: str = ""
    """Where in the post it stands."""

    @property
    def ratio(self) -> float:
        """The published ratio of `arm` to `to`."""
        return self.values[0] / self.values[1]


@dataclass(frozen=True, slots=True)
class Expect:
    """A gate: the ratio of `arm` to `to` lies from `low` to `high`, or the run says so."""

    measure: str
    arm: str
    to: str
    low: Number
    high: Number
    at: Value | None = None
    """Value of the sweep; None for every point."""

    @classmethod
    def forbid(cls, measure: str, arm: str, to: str, limit: float, *, above: bool) -> Expect:
        """The gate that a ratio of `arm` to `to` beyond `limit` breaches."""
        if above:
            return cls(measure, arm, to, 0.0, limit)
        # No less than a limit is, seen from the other arm, no more than its inverse.
        return cls(measure, to, arm, 0.0, 1 / limit)


@dataclass(frozen=True, slots=True)
class Answer:
    """What answers the question, and so stands first in the verdict: one of these."""

    compare: tuple[str, str] | str | None = None
    """A pair of arms on the measure that decides, or one of the comparisons by factor."""
    measure: str | None = None
    """What this measure is of each arm, where none of them is to win."""

    @property
    def pair(self) -> tuple[str, str] | None:
        """The pair of arms; None where it is something else."""
        return None if isinstance(self.compare, str) else self.compare


@dataclass(frozen=True, slots=True)
class Quick:
    """What `--quick` changes; None leaves it as it is."""

    blocks: int | None = None
    count: int | None = None
    values: tuple[Value, ...] | None = None
    arms: tuple[str, ...] | None = None
    duration_s: float | None = None
    network: str | None = None
    repeat: int | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """Arms that do one workload, and the statistics and claims that go with them."""

    name: str
    baseline: str
    """The arm that ratios refer to."""
    rank: str
    """The measure that decides."""
    measures: tuple[str, ...]
    """What is shown and compared, in this order."""
    workload: Workload
    arms: tuple[ArmSpec, ...]
    note: str = ""
    margin: Number = 0.05
    """What counts as no difference."""
    pin: bool = False
    """Client and server get CPUs of their own."""
    awake: bool = False
    """Processors are kept from halting between requests, where that is allowed."""
    turn_s: Number | None = None
    """The runs of a block take turns of so many seconds; None: one run follows the other."""
    bodies_differ: bool = False
    """Arms whose bodies differ are ranked all the same."""
    stats: Stats = Stats()
    sweep: Sweep | None = None
    published: tuple[Published, ...] = ()
    expect: tuple[Expect, ...] = ()
    quick: Quick | None = None
    pairs: tuple[tuple[str, str], ...] = ()
    """Pairs of arms that are compared with each other beside all with the baseline."""
    compare: tuple[str, ...] = ()
    """Comparisons by factor, such as `version within client`: each compares those arms that differ
    in nothing else.
    """
    answer: Answer | None = None
    """Which of all comparisons is the form's own question; None: all arms with the baseline, or of
    a few each with each.
    """
    threads: int | None = None
    """Threads of the server, and CPUs of each end where they are pinned; None: one, or half of the
    CPUs where they are not.
    """
    congestion_control: str | None = None
    """Of the engine's TCP sockets; None: CUBIC, as QUIC has it, where HTTP/3 is among the arms."""
    altered: tuple[str, ...] = ()
    """What is asked otherwise than the file says, such as `300 requests instead of 3,000`: another
    question than the post's, whose numbers are then not among `published`.
    """

    shortened: tuple[str, ...] = ()
    """What `--quick` makes shorter, such as `1 s instead of 20 s`, beside which the numbers of the
    post still stand.
    """

    def arm(self, name: str) -> ArmSpec:
        """The arm of that name; KeyError when there is none."""
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise KeyError(name)

    def at(self, value: Value) -> Form:
        """One point of the sweep, as a form without one.

        It has the arms that run there. Where the baseline does not, the first that does takes
        its place.

        Raises:
            ValueError: the form has no sweep.
        """
        if self.sweep is None:
            raise ValueError(f"form {self.name} has no sweep")
        arms = tuple(replace(arm, at=None) for arm in _running(self.arms, value))
        workload = self.workload
        match self.sweep.key:
            case "count":
                workload = replace(workload, count=int(value))
            case "in_flight":
                workload = replace(workload, in_flight=int(value))
                arms = tuple(arm.with_in_flight(int(value)) for arm in arms)
            case "body_bytes":
                workload = workload.with_body_bytes(int(value))
            case "rtt":
                more = networks.of_rtt(float(value))
                arms = tuple(
                    replace(arm, network=networks.joined(arm.network, more)) for arm in arms
                )
            case "network":
                arms = tuple(
                    replace(arm, network=networks.joined(arm.network, str(value))) for arm in arms
                )
        point = replace(
            self,
            arms=arms,
            workload=workload,
            sweep=None,
            published=tuple(replace(row, at=None) for row in self.published if row.at == value),
            expect=tuple(replace(row, at=None) for row in self.expect if row.at in {None, value}),
        )
        return _fitting(point)

    def points(self) -> tuple[tuple[Value | None, Form], ...]:
        """The points of the sweep; without a sweep the one point None."""
        if self.sweep is None:
            return ((None, self),)
        return tuple((value, self.at(value)) for value in self.sweep.values)

    def announced(self) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
        """What is compared beside all with the baseline: of each question its name, and its pairs.

        A question that no two arms of this form answer is left out.
        """
        questions = [
            *(
                (text, ByFactor.parse(text).pairs(self.arms, self.baseline))
                for text in self.compare
            ),
            ("arm against arm", self.named_pairs()),
        ]
        return tuple((name, pairs) for name, pairs in questions if pairs)

    def named_pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs that were named one by one; that which answers the question is the first.

        It stands among them without being one of `pairs`, but where it is of the baseline, with
        which all are compared.
        """
        pair = None if self.answer is None else self.answer.pair
        if pair is None or (pair not in self.pairs and self.baseline in pair):
            return self.pairs
        return (pair, *(each for each in self.pairs if each != pair))

    def with_count(self, count: int) -> Form:
        """The form with so many requests in every arm; of a sweep over the count one point."""
        if self.sweep is None or self.sweep.key != "count":
            workload = replace(self.workload, count=count, duration_s=None)
            return _compared(self, replace(self, workload=workload))
        return _compared(self, _with_values(self, (count,), everywhere=True))

    def on_network(self, network: str) -> Form:
        """The form with every arm on this network; settings that a sweep varies are added to it.

        Raises:
            ValueError: the arms are benchmarks, which have client and server in one process.
        """
        if self.workload.kind == "benchmark":
            raise ValueError(f"form {self.name} has client and server in one process")
        arms = tuple(replace(arm, network=network) for arm in self.arms)
        return _compared(self, replace(self, arms=arms))

    def only(self, names: Sequence[str]) -> Form:
        """Only the arms named, in this order; KeyError with the first name that is not an arm.

        Without the baseline the first arm takes its place.
        """
        return _reduced(replace(self, arms=tuple(self.arm(name) for name in names)))

    def quickened(self, named: Sequence[str] = ()) -> Form:
        """The form for `--quick`: as its `quick` says, with what that leaves of the claims.

        Where `quick` has a value of the sweep that the form has not, every arm runs at all of them.
        The `named` arms are those that were asked for. They are kept, whatever `quick` says: one
        that runs at none of its values runs at the first of its own.
        """
        quick, form = self.quick, replace(self, quick=None)
        if quick is None:
            return form
        if quick.arms is not None and not named:
            form = form.only(quick.arms)
        less = {part: getattr(quick, part) for part in ("count", "duration_s", "repeat")}
        told = {part: value for part, value in less.items() if value is not None}
        form = replace(form, workload=replace(form.workload, **told))
        if quick.blocks is not None:
            # So many, and neither more nor longer.
            few = replace(form.stats, blocks=quick.blocks, until_decided=False, within_s=None)
            form = replace(form, stats=few)
        if quick.network is not None:
            arms = tuple(
                replace(arm, network=quick.network) if arm.network else arm for arm in form.arms
            )
            form = replace(form, arms=arms)
        if self.sweep is not None and quick.values is not None:
            if set(quick.values) <= set(self.sweep.values):
                kept = {*quick.values, *_own_values(form, quick.values, named)}
                values = tuple(value for value in self.sweep.values if value in kept)
                form = _with_values(form, values, everywhere=False)
            else:
                form = _with_values(form, quick.values, everywhere=True)
        return _compared(self, replace(form, shortened=_shortened(self.workload, form.workload)))


def _shortened(whole: Workload, quick: Workload) -> tuple[str, ...]:
    said = []
    if quick.duration_s is not None and quick.duration_s != whole.duration_s:
        instead = "" if whole.duration_s is None else f" instead of {whole.duration_s:g} s"
        said.append(f"{quick.duration_s:g} s{instead}")
    if quick.repeat != whole.repeat:
        times = "repetition" if quick.repeat == 1 else "repetitions"
        said.append(f"{quick.repeat:,} {times} instead of {whole.repeat:,}")
    return tuple(said)


def _compared(whole: Form, form: Form) -> Form:
    """`form` with what it asks otherwise than `whole`, and then without the numbers of the post."""
    now, then = form.workload, whole.workload
    said = []
    if now.count is not None and (now.count, now.duration_s) != (then.count, then.duration_s):
        instead = f"{then.duration_s:g} s" if then.count is None else f"{then.count:,}"
        said.append(f"{now.count:,} requests instead of {instead}")
    on = {(arm.network, whole.arm(arm.name).network) for arm in form.arms}
    said += [
        f"the network {other} instead of {network or 'none'}"
        for other, network in sorted(on)
        if other != network
    ]
    sweeps = [each.sweep for each in (form, whole) if each.sweep is not None]
    if sweeps and not set(sweeps[0].values) <= set(sweeps[-1].values):
        values, instead = (
            " and ".join(f"{value:,.12g}" for value in sweep.values) for sweep in sweeps
        )
        said.append(f"{values} {sweeps[0].unit} instead of {instead}")
    if not said:
        return form
    return replace(form, altered=(*whole.altered, *said), published=())


def _own_values(form: Form, values: Sequence[Value], names: Sequence[str]) -> set[Value]:
    """Of each named arm that runs at none of the values the first at which it does."""
    arms = [arm for arm in form.arms if arm.name in names and arm.at is not None]
    return {arm.at[0] for arm in arms if arm.at and set(arm.at).isdisjoint(values)}


def _with_values(form: Form, values: tuple[Value, ...], *, everywhere: bool) -> Form:
    """Other values of the sweep, and the claims that fit.

    `everywhere`: every arm runs at all of them. Else each runs where it ran.
    """
    if everywhere:
        form = replace(form, arms=tuple(replace(arm, at=None) for arm in form.arms))
    return _reduced(replace(form, sweep=form.sweep and replace(form.sweep, values=values)))


def _reduced(form: Form) -> Form:
    """What is left of a form that has fewer arms or values than the one it was made of."""
    form = _fitting(form)
    answered = {name for _, point in form.points() for name, _ in point.announced()}
    compare = tuple(text for text in form.compare if text in answered)
    answer = form.answer
    if answer is not None and isinstance(answer.compare, str) and answer.compare not in compare:
        answer = None
    return replace(form, compare=compare, answer=answer)


def _fitting(form: Form) -> Form:
    """The form with what fits its arms and values; its comparisons by factor stay.

    An arm runs at those of its values that are left, and goes where none is; a value goes where no
    arm runs at it. What is compared and claimed goes with its arms and values.
    """
    sweep, arms = form.sweep, form.arms
    if sweep is not None:
        arms = tuple(arm for each in arms if (arm := _at_values(each, sweep.values)) is not None)
        values = tuple(value for value in sweep.values if _running(arms, value))
        sweep = replace(sweep, values=values)
    names = [arm.name for arm in arms]
    baseline = form.baseline if form.baseline in names or not names else names[0]
    form = replace(form, arms=arms, baseline=baseline, sweep=sweep, quick=_quick_of(form, names))
    there: dict[Value | None, set[str]] = {None: set(names)}
    if sweep is not None:
        there = {value: {arm.name for arm in _running(arms, value)} for value in sweep.values}
        crossings = tuple(
            pair for pair in sweep.crossings if sum(map(set(pair).issubset, there.values())) > 1
        )
        form = replace(form, sweep=replace(sweep, crossings=crossings))

    def together(arm: str, to: str, at: Value | None = None) -> bool:
        both = {value for value, running in there.items() if running.issuperset((arm, to))}
        return bool(both) if at is None else at in both

    pair = None if form.answer is None else form.answer.pair
    return replace(
        form,
        pairs=tuple(pair for pair in form.pairs if together(*pair)),
        answer=None if pair is not None and not together(*pair) else form.answer,
        published=tuple(row for row in form.published if together(row.arm, row.to, row.at)),
        expect=tuple(row for row in form.expect if together(row.arm, row.to, row.at)),
    )


def _at_values(arm: ArmSpec, values: Sequence[Value]) -> ArmSpec | None:
    """The arm at those of its values that are left; None where none is."""
    if arm.at is None:
        return arm
    at = tuple(value for value in arm.at if value in values)
    return replace(arm, at=at) if at else None


def _quick_of(form: Form, names: Sequence[str]) -> Quick | None:
    """What `--quick` changes of a form that has these arms."""
    if form.quick is None or form.quick.arms is None:
        return form.quick
    left = tuple(name for name in form.quick.arms if name in names)
    return replace(form.quick, arms=left or None)


def _running(arms: Sequence[ArmSpec], value: Value) -> tuple[ArmSpec, ...]:
    """The arms that run at a value of the sweep."""
    return tuple(arm for arm in arms if arm.at is None or value in arm.at)
