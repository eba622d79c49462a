"""An experiment, run: its servers started, its arms in blocks of random order, every run kept.

`run` leaves the folder `runs/<time>-<experiment>-<form>/` under the state folder
(`lab.storage.journal` says what is in it) and continues an interrupted one of the same plan. A race
is an experiment as well, in `runs/<time>-race/`.
"""

from __future__ import annotations

import contextlib
import random
import shlex
import shutil
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import NoReturn
from urllib.parse import urlsplit

from msgspec import UNSET, UnsetType
from msgspec.structs import replace as with_fields

from trilane import hiding
from trilane.lab import measuring, names, profiling
from trilane.lab.analysis import bodies, disturbed, findings, looks, paired
from trilane.lab.analysis.findings import Findings, Point
from trilane.lab.analysis.paired import Observed
from trilane.lab.asked import CLUSTER, CannotRun, Entry, Wanted, chosen, fingerprint, order
from trilane.lab.clients import syscalls
from trilane.lab.clients.cluster import refusal
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.clients.contenders import BadContender
from trilane.lab.clients.engine_run import Misused
from trilane.lab.clients.executor import first_path
from trilane.lab.clock import Clock, expected_s
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.experiment.form import Form
from trilane.lab.experiment.workload import ArmSpec
from trilane.lab.machine import facts as machine
from trilane.lab.machine.awake import awake
from trilane.lab.model import manifest as kept
from trilane.lab.model.arm import TITLES, Arm
from trilane.lab.model.comparison import Look
from trilane.lab.model.documents import Json
from trilane.lab.model.lab import LabResult
from trilane.lab.model.manifest import RACE, Manifest, Status
from trilane.lab.model.measures import BY_NAME, SYSCALLS
from trilane.lab.model.profile import Profiles
from trilane.lab.model.run import Run
from trilane.lab.model.sample import Sample
from trilane.lab.model.sent_by import SentBy
from trilane.lab.network.emulated import NetworkFailed
from trilane.lab.storage import benchmarks, store
from trilane.lab.storage.journal import BadJournal, Journal, Line
from trilane.lab.storage.runs import BadRun, read_manifest, write_result
from trilane.lab.testbed import Testbed, Unavailable, arm_of
from trilane.quantity import time_left

_OF_STATUS = "; if that is what you want, type --expect-status CODE"
_SERVER_FAILED = "try: trilane serve, or race a URL: trilane race URL"
_PORTS = {"http": 80, "https": 443}


def _unheard(*_told: object) -> None:
    """What nobody listens to."""


@dataclass(frozen=True, slots=True)
class Watcher:
    """How an experiment tells what it does."""

    say: Callable[[str], None]
    begin: Callable[[int, int], None]
    """Number of runs in all, and how many of them were made before."""
    step: Callable[[str, int, int, float], None]
    """Title of the arm that starts, its block from 0, the blocks, and the seconds left."""
    change: Callable[[int], None] = _unheard
    """So many runs are to be made besides, or, where negative, are not needed any more."""

    @classmethod
    def quiet(cls) -> Watcher:
        """A watcher that tells nothing."""
        return cls(say=_unheard, begin=_unheard, step=_unheard)


@dataclass(frozen=True, slots=True)
class Result:
    """A judged experiment and where it lies on disk."""

    result: LabResult
    folder: Path


