"""`trilane.lab.run`: what it asks for, and what it refuses before anything runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import trilane.lab
from synthetic import labs
from synthetic.experiments import TEXT
from trilane.lab import Experiment, LabResult, run, study
from trilane.lab.asked import Wanted
from trilane.lab.experiment import experiment_file
from trilane.lab.study import Result, Watcher


@pytest.fixture
def sample() -> Experiment:
    return experiment_file.parse(TEXT.encode(), Path("sample.toml"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Wanted]:
    """What was asked of the runner, which runs nothing."""
    wanted: list[Wanted] = []

    def made(asked: Wanted, watcher: Watcher) -> Result:
        watcher.say("something")
        watcher.begin(1, 0)
        watcher.step("an arm", 0, 1, 1.0)
        wanted.append(asked)
        return Result(labs.bookstore(), Path("runs"))

    monkeypatch.setattr(study, "run", made)
    return wanted


def test_an_experiment_is_run_with_what_the_command_takes(
    sample: Experiment, asked: list[Wanted], capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(sample, blocks=3, seed=7, arms=["plain"], state="somewhere", quick=True)
    assert isinstance(found, LabResult)
    (wanted,) = asked
    assert (wanted.experiment, wanted.form) == (sample, "fair")
    assert (wanted.blocks, wanted.seed, wanted.quick, wanted.fresh) == (3, 7, True, False)
    assert (wanted.arms, wanted.state) == (["plain"], Path("somewhere"))
    # Nobody is told anything, and no command has an experiment that was built in code.
    assert capsys.readouterr() == ("", "")
    assert wanted.command == ()


def test_a_run_that_ends_once_it_is_decided_is_asked_for(
    sample: Experiment, asked: list[Wanted]
) -> None:
    run(sample, until_decided=True, blocks=24)
    assert (asked[0].until_decided, asked[0].blocks) == (True, 24)
    with pytest.raises(ValueError, match=r"blocks=5 with until_decided: it takes at least 6 bl"):
        run(sample, until_decided=True, blocks=5)


def test_a_name_or_a_file_is_an_experiment(asked: list[Wanted], tmp_path: Path) -> None:
    (tmp_path / "sample.toml").write_text(TEXT)
    run(tmp_path / "sample.toml")
    run("bookstore", form="published")
    assert [wanted.experiment.name for wanted in asked] == ["sample", "bookstore"]
    assert asked[1].form == "published"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"form": "fare"}, "sample has no form 'fare': did you mean fair?"),
        ({"arms": ["plane"]}, "sample has no arm 'plane' in form fair: did you mean plain?"),
        ({"network": "6g"}, "network='6g': 6g"),
        ({"blocks": 0}, "blocks must be at least 1, not 0"),
    ],
)
def test_what_there_is_not_is_refused(
    sample: Experiment, asked: list[Wanted], options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        run(sample, **options)
    assert asked == []


def test_the_package_offers_what_it_names() -> None:
    for name in trilane.lab.__all__:
        assert getattr(trilane.lab, name) is not None
    assert set(trilane.lab.__all__) <= set(dir(trilane.lab))
