"""An experiment, run: its servers started, its arms in blocks of random order, every run kept.

`run` leaves the folder `runs/<time>-<experiment>-<form>/` under the state folder
(`lab.keeping.journal` says what is in it) and continues an interrupted one of the same plan.
`from_manifest` makes the runs of a folder again, in the same order.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from msgspec import UNSET

from trilane.lab import names
from trilane.lab.analysis import findings, stats
from trilane.lab.analysis.comparison import Observed
from trilane.lab.analysis.findings import Findings, Point
from trilane.lab.analysis.measures import BY_NAME, SYSCALLS
from trilane.lab.bench import Bench, Unavailable
from trilane.lab.blocks import shuffled
from trilane.lab.clients import syscalls
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.clients.contenders import BadContender
from trilane.lab.clients.executor import Executor, first_path
from trilane.lab.clock import Clock, expected_s
from trilane.lab.design.experiment import Experiment
from trilane.lab.design.form import Form
from trilane.lab.design.workload import ArmSpec
from trilane.lab.keeping import benchmarks, store
from trilane.lab.keeping.journal import Journal, Line
from trilane.lab.keeping.runs import write_result
from trilane.lab.machine import facts as machine
from trilane.lab.model.arm import Arm
from trilane.lab.model.documents import Json
from trilane.lab.model.lab import LabResult
from trilane.lab.model.record import Version
from trilane.lab.model.run import Run
from trilane.lab.model.sample import Sample, ServerCost
from trilane.lab.serving.relay import RelayFailed

_MILLISECONDS = 1e3


class CannotRun(RuntimeError):
    """The experiment could not be run; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for, already parsed."""

    experiment: Experiment
    form: str
    quick: bool = False
    publish: bool = False
    blocks: int | None = None
    seed: int | None = None
    arms: Sequence[str] = ()
    """Only these."""
    count: int | None = None
    """Requests in place of the form's."""
    state: Path | None = None
    fresh: bool = False
    """Begin anew, although an interrupted run of the same plan could go on."""
    command: Sequence[str] = ("trilane", "lab", "run")
    """What was typed, to be typed again."""


@dataclass(frozen=True, slots=True)
class Watcher:
    """How an experiment tells what it does."""

    say: Callable[[str], None]
    begin: Callable[[int, int], None]
    """Number of runs in all, and how many of them were made before."""
    step: Callable[[str, int, int, float], None]
    """Title of the arm that starts, its block from 0, the blocks, and the seconds left."""


@dataclass(frozen=True, slots=True)
class Result:
    """A judged experiment and where it lies on disk."""

    result: LabResult
    folder: Path


@dataclass(frozen=True, slots=True)
class Entry:
    """One place in the order."""

    point: int
    block: int
    position: int
    arm: str
    slot: int

    @property
    def key(self) -> tuple[int, int, str, int]:
        """What tells a run from all others."""
        return self.point, self.block, self.arm, self.slot


def chosen(wanted: Wanted) -> Form:
    """The form with everything that was asked applied to it."""
    form = wanted.experiment.forms[wanted.form]
    if wanted.quick and not wanted.arms:
        form = form.quickened()
    elif wanted.quick:
        form = replace(form, quick=form.quick and replace(form.quick, arms=None)).quickened()
    if wanted.count is not None:
        form = form.with_count(wanted.count)
    if wanted.arms:
        form = form.only(wanted.arms)
    blocks = form.stats.publish_blocks if wanted.publish else form.stats.blocks
    # Fewer could never show a difference, whatever the file says.
    blocks = wanted.blocks or max(blocks, stats.LEAST_BLOCKS)
    # What `--quick` would change need not fit what was asked for any more.
    return replace(form, stats=replace(form.stats, blocks=blocks), quick=None)


def order(form: Form, seed: int) -> list[Entry]:
    """Every run, point after point, each block shuffled by `seed`."""
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    planned = []
    for number, (_, point) in enumerate(form.points()):
        for block in range(point.stats.blocks):
            names = [arm.name for arm in point.arms]
            places = shuffled(names, block, chance, aa=point.stats.aa)
            planned += [
                Entry(number, block, position, arm, slot)
                for position, (arm, slot) in enumerate(places)
            ]
    return planned


