"""`trilane lab list`: what experiments there are, and how long each of their forms takes here."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING

from trilane import quantity
from trilane.cli import packages
from trilane.cli.ending import FAILED, OK, fail
from trilane.cli.options import Output, State

if TYPE_CHECKING:
    from trilane.lab.asked import Wanted
    from trilane.lab.experiment.experiment import Experiment
    from trilane.lab.model.documents import Json

HELP = """List the experiments, by what they are about, and how long they take here.

The line of an experiment is about the form that runs by default; the others follow, with what to
type for them. Times, with --quick and without, are the median of complete runs of the same plan on
this machine, or where there is none an estimate (≈): from the number of runs, their length, and
what the network takes. Servers that start and clients that are slower than the network come on top.

On a terminal of 120 columns the list has the questions in full, on a narrower one the titles."""

# Columns of a terminal that has room for questions, and for a title beside names and times.
_WIDE, _BESIDE = 120, 72
_OTHERS = "Others"
# Below, a length is estimated in minutes.
_HOURS_FROM = 120


def list_experiments(state: State = None, output: Output = "text") -> int:
    """Run the command; the exit code."""
    packages.need_lab("lab list")
    from trilane.lab.experiment import experiment_file, places
    from trilane.lab.machine.facts import facts
    from trilane.lab.model.documents import machine_id
    from trilane.lab.storage import runs, store

    found: list[Experiment] = []
    problems: list[str] = []
    for path in experiment_file.files(places.experiments()).values():
        try:
            found.append(experiment_file.read(path))
        except (ValueError, OSError) as error:
            problems.append(str(error))
    took = runs.took(store.state_folder(state), machine_id(facts())) if found else {}
    listed = [Listed(each, _durations(each, took)) for each in _grouped(found)]
    if output == "json":
        rows = [each.to_dict() for each in listed]
        sys.stdout.write(json.dumps(rows, ensure_ascii=False) + "\n")
    elif listed:
        _print(listed)
    for problem in problems:
        fail("trilane lab", problem)
    if not found and not problems:
        sys.stderr.write("trilane lab: there are no experiments here\n")
    return FAILED if problems else OK


@dataclass(frozen=True, slots=True)
class Duration:
    """How long an experiment takes."""

    seconds: float
    runs: int
    """The number of earlier runs whose median it is; 0: an estimate."""

    def __str__(self) -> str:
        if self.runs:
            return quantity.time_left(self.seconds)
        minutes = math.ceil(self.seconds / 60)
        return f"≈ {minutes} min" if minutes < _HOURS_FROM else f"≈ {minutes / 60:.1f} h"


@dataclass(frozen=True, slots=True)
class Durations:
    """How long a form takes with `--quick` and without."""

    quick: Duration
    full: Duration

    @property
    def shown(self) -> tuple[str, str]:
        """As the list has them."""
        return str(self.quick), str(self.full)


@dataclass(frozen=True, slots=True)
class Listed:
    """An experiment with the durations of its forms, that which runs by default first."""

    experiment: Experiment
    durations: Mapping[str, Durations]

    @property
    def group(self) -> str:
        """The heading that it stands below."""
        return self.experiment.group or _OTHERS

    @property
    def others(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """The forms that do not run by default, those together that take as long, and how long."""
        _, *others = self.durations.items()
        together: dict[tuple[str, str], list[str]] = {}
        for form, durations in others:
            together.setdefault(durations.shown, []).append(form)
        return ((", ".join(forms), shown) for shown, forms in together.items())

    def to_dict(self) -> Json:
        """As JSON."""
        experiment = self.experiment
        durations = {form: asdict(each) for form, each in self.durations.items()}
        default = next(iter(durations))
        return {
            "name": experiment.name,
            "group": experiment.group,
            "title": experiment.title,
            "question": experiment.question,
            "forms": list(experiment.forms),
            "default_form": default,
            "path": str(experiment.path),
            "durations": durations[default],
            "form_durations": durations,
        }


def _grouped(found: Sequence[Experiment]) -> list[Experiment]:
    """The groups as they come first, each with all of its own; what belongs nowhere at the end."""
    places = {each.group: -number for number, each in enumerate(reversed(found))}
    return sorted(found, key=lambda each: (not each.group, places[each.group]))


def _durations(experiment: Experiment, took: Mapping[str, Sequence[float]]) -> dict[str, Durations]:
    """Of every form, that which runs by default first."""
    from trilane.lab import asked

    default = asked.default_form(experiment)
    forms = (default, *(form for form in experiment.forms if form != default))
    return {
        form: Durations(
            *(
                _duration(asked.Wanted(experiment, form, quick=quick), took)
                for quick in (True, False)
            )
        )
        for form in forms
    }


def _duration(wanted: Wanted, took: Mapping[str, Sequence[float]]) -> Duration:
    """As long as earlier runs took, else an estimate."""
    from trilane.lab import asked, clock

    earlier = took.get(asked.fingerprint(wanted.experiment, asked.chosen(wanted)), ())
    if earlier:
        return Duration(median(earlier), len(earlier))
    return Duration(round(clock.whole_s(wanted), 1), 0)


def _print(listed: Sequence[Listed]) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from trilane.report import styles

    console = Console()
    beside = console.width >= _BESIDE
    table = styles.table()
    table.add_column("experiment", no_wrap=beside, ratio=None if beside else 1)
    if beside:
        table.add_column("about", ratio=1)
    for column in ("quick", "full"):
        table.add_column(column, no_wrap=True, justify="right")

    def add(name: str, about: str, times: Sequence[str], style: str = "") -> None:
        # As Text, because rich would read [brackets] of a file as markup.
        cells = [Text(cell, style) for cell in times]
        if beside:
            table.add_row(Text(name), Text(about, style), *cells)
            return
        if name:
            table.add_row(Text(name), *cells)
        table.add_row(Padding(Text(about, style), (0, 0, 0, 4)), *([] if name else cells))

    for number, (group, members) in enumerate(groupby(listed, key=lambda each: each.group)):
        if number:
            table.add_row()
        table.add_row(Text(group, "bold"))
        for each in members:
            experiment = each.experiment
            about = experiment.question if console.width >= _WIDE else experiment.title
            add(f"  {experiment.name}", about, next(iter(each.durations.values())).shown)
            for forms, shown in each.others:
                add("", f"--form {forms}", shown, "dim")
    console.print(table, highlight=False)
    console.print("≈ is an estimate; other times are those of complete runs here.", highlight=False)