def run(wanted: Wanted, watcher: Watcher) -> Result:
    """Run an experiment, or go on with it.

    Raises:
        BadExperiment: it names a client or a server that is nowhere.
        Misused: the engine does not take the flags of a race.
        CannotRun: nothing can be measured, `Unavailable` included.
        Busy: another process makes the same runs.
    """
    form = chosen(wanted)
    try:
        names.check(wanted.experiment, wanted.form, [arm.name for arm in form.arms])
    except BadContender as error:
        raise CannotRun(str(error)) from error
    _check_cluster(wanted, form)
    state = store.state_folder(wanted.state)
    print_of_plan = fingerprint(wanted.experiment, form, wanted.cluster)
    earlier = None if wanted.fresh else _interrupted(state, print_of_plan, wanted.seed)
    if earlier is not None:
        journal, then = earlier
        seed, started_at, before_s = then.seed, then.started_at, then.took_s
        watcher.say(f"continuing {journal.folder}")
    else:
        called = RACE if wanted.experiment.race else f"{wanted.experiment.name}-{wanted.form}"
        journal = Journal(_new_folder(state, called))
        seed = random.SystemRandom().randrange(1 << 32) if wanted.seed is None else wanted.seed
        started_at, before_s = store.now(), 0.0
    study = _Study(wanted, form, journal, seed, started_at, print_of_plan, before_s)
    try:
        with journal.locked():
            return _conduct(study, watcher)
    except store.CannotWrite as error:
        raise CannotRun(_not_kept(error, journal)) from error
    except BaseException:
        # Nothing was measured: leave nothing behind.
        if not (journal.folder / "manifest.json").exists():
            shutil.rmtree(journal.folder, ignore_errors=True)
        raise


def _new_folder(state: Path, called: str) -> Path:
    try:
        return store.new_run_folder(state, called)
    except store.CannotWrite as error:
        raise CannotRun(f"{error}; name a folder that can be written: --state DIR") from error


def _not_kept(error: store.CannotWrite, journal: Journal) -> str:
    """What to do where a run could not be kept."""
    elsewhere = "or keep runs in another folder: --state DIR"
    try:
        finished = len(journal.lines())
    except (OSError, BadJournal):
        finished = 0
    if not finished:
        shutil.rmtree(journal.folder, ignore_errors=True)
        return f"{error}; free space there, {elsewhere}"
    return (
        f"{error}; {finished} finished runs are kept in {journal.folder}: "
        f"free space there and type the same command to go on, {elsewhere}"
    )


def _check_cluster(wanted: Wanted, form: Form) -> None:
    cluster = wanted.cluster
    if cluster is None:
        if wanted.experiment.cluster is not None:
            raise CannotRun(
                f"{wanted.experiment.name} says which machines of a cluster it runs on: say which "
                "cluster: --cluster tls://HOST:8786 (trilane cluster start is one, for trying)"
            )
        return
    problem = refusal(form, servers_elsewhere=cluster.servers_elsewhere)
    if problem is not None:
        raise CannotRun(f"--cluster: {problem}")


def _interrupted(
    state: Path, print_of_plan: str, seed: int | None
) -> tuple[Journal, Manifest] | None:
    """The latest folder of this plan that is not complete, and what was asked of it."""
    for folder in sorted((state / "runs").glob("*/"), reverse=True):
        try:
            manifest = read_manifest(folder)
        except BadRun:
            continue
        if manifest.fingerprint != print_of_plan:
            continue
        if manifest.status not in ("running", "interrupted"):
            return None
        if seed is None or manifest.seed == seed:
            return Journal(folder), manifest
    return None


@dataclass(frozen=True, slots=True)
class _Study:
    wanted: Wanted
    form: Form
    journal: Journal
    seed: int
    started_at: str
    fingerprint: str
    before_s: float | None
    """How long earlier commands worked on it; None where that is not known."""
    began: float = field(default_factory=monotonic)

    @property
    def looks(self) -> list[Look]:
        """When the results are looked at; none where the number of blocks is fixed."""
        plan = self.form.stats
        return looks.planned(plan.blocks, budgets=plan.budgets) if plan.until_decided else []

    def manifest(
        self, status: Status, facts: Json, ended_at: list[int | None] | None = None
    ) -> Manifest:
        experiment = replace(self.shown, forms={self.form.name: self.form})
        took_s = None
        if status != "running" and self.before_s is not None:
            took_s = round(self.before_s + monotonic() - self.began, 3)
        return Manifest(
            schema=kept.SCHEMA,
            kind="race" if experiment.race else "lab",
            status=status,
            command=self.command,
            experiment=hiding.document(experiment.to_dict()),
            form=self.form.name,
            quick=self.wanted.quick,
            seed=self.seed,
            fingerprint=self.fingerprint,
            started_at=self.started_at,
            machine=facts,
            blocks=self.form.stats.blocks,
            looks=self.looks or None,
            ended_at=ended_at,
            took_s=took_s,
        )

    @property
    def shown(self) -> Experiment:
        """The experiment as results show it: without secrets in what was typed."""
        experiment = self.wanted.experiment
        return replace(
            experiment,
            title=hiding.text(experiment.title),
            revisions=tuple(
                with_fields(revision, command=hiding.text(revision.command))
                for revision in experiment.revisions
            ),
        )

    @property
    def replay(self) -> str:
        return shlex.join(["trilane", "lab", "replay", self.journal.folder.name])

    @property
    def command(self) -> str:
        wanted = self.wanted
        if not wanted.command:
            return self.replay
        seed = () if wanted.seed is not None else ("--seed", str(self.seed))
        return hiding.command([*wanted.command, *seed])