def fingerprint(experiment: Experiment, form: Form) -> str:
    """Equal for plans of which one can go on where the other stopped."""
    plan = replace(experiment, forms={form.name: form}, path=None).to_dict()
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def run(wanted: Wanted, watcher: Watcher) -> Result:
    """Run an experiment, or go on with it.

    Raises `BadExperiment` where it names a client or a server that is nowhere, `CannotRun` and
    `Unavailable` where nothing can be measured.
    """
    form = chosen(wanted)
    try:
        names.check(wanted.experiment, wanted.form, [arm.name for arm in form.arms])
    except BadContender as error:
        raise CannotRun(str(error)) from error
    state = store.state_folder(wanted.state)
    print_of_plan = fingerprint(wanted.experiment, form)
    earlier = None if wanted.fresh else _interrupted(state, print_of_plan, wanted.seed)
    if earlier is not None:
        watcher.say(f"continuing {earlier.folder}")
        with earlier.locked():
            return _conduct(_Study.again(wanted, form, earlier), watcher)
    kind = f"{wanted.experiment.name}-{wanted.form}"
    journal = Journal(store.new_run_folder(state, kind))
    seed = random.SystemRandom().randrange(1 << 32) if wanted.seed is None else wanted.seed
    study = _Study(wanted, form, journal, seed, store.now(), print_of_plan)
    try:
        with journal.locked():
            return _conduct(study, watcher)
    except BaseException:
        # Nothing was measured: leave nothing behind.
        if not (journal.folder / "manifest.json").exists():
            shutil.rmtree(journal.folder, ignore_errors=True)
        raise


def from_manifest(manifest: Json, state: Path | None) -> Wanted:
    """What was asked for in an earlier experiment, to be asked again with the same order."""
    if manifest.get("kind") != "lab":
        raise CannotRun(
            "this run is no experiment: to make a race again, type its command: "
            f"{manifest.get('command')}"
        )
    try:
        experiment = Experiment.from_dict(manifest["experiment"])
        form = str(manifest["form"])
        blocks = int(manifest["blocks"])
        seed = int(manifest["seed"])
        quick = bool(manifest["quick"])
    except (KeyError, TypeError, ValueError) as error:
        raise CannotRun(f"its manifest does not say what was run: {error!r}") from error
    stats_then = replace(experiment.forms[form].stats, blocks=blocks)
    forms = {form: replace(experiment.forms[form], stats=stats_then, quick=None)}
    return Wanted(
        experiment=replace(experiment, forms=forms),
        form=form,
        quick=quick,
        blocks=blocks,
        seed=seed,
        state=state,
        fresh=True,
        command=shlex.split(str(manifest["command"])),
    )


def _interrupted(state: Path, print_of_plan: str, seed: int | None) -> Journal | None:
    """The latest folder of this plan that is not complete."""
    for folder in sorted((state / "runs").glob("*/"), reverse=True):
        path = folder / "manifest.json"
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if not isinstance(manifest, dict) or manifest.get("fingerprint") != print_of_plan:
            continue
        if manifest.get("status") not in ("running", "interrupted"):
            return None
        if seed is None or manifest.get("seed") == seed:
            return Journal(folder)
    return None


