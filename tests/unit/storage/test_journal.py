from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from synthetic import records
from trilane.lab.model.manifest import SCHEMA, Manifest
from trilane.lab.model.sample import Sample
from trilane.lab.storage.journal import BadJournal, Busy, Journal, Line
from trilane.lab.storage.runs import BadRun, read_manifest


def line(block: int, run: bool = True) -> Line:
    return Line(
        point=0,
        sample=Sample(
            arm="h1",
            block=block,
            slot=0,
            position=0,
            run=records.run("h1") if run else None,
            problem=None if run else "it died",
            file=f"runs/{block}.json" if run else None,
            server=records.server(),
        ),
    )


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    made = Journal(tmp_path)
    made.open(
        Manifest(
            schema=SCHEMA,
            kind="lab",
            status="running",
            command="trilane lab run small",
            started_at="2026-11-20T10:00:00Z",
            seed=1,
            machine={},
        )
    )
    return made


def test_what_was_appended_is_read_again(journal: Journal) -> None:
    wanted = [line(0), line(1, run=False)]
    for one in wanted:
        journal.append(one)
    assert Journal(journal.folder).lines() == wanted


def test_a_line_that_a_crash_cut_short_is_dropped_and_cut_off(journal: Journal) -> None:
    journal.append(line(0))
    path = journal.folder / "samples.jsonl"
    whole = path.read_bytes()
    for length in (1, 10, len(whole) - 1):
        path.write_bytes(whole + whole[:length])
        assert [kept.sample.block for kept in journal.lines()] == [0]
        assert path.read_bytes() == whole
    journal.append(line(1))
    assert [kept.sample.block for kept in journal.lines()] == [0, 1]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 9), st.text()), max_size=4), st.integers(0, 2000))
def test_a_crash_anywhere_leaves_the_lines_before_it(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[int, str]], cut: int
) -> None:
    journal = Journal(tmp_path_factory.mktemp("journal"))
    wanted = [failed(block, problem) for block, problem in told]
    ends = [0]
    for one in wanted:
        journal.append(one)
        ends.append((journal.folder / "samples.jsonl").stat().st_size)
    assert journal.lines() == wanted
    if wanted:
        with (journal.folder / "samples.jsonl").open("r+b") as file:
            file.truncate(min(cut, ends[-1]))
        assert journal.lines() == wanted[: sum(end <= cut for end in ends[1:])]


def failed(block: int, problem: str) -> Line:
    return replace(
        line(block, run=False), sample=replace(line(block, run=False).sample, problem=problem)
    )


def test_a_damaged_line_is_named(journal: Journal) -> None:
    journal.append(line(0))
    journal.append(line(1))
    (journal.folder / "runs" / "1.json").unlink()
    with pytest.raises(BadJournal, match=r"samples\.jsonl:2"):
        journal.lines()


def test_two_writers_do_not_mix(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilane.lab.storage.journal._MOMENT_S", 0)
    other = Journal(journal.folder)
    with journal.locked(), pytest.raises(Busy, match="--new"), other.locked():
        pass
    with other.locked():
        pass


def test_a_lock_that_outlives_its_process_for_a_moment_is_waited_for(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child of a process that was killed has its files until it has become another program."""
    first = journal.locked()
    first.__enter__()
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        first.__exit__(None, None, None)

    monkeypatch.setattr(time, "sleep", wait)
    with Journal(journal.folder).locked():
        assert len(waits) == 1


def test_a_manifest_of_something_else_is_refused(journal: Journal) -> None:
    (journal.folder / "manifest.json").write_text('{"schema": "other"}')
    with pytest.raises(BadRun, match="has schema 'other'"):
        read_manifest(journal.folder)
