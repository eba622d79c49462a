"""How often `trilane ab` is right on this machine: comparisons whose answer is known.

A small server spends its CPU in a loop. Three revisions of it are made: what others are compared
with, one that does the same, and one whose loop turns so much more often that a request costs 8 %
more CPU. How much that is, is measured: a revision with twice the turns tells which part of the
cost is the loop's. Then each of the two is compared with the first one again and again, in turn, by
the code that `trilane ab --budget 'cpu +3%' --until-decided` runs, with short runs in turn.

    make research ARGS='ab 100 [--blocks N] [-d SECONDS] [--new] [--state FOLDER]'

Printed is how often the unchanged revision passes, and how often the costlier one is caught; beside
it the same of comparisons that are simulated with the noise of these runs. The answers lie in
`ab-proof/answers.jsonl` in the state folder: a command that was interrupted goes on there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import numpy as np

from research.ab import server
from research.ab.answers import (
    COSTLIER,
    SCHEMA,
    UNCHANGED,
    Answer,
    BadAnswers,
    Kind,
    Plan,
    holds,
    percent,
    read,
    report,
)
from research.comparisons import recorded_noise
from trilane.lab import ab, study
from trilane.lab.asked import CannotRun, Wanted
from trilane.lab.experiment.bad_experiment import BadExperiment
from trilane.lab.model.lab import LabResult
from trilane.lab.model.measures import SERVER_CPU
from trilane.lab.processes import supervisor
from trilane.lab.processes.launch import find_program
from trilane.lab.processes.supervisor import Late, NotStarted
from trilane.lab.revisions import RevisionFailed
from trilane.lab.storage import store
from trilane.lab.study import Watcher

FOLDER: Final = "ab-proof"
PLANTED: Final = 0.08
"""What a request of the costlier revision costs more."""
BUDGET: Final = 0.03
"""How far head may be above base. A change is caught where the whole interval lies beyond: what
lies between budget and change is left to the noise, 5 points of 8.
"""
MOST: Final = 30
CALIBRATING_BLOCKS: Final = 14
WINDOW_S: Final = 0.2
_WARMUP_S: Final = 0.05
# What the loop of the first revision takes for a request: several times the rest of it.
_LOOP_S: Final = 4e-4
_TURNS_TIMED: Final = 2_000_000
_GIT_S: Final = 60.0
_DIGITS: Final = 5
_DOUBLED: Final = "doubled"
Say: TypeAlias = Callable[[str], None]


class ProofFailed(RuntimeError):
    """The comparisons cannot be made; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The repository of the server, and where everything about it lies."""

    folder: Path
    git: str

    @property
    def repository(self) -> Path:
        """The folder of the repository."""
        return self.folder / "app"

    @property
    def answers(self) -> Path:
        """The file with plan and answers."""
        return self.folder / "answers.jsonl"

    @classmethod
    def at(cls, state: Path) -> Bench:
        """In a state folder.

        Raises:
            ProofFailed: git is not here.
        """
        program = find_program("git")
        if program is None:
            raise ProofFailed("git is not installed on this machine")
        return cls(state / FOLDER, program)

    def begin(self, turns: int) -> None:
        """Make the repository anew, with its first revision and one that does the same."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.repository.mkdir(parents=True)
        source = Path(server.__file__).read_text(encoding="utf-8")
        (self.repository / "server.py").write_text(source, encoding="utf-8")
        self._git("init", "--quiet", "--initial-branch", "main")
        self._commit(turns, "Serve")
        (self.repository / "README").write_text("This changes nothing.\n", encoding="utf-8")
        self.branch(UNCHANGED, turns)

    def branch(self, name: str, turns: int) -> None:
        """Another revision of the first one, with so many turns of the loop."""
        self._git("checkout", "--quiet", "-b", name, "main")
        self._commit(turns, f"Be {name}")
        self._git("checkout", "--quiet", "main")

    def _commit(self, turns: int, subject: str) -> None:
        (self.repository / "work").write_text(f"{turns}\n", encoding="ascii")
        self._git("add", "--all")
        who = ("-c", "user.name=Trilane", "-c", "user.email=trilane@localhost")
        self._git(*who, "-c", "commit.gpgsign=false", "commit", "--quiet", "--message", subject)

    def _git(self, *words: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        try:
            done = supervisor.finished(
                [self.git, *words], limit_s=_GIT_S, cwd=self.repository, environment=kept
            )
        except (Late, NotStarted) as error:
            raise ProofFailed(f"git {words[0]} {error}") from error
        if done.code:
            raise ProofFailed(f"git {' '.join(words)}: {done.why()}")


def compared(
    bench: Bench, head: str, *, blocks: int, until_decided: bool, window_s: float
) -> LabResult:
    """One comparison of a revision with the first one, as `trilane ab` makes it.

    Raises:
        ProofFailed: it cannot be made.
        KeyboardInterrupt: Ctrl-C ended it.
    """
    flags = ab.Flags(
        base="main",
        head=head,
        serve=f"{sys.executable} -I -S server.py {{port}}",
        connections=1,
        duration_s=window_s,
        warmup_s=_WARMUP_S,
        turn_s=ab.TURN_S,
        budget=(f"cpu +{100 * BUDGET:g}%",),
    )
    # Hundreds of comparisons would fill a disk: only their answers are kept.
    shutil.rmtree(bench.folder / "runs", ignore_errors=True)
    try:
        made = ab.experiment(flags, bench.repository, bench.folder, _unheard)
        wanted = Wanted(
            made.experiment,
            ab.FORM,
            blocks=blocks,
            until_decided=until_decided,
            state=bench.folder,
            fresh=True,
            whole=True,
            command=(),
        )
        result = study.run(wanted, Watcher.quiet()).result
    except (BadExperiment, RevisionFailed, CannotRun) as error:
        raise ProofFailed(f"a comparison cannot be made: {error}") from error
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def _unheard(_told: str) -> None:
    """What nobody listens to."""


def calibrated(bench: Bench, blocks: int, window_s: float, say: Say) -> Plan:
    """Make the revisions, so that a request of the costlier one costs `PLANTED` more.

    Raises:
        ProofFailed: the comparison that tells how much cannot be made, or tells nothing.
    """
    begin = time.process_time()
    server.work(_TURNS_TIMED)
    turns = round(_LOOP_S * _TURNS_TIMED / (time.process_time() - begin))
    say(f"calibrating: which part of a request is {turns:,} turns of the loop?")
    bench.begin(turns)
    bench.branch(_DOUBLED, 2 * turns)
    result = compared(
        bench, _DOUBLED, blocks=CALIBRATING_BLOCKS, until_decided=False, window_s=window_s
    )
    [budget] = result.expect
    if budget.ratio is None or budget.ratio <= 1 + PLANTED:
        raise ProofFailed(
            f"twice the work costs {_times(budget.ratio)} the CPU: this machine is too busy to "
            "calibrate the server; try again when it is not"
        )
    # Twice the turns add what the loop costs, and nothing else.
    loop = budget.ratio - 1
    costlier = round(turns * (1 + PLANTED / loop))
    bench.branch(COSTLIER, costlier)
    say(f"the loop is {100 * loop:.1f} % of a request: {costlier:,} turns cost {percent(PLANTED)}")
    return Plan(
        schema=SCHEMA,
        started_at=store.now(),
        budget=BUDGET,
        planted=PLANTED,
        blocks=blocks,
        window_s=window_s,
        turns=turns,
        costlier_turns=costlier,
        loop=loop,
    )


def prove(
    state: Path, count: int, *, blocks: int, window_s: float, fresh: bool, say: Say
) -> tuple[Plan, list[Answer]]:
    """Make `count` comparisons of each kind, those that are there already included.

    Raises:
        ProofFailed: a comparison cannot be made, or the answers there are of another plan.
        KeyboardInterrupt: Ctrl-C ended it; what is there is kept.
    """
    bench = Bench.at(state)
    try:
        there = None if fresh else read(bench.answers)
    except BadAnswers as error:
        raise ProofFailed(str(error)) from error
    if there is None:
        plan, answers = calibrated(bench, blocks, window_s, say), list[Answer]()
        bench.answers.write_bytes(msgspec.json.encode(plan) + b"\n")
    else:
        plan, answers = there
        asked = (blocks, window_s, BUDGET, PLANTED)
        if (plan.blocks, plan.window_s, plan.budget, plan.planted) != asked:
            raise ProofFailed(
                f"the answers in {bench.answers} are of {plan.blocks} blocks, runs of "
                f"{plan.window_s:g} s, a budget of {percent(plan.budget)}: begin anew with --new"
            )
        # What was cut off is written again.
        rows = (msgspec.json.encode(row) + b"\n" for row in (plan, *answers))
        store.write_bytes(bench.answers, b"".join(rows))
        say(f"going on: {len(answers)} comparisons were made before")
    for kind in _left(answers, count):
        begin = time.monotonic()
        result = compared(bench, kind, blocks=blocks, until_decided=True, window_s=window_s)
        answer = _answer(kind, result, time.monotonic() - begin)
        with bench.answers.open("ab") as file:
            file.write(msgspec.json.encode(answer) + b"\n")
        answers.append(answer)
        say(_told(answer, answers, count))
        if answer.ratio is None:
            say(f"  {'; '.join(reason.text for reason in result.validity.reasons)}")
    return plan, answers


def _left(answers: Sequence[Answer], count: int) -> Iterator[Kind]:
    """What is to be compared yet, the kinds in turn."""
    kinds: tuple[Kind, Kind] = (UNCHANGED, COSTLIER)
    made = {kind: sum(answer.kind == kind for answer in answers) for kind in kinds}
    for number in range(count):
        yield from (kind for kind in kinds if made[kind] <= number)


def _answer(kind: Kind, result: LabResult, took_s: float) -> Answer:
    [budget] = result.expect
    comparison = result.points[0].comparison
    try:
        noise = recorded_noise.deviations(comparison, (SERVER_CPU,))[:, 0]
    except ValueError:
        # A run without a result: the comparison is invalid, and its noise is not known.
        noise = np.empty(0)
    return Answer(
        kind=kind,
        met=budget.met,
        ratio=budget.ratio,
        blocks=comparison.plan.blocks_done,
        took_s=round(took_s, 1),
        noise=np.round(noise, _DIGITS).tolist(),
    )


def _told(answer: Answer, answers: Sequence[Answer], count: int) -> str:
    left_s = (2 * count - len(answers)) * float(np.mean([each.took_s for each in answers]))
    said = {True: "met", False: "breached", None: "undecided"}[answer.met]
    said = "invalid" if answer.ratio is None else f"{percent(answer.ratio - 1)}, {said}"
    wrong = "" if answer.right else ": WRONG"
    return (
        f"{len(answers)} of {2 * count}: {answer.kind} {said} after {answer.blocks} blocks{wrong}; "
        f"about {left_s / 60:.0f} min left"
    )


def _times(ratio: float | None) -> str:
    return "nothing that is known of" if ratio is None else f"{ratio:.2f} times"


def main(arguments: Sequence[str]) -> int:
    """Prove, and print what was found; the exit code: 0 where both shares hold, 3 where not."""
    asked = _asked(arguments)
    state = store.state_folder(asked.state).absolute()
    try:
        plan, answers = prove(
            state,
            asked.comparisons,
            blocks=asked.blocks,
            window_s=asked.duration,
            fresh=asked.new,
            say=_say,
        )
    except ProofFailed as error:
        _say(f"ab: {error}")
        return 1
    except KeyboardInterrupt:
        _say("to go on, type the same command again, without --new")
        there = read(Bench.at(state).answers)
        if there is not None and there[1]:
            _print(report(*there))
        return 130
    _print(report(plan, answers))
    return 0 if holds(answers) else 3


def _asked(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ab", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "comparisons", type=int, nargs="?", default=100, metavar="N", help="of each kind"
    )
    parser.add_argument("--blocks", type=int, default=MOST, metavar="N", help="at most, of each")
    parser.add_argument("-d", "--duration", type=float, default=WINDOW_S, metavar="SECONDS")
    parser.add_argument("--new", action="store_true", help="do not go on: begin anew")
    parser.add_argument("--state", type=Path, metavar="FOLDER", help="where the answers are kept")
    asked = parser.parse_args(arguments)
    if asked.comparisons < 1:
        parser.error(f"N {asked.comparisons}: at least one comparison of each kind is made")
    if asked.blocks < ab.LEAST_BLOCKS:
        parser.error(f"--blocks {asked.blocks}: give at least {ab.LEAST_BLOCKS}")
    if not asked.duration > 0:
        parser.error(f"-d {asked.duration:g}: a run takes longer than that")
    return asked


def _print(lines: Sequence[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _say(message: str) -> None:
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()
