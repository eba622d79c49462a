"""The pages about the experiments: their numbers are generated, and only those."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from msgspec import structs

from repository import ROOT
from synthetic import folders, labs
from synthetic.records import altered
from trilane.lab import asked
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.model.lab import ExpectedRatio, LabResult, Skipped
from trilane.report import goals, pages, tables

DOCS = ROOT / "docs" / "experiments"
EXPERIMENTS = sorted(path.stem for path in (ROOT / "experiments").glob("*.toml"))


def bookstore() -> LabResult:
    return labs.bookstore(12)


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def keep(state: Path, name: str, result: LabResult) -> None:
    """Leave `result` as a complete run of `state`."""
    folder = state / "runs" / name
    folder.mkdir(parents=True)
    folders.keep(folder, result)
    (folder / "manifest.json").write_text(
        json.dumps(
            {
                "schema": "trilane.manifest/1",
                "kind": "lab",
                "status": "complete",
                "command": result.command,
                "started_at": result.started_at,
                "seed": result.seed,
                "machine": result.machine,
                "experiment": {"name": result.experiment.name},
                "form": result.experiment.form,
                "quick": False,
            }
        )
    )


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_page_with_a_place_for_every_form(name: str) -> None:
    forms = tomllib.loads((ROOT / "experiments" / f"{name}.toml").read_text())["forms"]
    assert "fair" in forms or "published" not in forms
    for form in forms:
        made = altered(bookstore(), {"experiment.name": name, "experiment.form": form})
        written = pages.updated(page(name), made)
        assert "Measured 2026-11-20, on Test CPU" in written
        assert written.count("<!-- generated:") == written.count("<!-- end -->") == len(forms)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_is_to_be_typed_to_measure_again_names_arms_that_there_are(name: str) -> None:
    experiment = Experiment.load(ROOT / "experiments" / f"{name}.toml")
    for command in re.findall(r"Again: `trilane lab run ([^`]+)`", page(name)):
        words = command.split()
        options = list(itertools.pairwise(words))
        arms = {arm for flag, arm in options if flag == "-t"}
        forms = [form for flag, form in options if flag == "--form"]
        form = forms[0] if forms else asked.default_form(experiment, arms)
        assert words[0] == name
        assert arms <= {arm.name for arm in experiment.forms[form].arms}


def numbers(text: str) -> list[str]:
    """Of sentences: fractions, thousands and ratios, but for those in names of protocols."""
    words = re.sub(r"<!-- generated: .*?<!-- end -->", "", text, flags=re.DOTALL)
    words = re.sub(r"^[|#].*$", "", words, flags=re.MULTILINE)
    words = re.sub(r"`[^`]*`|\]\([^)]*\)|HTTP/1\.1|TLS 1\.[23]", "", words)
    return re.findall(r"\d+[.,]\d+|\d+ ?×(?! \d)", words)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_sentence_of_what_we_find_has_a_number_that_was_measured(name: str) -> None:
    _, begins, found = page(name).partition("\n## What we find\n")
    assert begins
    assert numbers(found) == []


def test_a_number_that_was_measured_is_seen() -> None:
    settings = "At 200 Mbit/s, 1 × 200 over HTTP/1.1 with TLS 1.3 and `-d 1.5s`:\n| 1.75× |"
    assert numbers(settings) == []
    assert numbers("0.98 times as long, 12,000 µs, 3× the CPU") == ["0.98", "12,000", "3×"]


def test_there_is_no_page_without_an_experiment() -> None:
    pages = {path.stem for path in DOCS.glob("*.md")} - {"README"}
    assert sorted(pages) == EXPERIMENTS


def test_the_list_has_every_experiment_once() -> None:
    listed = re.findall(r"^\| \[`([\w-]+)`\]\(\1\.md\) ", page("README"), re.MULTILINE)
    assert sorted(listed) == EXPERIMENTS


def test_what_is_generated_twice_stays_the_same() -> None:
    once = pages.updated(page("bookstore"), bookstore())
    assert pages.updated(once, bookstore()) == once
    before, _, _ = page("bookstore").partition("<!-- generated: bookstore fair -->")
    assert once.startswith(before)
    assert once.endswith(page("bookstore").rpartition("<!-- end -->")[2])


def test_the_numbers_of_one_form_leave_the_other_alone() -> None:
    once = pages.updated(page("bookstore"), bookstore())
    _, _, published = page("bookstore").partition("<!-- generated: bookstore published -->")
    kept = published.partition("<!-- end -->")[0]
    assert f"<!-- generated: bookstore published -->{kept}<!-- end -->" in once


def test_a_page_says_date_machine_intervals_and_how_to_measure_again() -> None:
    shown = pages.measured(bookstore())
    assert "2026-11-20, on Test CPU @ 3 GHz, 2 CPUs, Linux 6.1, 7 blocks" in shown
    assert "intervals are 95 %" in shown
    assert "`trilane lab run bookstore --form fair --seed 7`" in shown
    assert "Skipped: hyper-h2-chunks" in shown


def test_a_page_says_which_gates_hold() -> None:
    arms = [arm.name for arm in bookstore().points[0].comparison.arms][:2]
    gates = [
        ExpectedRatio(
            measure="elapsed_s",
            arm=arms[1],
            to=arms[0],
            at=None,
            low=0.0,
            high=high,
            ratio=ratio,
            interval=(0.44, 0.5) if ratio else None,
            met=met,
        )
        for high, ratio, met in (
            (0.5, 0.47, True),
            (0.25, 0.47, False),
            (0.45, 0.47, None),
            (0.9, None, None),
        )
    ]
    shown = pages.measured(altered(bookstore(), {"expect": gates}))
    rows = [line for line in shown.splitlines() if line.endswith(("| met |", "| breached |"))]
    assert [row.split(" | ")[1:3] for row in rows] == [
        ["≤ 0.50×", "0.47× (0.44–0.50)"],
        ["≤ 0.25×", "0.47× (0.44–0.50)"],
    ]
    # The interval reaches into the gate, its centre does not.
    assert "| ≤ 0.45× | 0.47× (0.44–0.50) | undecided |" in shown
    assert "| not measured |" in shown


def test_many_arms_are_folded_but_all_there() -> None:
    shown = pages.measured(bookstore())
    # No sentence stands before the table and says its numbers.
    assert shown.startswith("The best 5 of 12 arms")
    rows = [line for line in shown.splitlines() if line.startswith("| ")]
    for arm in bookstore().points[0].comparison.arms:
        named = [row for row in rows if row.startswith(f"| {tables.escaped(arm.title)} ")]
        assert len(named) == 1


def test_no_path_of_a_machine_reaches_a_page() -> None:
    gone = Skipped(arm="x", reason="no such file /home/me/.cache/uv/thing.py")
    command = "trilane lab run bookstore --state /home/me/state"
    shown = pages.measured(altered(bookstore(), {"skipped": [gone], "command": command}))
    assert "/home" not in shown
    assert "no such file …" in shown


def test_the_command_writes_the_pages_of_its_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(DOCS, docs)
    state = tmp_path / "state"
    keep(state, "20261120-100000-bookstore-fair", bookstore())
    arguments = ["bookstore-fair", "--docs", str(docs), "--state", str(state)]
    assert pages.main(arguments) == 0
    assert capsys.readouterr().out == f"{docs / 'bookstore.md'}\n"
    assert "Measured 2026-11-20" in (docs / "bookstore.md").read_text()
    assert pages.main(arguments) == 0
    assert capsys.readouterr().out == ""


def test_the_gates_of_several_runs_stand_in_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, readme = tmp_path / "state", tmp_path / "README.md"
    for hour, form in enumerate(("fair", "published")):
        made = bookstore()
        result = structs.replace(made, experiment=structs.replace(made.experiment, form=form))
        keep(state, f"20261120-1{hour}0000-bookstore-{form}", result)
    before = "# A page\n\n<!-- generated: goals -->\n\nold\n\n<!-- end -->\n\nMore.\n"
    readme.write_text(before)
    runs = ["20261120-100000-bookstore-fair", "20261120-110000-bookstore-published"]
    told = ["--state", str(state), "--page", str(readme)]
    assert goals.main([*runs, *told]) == 0
    shown = capsys.readouterr().out
    rows = [line for line in shown.splitlines() if line.endswith("| breached |")]
    assert [row.split(" | ")[0] for row in rows] == ["| fair", "| published"]
    assert all("| 0.10–0.50× | 0.90× (0.85–0.95) |" in row for row in rows)
    assert "Test CPU @ 3 GHz" in shown
    assert "fair 2026-11-20, 7 blocks, invalid" in shown
    page = readme.read_text()
    assert page == before.replace("old", shown.strip())

    readme.write_text("# A page\n")
    assert goals.main([*runs, *told]) == 1
    assert "it holds no line <!-- generated: goals -->" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("<!-- generated: bookstore fair -->", "it holds no line <!-- generated: bookstore fair"),
        ("<!-- end -->", "it holds no line <!-- end -->"),
    ],
)
def test_a_page_without_its_marks_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: str, said: str
) -> None:
    docs, state = tmp_path / "docs", tmp_path / "state"
    docs.mkdir()
    (docs / "bookstore.md").write_text(page("bookstore").replace(spoil, ""))
    keep(state, "20261120-100000-bookstore-fair", bookstore())
    assert pages.main(["latest", "--docs", str(docs), "--state", str(state)]) == 1
    assert said in capsys.readouterr().err


def test_a_missing_run_or_page_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pages.main(["nothing", "--docs", str(DOCS), "--state", str(tmp_path)]) == 1
    assert "there is no run 'nothing'" in capsys.readouterr().err
    keep(tmp_path, "20261120-100000-bookstore-fair", bookstore())
    assert pages.main(["latest", "--docs", str(tmp_path), "--state", str(tmp_path)]) == 1
    assert "there is no page" in capsys.readouterr().err
    folders.race(tmp_path, "20261121-100000", {"h1": 1.0, "h2": 1.5})
    assert pages.main(["latest", "--docs", str(tmp_path), "--state", str(tmp_path)]) == 1
    assert "latest is a race: only experiments have pages" in capsys.readouterr().err


def test_the_command_is_told_without_the_places_of_this_machine() -> None:
    command = (
        "trilane lab run bookstore --form published --quick --new --state /some/where "
        "--report=/some/out.html -t 'an arm' --seed 7"
    )
    made = altered(bookstore(), {"command": command, "experiment.form": "published"})
    written = pages.updated(page("bookstore"), made)
    again = "trilane lab run bookstore --form published --quick -t 'an arm' --seed 7"
    assert f"Again: `{again}`." in written
    assert "/some" not in written
