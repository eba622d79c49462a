"""What a study makes of its runs, with everything but the runs themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from synthetic import records
from trilane.lab import measuring, study, testbed
from trilane.lab.asked import Entry, Wanted
from trilane.lab.experiment.experiment_file import parse
from trilane.lab.experiment.form import Form
from trilane.lab.experiment.workload import ArmSpec
from trilane.lab.model.documents import Json
from trilane.lab.model.sample import Sample
from trilane.lab.study import Watcher

TEXT = """\
schema = "trilane.experiment/1"
name = "three-networks"
title = "Three networks"
question = "Which?"

[forms.fair]
baseline = "engine-h1-load"
rank = "p50"
measures = ["p50"]

[forms.fair.stats]
blocks = 10
aa = false

[forms.fair.workload]
duration = "1s"

[forms.fair.sweep]
key = "network"
values = ["rtt=1ms", "rtt=2ms", "rtt=3ms"]

[forms.fair.matrix]
client = ["engine"]
version = ["h1", "h2"]
strategy = ["load"]
"""


class Bed:
    """What runs need, of which there is nothing."""

    pinning = "none"

    def __init__(self) -> None:
        self.skipped: dict[str, str] = {}

    def begin_run(self, _arm: ArmSpec, _block: int) -> None:
        """Nothing to do."""

    def origin_of(self, _arm: ArmSpec) -> str:
        return "https://127.0.0.1:8443"

    def server_name(self, arm: ArmSpec) -> str:
        return arm.server

    def facts(self) -> Json:
        return {}

    def sent_by(self, _arms: Sequence[ArmSpec]) -> Json:
        return {}


class Probe:
    def probe(self, *_: object) -> None:
        """It succeeds."""


@pytest.fixture
def interrupted_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., study.Result]:
    """The experiment, interrupted as the run at this point and in this block begins."""

    def made(point: int, block: int, **asked: Any) -> study.Result:
        def measured(_: Form, entries: Sequence[Entry], *_others: object) -> list[Sample]:
            (entry,) = entries
            if (entry.point, entry.block) == (point, block):
                raise KeyboardInterrupt
            version = entry.arm.split("-")[1]
            # On the first network alone all blocks agree.
            slower = (entry.block if entry.point else 0) % 2 == (version == "h2")
            run = records.run(version, p50=1e-3 * (1.3 if slower else 1.0))
            at = {name: getattr(entry, name) for name in ("arm", "block", "slot", "position")}
            file = f"runs/{entry.point}-{entry.block}-{entry.position}.json"
            return [Sample(run=run, file=file, **at)]

        monkeypatch.setattr(measuring, "measured", measured)
        monkeypatch.setattr(measuring, "executor", lambda *_: Probe())
        monkeypatch.setattr(testbed.Testbed, "opened", lambda *_: nullcontext(Bed()))
        experiment = parse(TEXT.encode(), tmp_path / "three-networks.toml")
        return study.run(Wanted(experiment, "fair", state=tmp_path, **asked), Watcher.quiet())

    return made


def interrupted(result: study.Result) -> list[bool]:
    """Of each point, whether it is marked so; those that are, are suspect for it."""
    made = [point.comparison for point in result.result.points]
    for comparison in made:
        codes = [reason.code for reason in comparison.validity.reasons]
        assert ("interrupted" in codes) == comparison.interrupted
    return [comparison.interrupted for comparison in made]


def test_a_point_that_is_complete_was_not_interrupted(
    interrupted_at: Callable[..., study.Result],
) -> None:
    cut = interrupted_at(2, 5)
    assert cut.result.interrupted
    assert [point.comparison.plan.blocks_done for point in cut.result.points] == [10, 10, 5]
    assert interrupted(cut) == [False, False, True]
    reasons = [r.text for r in cut.result.validity.reasons if r.code == "interrupted"]
    assert reasons == ["at rtt=3ms: interrupted after 5 of 10 blocks"]


def test_a_point_that_no_run_was_made_of_was_interrupted(
    interrupted_at: Callable[..., study.Result],
) -> None:
    assert interrupted(interrupted_at(1, 0)) == [False, True, True]


def test_a_point_that_is_decided_was_not_interrupted(
    interrupted_at: Callable[..., study.Result],
) -> None:
    # The others wait for their second look.
    cut = interrupted_at(1, 12, until_decided=True)
    assert [point.comparison.plan.blocks_done for point in cut.result.points] == [10, 12, 10]
    assert interrupted(cut) == [False, True, True]