def _conduct(study: _Study, watcher: Watcher) -> Result:
    form, journal = study.form, study.journal
    with contextlib.ExitStack() as stack:
        testbed = stack.enter_context(
            Testbed.opened(form, study.wanted.state, journal, watcher.say, study.wanted.cluster)
        )
        form = _present(study, form, testbed, watcher)
        planned = order(form, study.seed)
        facts = {**machine.facts(), "pinning": testbed.pinning}
        if study.wanted.cluster is not None:
            facts[CLUSTER] = study.wanted.cluster.described()
        if form.turn_s is not None:
            facts["turns"] = f"{1e3 * form.turn_s:g} ms, each run with a server of its own"
        if form.bodies_differ:
            facts["bodies"] = "may differ between arms, as was asked for (--bodies differ)"
        if form.awake:
            facts["idle processors"] = stack.enter_context(awake())
        journal.open(study.manifest("running", facts))
        keys = {replace(e, again=again).key for e in planned for again in (False, True)}
        done = _standing(journal.lines(), keys)
        runs = _Runs(study, form, testbed, planned, done, facts)
        unfinished = _make_runs(runs, watcher)
        interrupted = unfinished is not None
        profiles: Profiles | UnsetType = UNSET
        if study.wanted.profile and not interrupted:
            profiles = profiling.profiled(form, testbed, journal.logs, watcher.say)
        servers = testbed.facts()
        sent_by = [testbed.sent_by(point.arms) for _, point in form.points()]
    file = benchmarks.write(journal.folder, [line.sample.run for line in done if line.sample.run])
    made = findings.result(
        Findings(
            experiment=study.shown,
            form=form,
            quick=study.wanted.quick,
            points=runs.points(unfinished or (), servers, sent_by),
            command=study.command,
            replay=study.replay,
            started_at=study.started_at,
            seed=study.seed,
            machine=facts,
            interrupted=interrupted,
            skipped=list(testbed.skipped.items()),
            unmeasured=[row for row in study.form.expect if row not in form.expect],
            benchstat=UNSET if file is None else benchmarks.benchstat(file, testbed.modules()),
        )
    )
    made = with_fields(made, profiles=profiles)
    write_result(journal.folder, made)
    status: Status = "interrupted" if interrupted else "complete"
    ended_at = [point.comparison.plan.ended_at for point in made.points] if study.looks else None
    journal.write_manifest(study.manifest(status, facts, ended_at))
    return Result(made, journal.folder)


def _present(study: _Study, form: Form, testbed: Testbed, watcher: Watcher) -> Form:
    """The arms that can run here; the others are kept in `testbed.skipped` with their reason."""
    race = study.wanted.experiment.race
    skipped = testbed.skipped
    usable = [arm for arm in form.arms if arm.name not in skipped]
    if race and not usable:
        raise CannotRun(f"{next(iter(skipped.values()))}\n{_SERVER_FAILED}")
    _, point = form.points()[0]
    url = _url(point, usable[0], testbed) if race else ""
    watcher.say(f"asking {url} which versions it serves" if race else f"trying {len(usable)} arms")
    tried: dict[str, list[Run]] = {arm.name: [] for arm in usable}
    for arm in usable:
        problem = _problem(study, point, arm, testbed, tried[arm.name])
        if problem is not None:
            skipped[arm.name] = problem
    given = {a.title: bodies.of_arm(arm_of(a, testbed), tried[a.name]) for a in usable}
    if not form.bodies_differ and (why := bodies.suspected(given)) is not None:
        watcher.say(
            f"in the trial run: {why.text}; unless each request gets another body, the measurement "
            "will be invalid (trilane ab --bodies differ compares all but the bytes)"
        )
    left = [arm.name for arm in form.arms if arm.name not in skipped]
    if race:
        return form.only(left) if left else _no_version(form, url, skipped)
    for name, reason in skipped.items():
        watcher.say(f"skipped {name}: {reason}")
    if (hindrance := _uncomparable(study.wanted, form, left, skipped)) is not None:
        raise CannotRun(hindrance)
    return form.only(left) if len(left) < len(form.arms) else form


