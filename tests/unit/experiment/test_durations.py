"""`trilane lab list` tells how long experiments take: as they took, else by an estimate."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from synthetic.experiments import TEXT, edited, sample
from trilane.cli import run as command
from trilane.lab import asked
from trilane.lab.clock import expected_s, whole_s
from trilane.lab.experiment import places
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.machine.facts import facts
from trilane.lab.model.manifest import SCHEMA, Manifest, Status
from trilane.lab.storage import store


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").mkdir()
    return sample(tmp_path / "experiments")


def test_the_estimate_is_of_every_run_of_every_block(experiment: Experiment) -> None:
    wanted = asked.Wanted(experiment, "fair")
    form = asked.chosen(wanted)
    once = sum(expected_s(arm, point.workload) for _, point in form.points() for arm in point.arms)
    assert whole_s(wanted) == pytest.approx(form.stats.blocks * once)
    assert whole_s(asked.Wanted(experiment, "fair", quick=True)) < whole_s(wanted)


@pytest.mark.parametrize(("within", "blocks"), [("", 30), ("600s", None), ("1s", 10)])
def test_the_estimate_of_a_run_until_it_is_decided_is_of_the_most(
    within: str, blocks: int | None, tmp_path: Path
) -> None:
    """Of all its blocks; or as long as these may take, and its first look in any case."""
    told = f'until_decided = true\nwithin = "{within}"' if within else "until_decided = true"
    made = sample(tmp_path, ("blocks = 7\n", f"blocks = 10\n{told}\n"))
    form = asked.chosen(asked.Wanted(made, "fair"))
    once = sum(expected_s(arm, point.workload) for _, point in form.points() for arm in point.arms)
    assert 10 * once < 600 < 30 * once
    expected = 600 if blocks is None else blocks * once
    assert whole_s(asked.Wanted(made, "fair")) == pytest.approx(expected)


def kept(
    state: Path,
    experiment: Experiment,
    number: int,
    took_s: float | None,
    *,
    quick: bool = False,
    blocks: int | None = None,
    status: Status = "complete",
    machine: dict[str, Any] | None = None,
) -> None:
    """A run of the sample."""
    form = asked.chosen(asked.Wanted(experiment, "fair", quick=quick, blocks=blocks))
    folder = state / "runs" / f"2026112{number}-120000-sample-fair"
    folder.mkdir(parents=True)
    manifest = Manifest(
        schema=SCHEMA,
        kind="lab",
        status=status,
        command="trilane lab run sample",
        started_at=f"2026-11-2{number}T12:00:00Z",
        seed=1,
        machine=facts() if machine is None else machine,
        fingerprint=asked.fingerprint(experiment, form),
        took_s=took_s,
    )
    store.write_json(folder / "manifest.json", manifest)


def test_runs_of_the_same_plan_here_say_how_long_it_takes(
    experiment: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    for number, took_s in enumerate((100.0, 500.0, 130.0)):
        kept(state, experiment, number, took_s)
    # These say nothing of it.
    kept(state, experiment, 3, 9000.0, blocks=9)
    kept(state, experiment, 4, 9000.0, status="interrupted")
    kept(state, experiment, 5, 9000.0, machine={"cpu": "another"})
    kept(state, experiment, 6, None, quick=True)
    assert command(["lab", "list", "--state", str(state), "--format", "json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    durations = rows["sample"]["durations"]
    assert durations["full"] == {"seconds": 130.0, "runs": 3}
    assert durations["quick"]["runs"] == 0
    assert durations["quick"]["seconds"] > 0
    assert durations == rows["sample"]["form_durations"][rows["sample"]["default_form"]]
    assert command(["lab", "list", "--state", str(state)]) == 0
    told = capsys.readouterr().out
    (line,) = [line for line in told.splitlines() if " sample " in line]
    assert re.fullmatch(r"  sample +A sample +≈ \d+ min +2 min 10 s *", line)
    assert "≈ is an estimate" in told


def test_in_another_group_it_is_the_same_plan(experiment: Experiment) -> None:
    form = asked.chosen(asked.Wanted(experiment, "fair"))
    moved = replace(experiment, group="Elsewhere")
    assert asked.fingerprint(moved, form) == asked.fingerprint(experiment, form)


@pytest.fixture
def listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[dict[str, str], int], list[str]]:
    """The lines of the list of experiments in these files, alone, where a line has that width."""

    def lines(files: dict[str, str], width: int) -> list[str]:
        for name, text in files.items():
            (tmp_path / f"{name}.toml").write_text(text)
        monkeypatch.setattr(places, "experiments", lambda: [tmp_path])
        monkeypatch.setenv("COLUMNS", str(width))
        assert command(["lab", "list", "--state", str(tmp_path / "state")]) == 0
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return lines


def named(name: str, group: str = "", **edits: str) -> str:
    text = edited(('name = "sample"', f'name = "{name}"' + (f'\ngroup = "{group}"' * bool(group))))
    for old, new in edits.items():
        text = text.replace(old, new)
    return text


def test_experiments_are_listed_by_group_and_those_of_none_last(
    listed: Callable[[dict[str, str], int], list[str]],
) -> None:
    files = {
        name: named(name, group)
        for name, group in zip("abcde", ["", "Y", "X", "Y", ""], strict=True)
    }
    words = [line.split()[0] for line in listed(files, 80)[2:-1] if line]
    assert words == ["Y", "b", "d", "X", "c", "Others", "a", "e"]


def test_other_forms_stand_below_those_together_that_take_as_long(
    listed: Callable[[dict[str, str], int], list[str]],
) -> None:
    _, form = TEXT.split("[forms.fair]", 1)
    same = f"[forms.fair]{form}".replace("forms.fair", "forms.one")
    longer = same.replace("forms.one", "forms.longer").replace("blocks = 7", "blocks = 200")
    text = TEXT + longer + same + same.replace("forms.one", "forms.two")
    rows = [re.split(r"  +", line.strip()) for line in listed({"sample": text}, 80)[3:-1]]
    (name, _, *times), *others = rows
    assert name == "sample"
    assert [row[0] for row in others] == ["--form longer", "--form one, two"]
    assert others[1][1:] == times != others[0][1:]
    assert others[0][2].endswith(" h")


@pytest.mark.parametrize(
    ("width", "about"), [(40, "A sample"), (71, "A sample"), (119, "A sample"), (120, "Which?")]
)
def test_where_there_is_room_the_list_has_the_questions(
    width: int, about: str, listed: Callable[[dict[str, str], int], list[str]]
) -> None:
    lines = listed({"sample": TEXT}, width)
    assert max(map(len, lines)) <= width
    assert any(about in line for line in lines)
    # Where there is little room, the title has a line of its own.
    assert any(re.match(rf"    {about}$", line) for line in lines) == (width < 72)