@dataclass(frozen=True, slots=True)
class _Study:
    wanted: Wanted
    form: Form
    journal: Journal
    seed: int
    started_at: str
    fingerprint: str

    @classmethod
    def again(cls, wanted: Wanted, form: Form, journal: Journal) -> _Study:
        manifest = journal.manifest()
        return cls(
            wanted,
            form,
            journal,
            int(manifest["seed"]),
            str(manifest["started_at"]),
            str(manifest["fingerprint"]),
        )

    def manifest(self, status: str, planned: Sequence[Entry], facts: Json) -> Json:
        experiment = replace(self.wanted.experiment, forms={self.form.name: self.form})
        return {
            "kind": "lab",
            "status": status,
            "command": self.command,
            "experiment": experiment.to_dict(),
            "form": self.form.name,
            "quick": self.wanted.quick,
            "seed": self.seed,
            "fingerprint": self.fingerprint,
            "started_at": self.started_at,
            "machine": facts,
            "blocks": self.form.stats.blocks,
            "order": [
                [entry.point, entry.block, entry.position, entry.arm, entry.slot]
                for entry in planned
            ],
        }

    @property
    def command(self) -> str:
        wanted = self.wanted
        seed = () if wanted.seed is not None else ("--seed", str(self.seed))
        return shlex.join([*wanted.command, *seed])


def _conduct(study: _Study, watcher: Watcher) -> Result:
    form, journal = study.form, study.journal
    with contextlib.ExitStack() as stack:
        bench = stack.enter_context(Bench.opened(form, study.wanted.state, journal, watcher.say))
        form = _present(study, form, bench, watcher)
        planned = order(form, study.seed)
        facts = {**machine.facts(), "pinning": bench.pinning}
        journal.open(study.manifest("running", planned, facts))
        done = journal.lines()
        wanted_keys = {entry.key for entry in planned}
        done = [line for line in done if _key(line) in wanted_keys]
        interrupted = _make_runs(study, form, bench, planned, done, watcher)
        servers = bench.facts()
    file = benchmarks.write(journal.folder, [line.sample.run for line in done if line.sample.run])
    made = findings.result(
        Findings(
            experiment=study.wanted.experiment,
            form=form,
            quick=study.wanted.quick,
            points=_points(study, form, planned, done, bench, facts, servers, interrupted),
            command=study.command,
            replay=shlex.join(["trilane", "lab", "replay", journal.folder.name]),
            started_at=study.started_at,
            seed=study.seed,
            machine=facts,
            interrupted=interrupted,
            skipped=bench.skipped,
            benchstat=UNSET if file is None else benchmarks.benchstat(file, bench.modules()),
        )
    )
    write_result(journal.folder, made)
    status = "interrupted" if interrupted else "complete"
    journal.write_manifest(study.manifest(status, planned, facts))
    return Result(made, journal.folder)


def _present(study: _Study, form: Form, bench: Bench, watcher: Watcher) -> Form:
    """The arms that can run here; the others are kept in `bench.skipped` with their reason."""
    skipped = dict(bench.skipped)
    usable = [arm for arm in form.arms if arm.name not in skipped]
    watcher.say(f"trying {len(usable)} arms")
    _, point = form.points()[0]
    for arm in usable:
        try:
            problem = _executor(point, arm, bench, study.journal).probe()
        except (RunFailed, Unavailable) as error:
            problem = str(error)
        if problem is not None:
            bench.skip(arm.name, problem)
    skipped = dict(bench.skipped)
    left = [arm.name for arm in form.arms if arm.name not in skipped]
    for name, reason in skipped.items():
        watcher.say(f"skipped {name}: {reason}")
    if form.baseline in skipped:
        raise CannotRun(f"the baseline {form.baseline} cannot run here: {skipped[form.baseline]}")
    if not left:
        raise CannotRun("no arm can run here")
    return form.only(left) if len(left) < len(form.arms) else form


def _executor(form: Form, arm: ArmSpec, bench: Bench, journal: Journal) -> Executor:
    return Executor(
        form=form,
        arm=arm,
        setting=bench.setting(form, arm),
        command=bench.command(arm),
        folder=journal.logs,
    )