def _uncomparable(
    wanted: Wanted, form: Form, left: Sequence[str], skipped: Mapping[str, str]
) -> str | None:
    """Why the arms that are left are nothing to compare; None where they are."""
    told = [f"{name} cannot run here: {why}" for name, why in skipped.items()]
    if wanted.whole and skipped:
        return told[0]
    if form.baseline in skipped:
        return f"the baseline {form.baseline} cannot run here: {skipped[form.baseline]}"
    if not left:
        return "no arm can run here"
    if len(left) == 1 < len(form.arms):
        return f"only {left[0]} can run here, so nothing can be compared: {'; '.join(told)}"
    return None


def _problem(
    study: _Study, form: Form, arm: ArmSpec, testbed: Testbed, tried: list[Run]
) -> str | None:
    """Why the arm cannot run here; None where a short try succeeded, which is added to `tried`."""
    race = study.wanted.experiment.race
    try:
        executor = measuring.executor(form, arm, testbed, study.journal.logs)
        testbed.begin_run(arm, 0)
        return executor.probe(_OF_STATUS if race else "", tried)
    except Misused as error:
        if race:
            raise
        return str(error)
    except (RunFailed, NetworkFailed, Unavailable) as error:
        return str(error)


def _no_version(form: Form, url: str, skipped: Mapping[str, str]) -> NoReturn:
    """A race against a target that serves none of its arms."""
    reasons: dict[str, list[str]] = {}
    for arm in form.arms:
        reasons.setdefault(skipped[arm.name], []).append(arm.title)
    if len(reasons) == 1:
        raise CannotRun(next(iter(reasons)))
    told = (f"{' and '.join(titles)}: {why}" for why, titles in reasons.items())
    raise CannotRun(f"{url} answers over no version: {'; '.join(told)}")


def _absent(study: _Study, testbed: Testbed) -> list[tuple[Arm, str]]:
    """The arms of a race that its target does not serve, and why not."""
    if not study.wanted.experiment.race:
        return []
    told = []
    for name, problem in testbed.skipped.items():
        arm = study.form.arm(name)
        parts = urlsplit(testbed.origin_of(arm))
        where = f"{parts.hostname}:{parts.port or _PORTS[parts.scheme]}"
        reason = f"the server does not speak {TITLES[arm.version]} on {where}: {problem}"
        told.append((arm_of(arm, testbed), reason))
    return told


def _standing(lines: Sequence[Line], wanted: Collection[Hashable]) -> list[Line]:
    """Of the runs made before those that need not be made again.

    Failed runs at the end are: what they failed by is what ended the experiment.
    """
    latest = {line.key: line for line in lines if line.key in wanted}
    standing = list(latest.values())
    while standing and standing[-1].sample.run is None:
        standing.pop()
    return standing


@dataclass(frozen=True, slots=True)
class _Runs:
    """The runs of a study: all that are planned, and those that are done."""

    study: _Study
    form: Form
    """With the arms that can run here."""
    testbed: Testbed
    planned: Sequence[Entry]
    done: list[Line]
    machine: Json

    def points(
        self, unfinished: Collection[int], servers: Json, sent_by: Sequence[Mapping[str, SentBy]]
    ) -> list[Point]:
        """What was asked and seen at every point; of each `sent_by` of its arms."""
        points = []
        for number, (value, point) in enumerate(self.form.points()):
            seen = self._observed(number, point, interrupted=number in unfinished)
            seen = replace(seen, server=servers, sent_by=sent_by[number])
            points.append(Point(value, point, seen))
        return points

    def entries(self, number: int, begin: int, end: int | None = None) -> list[Entry]:
        """The runs of the blocks of a point from `begin` on, up to before `end`."""
        last = self.form.stats.blocks if end is None else end
        return [e for e in self.planned if e.point == number and begin <= e.block < last]

    def decided(self, number: int, blocks: int) -> bool:
        """Whether a look after so many blocks of a point ends it; False where none is planned.

        The last look, after all blocks, ends nothing; nor does one that did not end it before an
        interruption: a second look at it is not planned, and blocks may have been made again since.
        """
        if all(look.blocks != blocks for look in self.study.looks[:-1]):
            return False
        if any(sample.block >= blocks for sample in self._samples(number)):
            return False
        _, point = self.form.points()[number]
        observed = self._observed(number, point, interrupted=False)
        return paired.compare(observed).plan.ended_at is not None

    def disturbed(self, number: int, blocks: int) -> list[Entry]:
        """The runs of those of the first blocks of a point that are to be made again at a look."""
        if all(look.blocks != blocks for look in self.study.looks):
            return []
        again = disturbed.blocks(self._samples(number), blocks)
        return [
            replace(e, again=True) for e in self.planned if e.point == number and e.block in again
        ]

    def _samples(self, number: int) -> list[Sample]:
        return [line.sample for line in self.done if line.point == number]

    def _observed(self, number: int, point: Form, *, interrupted: bool) -> Observed:
        study, testbed = self.study, self.testbed
        return Observed(
            question=study.wanted.experiment.question,
            url=_url(point, point.arm(point.baseline), testbed),
            command=study.command,
            arms=[arm_of(arm, testbed) for arm in point.arms],
            baseline=point.baseline,
            samples=disturbed.judged(self._samples(number)),
            blocks=point.stats.blocks,
            seed=study.seed,
            margin=self.form.margin,
            duration_s=point.workload.duration_s,
            warmup_s=point.workload.warmup_s,
            started_at=study.started_at,
            machine=self.machine,
            absent=_absent(study, testbed),
            interrupted=interrupted,
            order=[
                [e.arm for e in self.planned if e.point == number and e.block == block]
                for block in range(point.stats.blocks)
            ],
            count=point.workload.count if point.workload.duration_s is None else None,
            measures=[
                BY_NAME[name]
                for name in self.form.measures
                if name != SYSCALLS.name or syscalls.available()
            ],
            rank=BY_NAME[self.form.rank],
            announced=point.announced(),
            answer=point.answer,
            looks=study.looks,
            bodies_differ=point.bodies_differ,
            budgets=point.expect if point.stats.budgets else (),
        )