def _make_runs(
    study: _Study,
    form: Form,
    bench: Bench,
    planned: Sequence[Entry],
    done: list[Line],
    watcher: Watcher,
) -> bool:
    """Make every run that is not done yet; whether Ctrl-C ended it."""
    made = {_key(line) for line in done}
    points = [point for _, point in form.points()]
    clock = Clock(
        planned,
        made,
        lambda entry: expected_s(points[entry.point].arm(entry.arm), points[entry.point].workload),
    )
    watcher.begin(len(planned), len(made))
    failed_in_a_row = 0
    try:
        for entry in planned:
            if entry.key in made:
                continue
            point = points[entry.point]
            arm = point.arm(entry.arm)
            watcher.step(arm.title, entry.block, point.stats.blocks, clock.left_s())
            began = time.monotonic()
            sample = _measure(study, point, arm, entry, bench)
            clock.took(entry, time.monotonic() - began)
            line = Line(entry.point, sample)
            study.journal.append(line)
            done.append(line)
            failed_in_a_row = failed_in_a_row + 1 if sample.run is None else 0
            if failed_in_a_row > len(point.arms):
                raise CannotRun(f"every run of a block failed, the last one with: {sample.problem}")
    except KeyboardInterrupt:
        return True
    return False


def _measure(study: _Study, point: Form, arm: ArmSpec, entry: Entry, bench: Bench) -> Sample:
    name = f"{entry.point + 1}-{entry.block + 1:02}-{entry.position + 1}-{arm.name}"
    run: Run | None = None
    server: ServerCost | None = None
    problem = None
    try:
        executor = _executor(point, arm, bench, study.journal)
        bench.begin_run(arm)
        run, server = executor.run(name)
        run = run.doubted(*bench.network_problems(arm))
    except (RunFailed, RelayFailed) as error:
        problem = str(error)
    return Sample(
        arm=arm.name,
        block=entry.block,
        slot=entry.slot,
        position=entry.position,
        run=run,
        problem=problem,
        file=f"runs/{name}.json" if run is not None else None,
        server=server,
    )


def _key(line: Line) -> tuple[int, int, str, int]:
    sample = line.sample
    return line.point, sample.block, sample.arm, sample.slot


def _points(
    study: _Study,
    form: Form,
    planned: Sequence[Entry],
    done: Sequence[Line],
    bench: Bench,
    facts: Json,
    servers: Json,
    interrupted: bool,
) -> list[Point]:
    return [
        Point(
            value,
            point,
            Observed(
                question=study.wanted.experiment.question,
                url=bench.origin_of(point.arm(point.baseline)) + first_path(point),
                command=study.command,
                arms=[arm_of(arm, bench) for arm in point.arms],
                baseline=point.baseline,
                samples=[line.sample for line in done if line.point == number],
                blocks=point.stats.blocks,
                seed=study.seed,
                margin=form.margin,
                duration_s=point.workload.duration_s,
                warmup_s=point.workload.warmup_s,
                started_at=study.started_at,
                machine=facts,
                server=servers,
                interrupted=interrupted,
                order=_order_of(planned, number, point.stats.blocks),
                count=point.workload.count if point.workload.duration_s is None else None,
                measures=[
                    BY_NAME[name]
                    for name in form.measures
                    if name != SYSCALLS.name or syscalls.available()
                ],
                rank=BY_NAME[form.rank],
                announced=point.announced(),
            ),
        )
        for number, (value, point) in enumerate(form.points())
    ]


def _order_of(planned: Sequence[Entry], point: int, blocks: int) -> list[list[str]]:
    return [
        [entry.arm for entry in planned if entry.point == point and entry.block == block]
        for block in range(blocks)
    ]


def arm_of(spec: ArmSpec, bench: Bench) -> Arm:
    """An arm of an experiment as a comparison shows it."""
    return Arm(
        name=spec.name,
        title=spec.title,
        version=cast("Version", spec.version),
        client=spec.client,
        strategy=spec.strategy,
        session=spec.session,
        server=bench.server_name(spec),
        network=network_text(spec.delay_s),
        connections=spec.connections,
        streams=spec.streams,
        in_flight=spec.in_flight,
        message=spec.message,
        mode=spec.mode,
        tls=spec.tls,
    )


def network_text(delay_s: float) -> str:
    """The emulated network for people."""
    return f"{_MILLISECONDS * delay_s:g} ms round trip, emulated" if delay_s else "direct"