class _Making:
    """The runs of a study as they are made: the clock, and who has to know of each."""

    def __init__(self, runs: _Runs, watcher: Watcher) -> None:
        points = [point for _, point in runs.form.points()]
        made = {line.key for line in runs.done}

        def guess(entry: Entry) -> float:
            return expected_s(points[entry.point].arm(entry.arm), points[entry.point].workload)

        self.made = made
        # Of a command that was killed nobody knows how long it worked.
        self.clock = Clock(runs.planned, made, guess, runs.study.before_s or 0.0)
        self._runs = runs
        self._watcher = watcher
        self._points = points
        self._failed_in_a_row = 0
        watcher.begin(len(made | {entry.key for entry in runs.planned}), len(made))

    def announced(self, first: int) -> str:
        """How long it takes until each point has had its first look, and to the end."""
        points = range(len(self._points))
        begins = [e for number in points for e in self._runs.entries(number, 0, first)]
        text = f"about {time_left(self.clock.left_s(begins))} until the first look"
        if len(self._points) > 1:
            text += f" of all {len(self._points)}"
        within = self._runs.form.stats.within_s
        if within is None:
            return f"{text}, {time_left(self.clock.left_s())} at most"
        return (
            f"{text}; then more blocks, as far as they end within {time_left(within)} of the start"
        )

    def fits(self, entries: Sequence[Entry]) -> bool:
        """Whether these will have been made before the time is over."""
        within = self._runs.form.stats.within_s
        return within is None or self.clock.took_s + self.clock.left_s(entries) <= within

    def told_late(self, count: int) -> str:
        """What was left open because the time is over."""
        within = time_left(self._runs.form.stats.within_s or 0.0)
        of = f"{count} of {len(self._points)} points: " if len(self._points) > 1 else ""
        return f"{of}no more blocks fit into {within}: --within TIME gives them more"

    def leave_out(self, entries: Sequence[Entry]) -> None:
        """These are not to be made any more."""
        self.clock.skip(entries)
        self._watcher.change(-sum(entry.key not in self.made for entry in entries))

    def make_again(self, number: int, blocks: int) -> None:
        """Make those of the first blocks of a point again that were disturbed from outside."""
        again = [e for e in self._runs.disturbed(number, blocks) if e.key not in self.made]
        if again:
            self.clock.add(again)
            self._watcher.change(len(again))
            self._watcher.say(_told_again(again))
            self.make(again)

    def make(self, entries: Iterable[Entry]) -> None:
        """Make those that are not done yet; raises `CannotRun` where all of a block fail."""
        left = [entry for entry in entries if entry.key not in self.made]
        for together in measuring.together(left, self._points):
            point = self._points[together[0].point]
            for entry in together:
                title = point.arm(entry.arm).title
                self._watcher.step(title, entry.block, point.stats.blocks, self.clock.left_s())
            study, began = self._runs.study, monotonic()
            samples = measuring.measured(
                point, together, self._runs.testbed, study.journal.logs, study.seed
            )
            took_s = (monotonic() - began) / len(together)
            for entry, sample in zip(together, samples, strict=True):
                self.clock.took(entry, took_s)
                self._keep(entry, sample)
            if self._failed_in_a_row > len(point.arms):
                problem = samples[-1].problem
                raise CannotRun(f"every run of a block failed, the last one with: {problem}")

    def _keep(self, entry: Entry, sample: Sample) -> None:
        line = Line(entry.point, sample)
        self._runs.study.journal.append(line)
        self._runs.done.append(line)
        self.made.add(line.key)
        self._failed_in_a_row = self._failed_in_a_row + 1 if sample.run is None else 0


def _make_runs(runs: _Runs, watcher: Watcher) -> list[int] | None:
    """Make every run that is not done yet and still needed; the points that Ctrl-C left unfinished.

    None where nothing was interrupted. All points reach a look before one goes on to the next:
    where the time ends, it ends for all.
    """
    making = _Making(runs, watcher)
    ends = [look.blocks for look in runs.study.looks] or [runs.form.stats.blocks]
    if runs.study.looks:
        watcher.say(looks.announced(runs.study.looks))
        watcher.say(making.announced(ends[0]))
    left, late = list(range(len(runs.form.points()))), 0
    try:
        for begin, end in pairwise([0, *ends]):
            for number in tuple(left):
                part = runs.entries(number, begin, end)
                rest = runs.entries(number, end)
                if begin > 0 and not making.fits(part):
                    late += 1
                    left.remove(number)
                    making.leave_out([*part, *rest])
                    continue
                making.make(part)
                making.make_again(number, end)
                if not rest:
                    left.remove(number)
                elif runs.decided(number, end):
                    left.remove(number)
                    making.leave_out(rest)
                    watcher.say(f"no more blocks are needed: {len(rest)} runs are left out")
    except KeyboardInterrupt:
        return left
    if late:
        watcher.say(making.told_late(late))
    return None


def _told_again(again: Sequence[Entry]) -> str:
    numbers = sorted({entry.block + 1 for entry in again})
    which = f"block {numbers[0]}" if len(numbers) == 1 else f"blocks {', '.join(map(str, numbers))}"
    return f"making {which} again: other programs or machines disturbed a run"


def _url(form: Form, arm: ArmSpec, testbed: Testbed) -> str:
    """What the arm asks for first, as it is shown."""
    return hiding.text(testbed.origin_of(arm) + first_path(form))
