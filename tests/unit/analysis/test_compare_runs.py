"""`trilane compare`: what it claims, what it refuses, how it exits."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec import structs, to_builtins

from repository import DOCS
from synthetic import folders, races
from synthetic.records import validity, with_runs
from synthetic.runs import run
from trilane.cli import run as command
from trilane.lab.analysis import compare_runs, gates, paired, sides
from trilane.lab.analysis.compare_runs import NotComparable, Wanted
from trilane.lab.model.comparison import Floor
from trilane.lab.model.contrast import Contrast, OneSided, Shift
from trilane.lab.model.lab import LabResult
from trilane.lab.model.run import Body
from trilane.lab.storage.runs import BadRun
from trilane.lab.storage.store import write_json

WANTED = Wanted(command="trilane compare A B")
A = "20261118-100000-race"
FASTER = "20261119-100000-race"
SAME = "20261119-110000-race"
Trilane = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A race, one in which HTTP/2 got 1.3 times faster, and one in which nothing changed."""
    folder = tmp_path_factory.mktemp("state")
    steady: dict[str, Any] = {"noise": 0.004}
    folders.race(folder, "20261118-100000", {"h1": 1.0, "h2": 1.5}, **steady)
    folders.race(folder, "20261119-100000", {"h1": 1.0, "h2": 1.95}, seed=2, **steady)
    folders.race(folder, "20261119-110000", {"h1": 1.0, "h2": 1.5}, seed=3, **steady)
    return folder


@pytest.fixture
def trilane(capsys: pytest.CaptureFixture[str], state: Path) -> Trilane:
    def call(*arguments: str, at: Path = state) -> tuple[int, str, str]:
        code = command(["compare", *arguments, "--state", str(at)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def rows(contrast: Contrast, measure: str) -> dict[str, Shift]:
    return {row.arm: row for row in contrast.ratios if row.measure == measure}


def compared(state: Path, a: str, b: str, wanted: Wanted = WANTED) -> Contrast:
    return made(state, a, b, wanted).contrast


def made(state: Path, a: str, b: str, wanted: Wanted = WANTED) -> compare_runs.Compared:
    return compare_runs.compare(sides.load(a, state), sides.load(b, state), wanted)


def test_what_changed_is_found_and_what_did_not_is_not(state: Path) -> None:
    document = compared(state, A, FASTER, replace(WANTED, control="h1"))
    assert rows(document, "requests_per_s")["h2"].finding == "higher"
    assert rows(document, "requests_per_s")["h2"].ratio == pytest.approx(1.3, rel=0.03)
    assert rows(document, "client_cpu_us_per_request")["h2"].finding == "lower"
    same = compared(state, A, SAME, replace(WANTED, control="h1"))
    assert {row.finding for row in same.ratios} <= {"no_difference", "undecided"}
    assert same.verdict.startswith(
        "No difference: A and B are within 5 % in requests/s of HTTP/2 ("
    )


def test_a_control_divides_out_what_moved_both(tmp_path: Path) -> None:
    folders.race(tmp_path, "20261118-100000", {"h1": 1.0, "h2": 1.5}, noise=0.004)
    # The whole machine is a fifth slower, HTTP/2 is not to blame.
    folders.race(tmp_path, "20261119-100000", {"h1": 0.8, "h2": 1.2}, seed=2, noise=0.004)
    plain = compared(tmp_path, "20261118", "20261119")
    assert rows(plain, "requests_per_s")["h2"].ratio == pytest.approx(0.8, rel=0.05)
    wanted = replace(WANTED, control="h1")
    divided = compared(tmp_path, "20261118", "20261119", wanted)
    found = rows(divided, "requests_per_s")
    assert list(found) == ["h2"]
    assert found["h2"].ratio == pytest.approx(1, rel=0.01)
    assert found["h2"].a.unit == "1"
    assert found["h2"].finding == "no_difference"


def test_the_document_is_as_documented(state: Path) -> None:
    schema = json.loads((DOCS / "contrast.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    found = made(state, A, FASTER)
    judged = gates.judge([gates.parse("p99>1.1")], found)
    document = to_builtins(structs.replace(found.contrast, gates=judged))
    Draft202012Validator(schema).validate(document)


def test_the_whole_command_prints_a_verdict_with_intervals(trilane: Trilane) -> None:
    code, out, err = trilane(A, FASTER, "--control", "h1")
    assert code == 0, err
    words = " ".join(out.split())
    assert re.match(
        r"✓ B is better than A in requests/s of HTTP/2: 1\.\d\d× \(1\.\d\d–1\.\d\d\)\. ", words
    )
    assert "divided by h1's in the same block" in words


@pytest.mark.parametrize(
    ("stamp", "told"),
    [
        ("20261118-100017", "B ran 17 s after A"),
        ("20261118-101200", "B ran 12 min after A"),
        ("20261118-071500", "B ran 2.8 h before A"),
        ("20261121-220000", "B ran 3.5 days after A"),
    ],
)
def test_how_far_apart_the_runs_are_is_told(
    tmp_path: Path, trilane: Trilane, stamp: str, told: str
) -> None:
    folders.race(tmp_path, "20261118-100000", {"h1": 1.0, "h2": 1.5})
    folders.race(tmp_path, stamp, {"h1": 1.0, "h2": 1.5}, seed=2)
    code, out, err = trilane("20261118-100000-race", f"{stamp}-race", at=tmp_path)
    assert code == 0, err
    assert told in " ".join(out.split())


def test_json_on_stdout_is_one_document(trilane: Trilane) -> None:
    code, out, _ = trilane(A, SAME, "--format", "json", "-m", "p50", "-a", "h2")
    assert code == 0
    document = json.loads(out)
    assert [(row["measure"], row["arm"]) for row in document["ratios"]] == [("p50", "h2")]


@pytest.mark.parametrize(
    ("b", "gate", "code"),
    [
        (FASTER, "rate>1.1", 3),
        (FASTER, "h2:rate<1.1", 0),
        (FASTER, "h2:p50<-10%", 3),
        (FASTER, "h1:p50<-20%", 0),
        (SAME, "p50>1.2", 0),
        (SAME, "p50 >= +20%", 0),
    ],
)
def test_a_gate_is_breached_only_by_what_is_shown(
    trilane: Trilane, b: str, gate: str, code: int
) -> None:
    found, out, err = trilane(A, b, "--fail-if", gate)
    assert found == code, out + err
    verdict = "breached" if code else "not breached"
    assert f"--fail-if {gate.replace(' ', '')}: {verdict}\n" in out


def test_a_gate_that_can_never_be_breached_is_breached(tmp_path: Path, trilane: Trilane) -> None:
    for day, seed in ((18, 1), (19, 2)):
        folders.race(tmp_path, f"202611{day}-100000", {"h1": 1.0, "h2": 1.5}, blocks=2, seed=seed)
    code, out, _ = trilane("20261118", "20261119", "--fail-if", "p99>1.5", at=tmp_path)
    assert code == 3
    assert "2 against 2 values can never show it" in " ".join(out.split())


def test_a_gate_respects_the_noise_floor(state: Path) -> None:
    found = made(state, A, FASTER)
    gate = gates.parse("h2:requests_per_s>1.1")
    assert gates.judge([gate], found)[0].breached
    floor = Floor(ratio=0.85, low=0.8, high=0.9)
    noisy = structs.replace(
        found.contrast,
        ratios=[structs.replace(row, noise_floor=floor) for row in found.contrast.ratios],
    )
    outcome = gates.judge([gate], replace(found, contrast=noisy))[0]
    assert not outcome.breached
    assert "a second run of an arm differed from its first (0.85×)" in outcome.rows[0].reason


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        ("p99", "it has no form"),
        ("p99>10", "10x for 10 times the baseline"),
        ("p99>10ms", "is neither a ratio such as 1.1"),
        ("p99<-100%", "larger than 0"),
        ("p98>1.1", "'p98' was not compared: requests_per_s"),
        ("h3:p99>1.1", "'h3' was not compared: h1, h2"),
    ],
)
def test_a_gate_that_is_none_says_what_to_type(trilane: Trilane, gate: str, said: str) -> None:
    code, _, err = trilane(A, SAME, "--fail-if", gate)
    assert code == 2
    assert said in err
    assert "--fail-if 'p99>1.1'" in err


@pytest.mark.parametrize(
    ("text", "limit"), [("p99>1.1", 1.1), ("p99>1.1x", 1.1), ("p99>+10%", 1.1), ("rate<-5%", 0.95)]
)
def test_spellings_of_a_limit(text: str, limit: float) -> None:
    assert gates.parse(text).limit == pytest.approx(limit)


def test_an_invalid_run_is_never_judged(tmp_path: Path, trilane: Trilane) -> None:
    folders.race(tmp_path, "20261118-100000", {"h1": 1.0, "h2": 1.5})
    folder = folders.race(tmp_path, "20261119-100000", {"h1": 1.0, "h2": 3.0}, seed=2)
    document = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    comparison = document["points"][0]["comparison"]
    comparison["arms"][1]["validity"] = {
        "verdict": "invalid",
        "reasons": [{"code": "failed", "verdict": "invalid", "text": "1 % failed"}],
    }
    write_json(folder / "result.json", document)
    code, out, _ = trilane("20261118", "20261119", "--fail-if", "h2:rate>1.1", at=tmp_path)
    assert code == 4
    assert "B, HTTP/2: 1 % failed" in out
    assert "an invalid run is not judged" in out
    assert "; HTTP/2 ran invalid. " in " ".join(out.split())


def test_another_workload_is_refused_unless_forced(tmp_path: Path, trilane: Trilane) -> None:
    folders.lab(tmp_path, "20261118-100000", {"h1": 1.0, "h2": 1.5})
    folders.lab(
        tmp_path, "20261119-100000", {"h1": 1.0, "h2": 1.5}, workload={"kind": "urls", "count": 9}
    )
    code, out, err = trilane("20261118", "20261119", at=tmp_path)
    assert (code, out) == (1, "")
    assert "different workloads" in err
    assert "count: 3000 in A, 9 in B" in err
    assert "--force" in err
    code, out, _ = trilane("20261118", "20261119", "--force", at=tmp_path)
    assert code == 0
    assert "! Suspect. " in out
    assert "another workload: count: 3000 | 9" in out


def test_differences_of_machine_and_software_are_told(tmp_path: Path) -> None:
    folders.race(tmp_path, "20261118-100000", {"h1": 1.0, "h2": 1.5})
    other = {**folders.MACHINE, "cpu": "Another CPU"}
    folder = folders.race(tmp_path, "20261119-100000", {"h1": 1.0, "h2": 1.5}, machine=other)
    file = folder / "result.json"
    text = file.read_text(encoding="utf-8").replace("0123abc", "4567def")
    file.write_text(text, encoding="utf-8")
    document = compared(tmp_path, "20261118", "20261119")
    told = {(row.scope, row.name): (row.a, row.b) for row in document.differences}
    assert told["machine", "cpu"] == ("Test CPU", "Another CPU")
    assert told["software", "client revision"] == ("0123abc", "4567def")
    assert all(row.arms == ["h1", "h2"] for row in document.differences)
    assert [
        reason.text for reason in document.validity.reasons if reason.code == "different_machines"
    ] == ["A and B ran on different machines"]


def test_points_of_a_sweep_are_compared_where_both_have_them(tmp_path: Path) -> None:
    folders.lab(tmp_path, "20261118-100000", {"h1": 1.0, "h2": 1.5}, points=(100, 1000))
    folders.lab(tmp_path, "20261119-100000", {"h1": 1.0, "h2": 1.5}, points=(1000, 9000))
    document = compared(tmp_path, "20261118", "20261119")
    assert {row.point for row in document.ratios} == {1000}
    assert document.only == OneSided(a=["h1 at 100", "h2 at 100"], b=["h1 at 9000", "h2 at 9000"])


def test_several_runs_on_a_side_count_one_value_each(tmp_path: Path) -> None:
    stamps = [f"202611{day}-100000" for day in range(11, 19)]
    for seed, stamp in enumerate(stamps):
        factors = {"h1": 1.0, "h2": 1.5 if seed < 4 else 1.95}
        folders.race(tmp_path, stamp, factors, seed=seed + 1, blocks=6)
    document = compared(tmp_path, ",".join(stamps[:4]), ",".join(stamps[4:]))
    row = rows(document, "requests_per_s")["h2"]
    assert document.unit == "run"
    assert (row.a_values, row.b_values) == (4, 4)
    assert row.ratio == pytest.approx(1.3, rel=0.08)


def test_sides_of_different_kind_are_refused(state: Path) -> None:
    with pytest.raises(NotComparable, match="one value per block, B one per run"):
        compared(state, A, f"{FASTER},{SAME}")
    with pytest.raises(NotComparable, match="are the same"):
        compared(state, A, A)
    with pytest.raises(BadRun, match="twice"):
        compared(state, f"{A},{A}", SAME)


def load_files(folder: Path, name: str, rate: float, count: int, **changes: Any) -> str:
    files = []
    for number in range(count):
        file = folder / f"{name}{number}.json"
        write_json(file, run("h2", rate=rate * (1 + 0.003 * number), **changes))
        files.append(str(file))
    return ",".join(files)


def test_files_of_load_are_compared_when_there_are_several(tmp_path: Path) -> None:
    a = load_files(tmp_path, "a", 50_000, 5)
    b = load_files(tmp_path, "b", 60_000, 5)
    document = compared(tmp_path, a, b)
    row = rows(document, "requests_per_s")["load"]
    assert document.unit == "file"
    assert row.finding == "higher"
    assert row.ratio == pytest.approx(1.2, rel=0.01)


def test_a_single_file_of_load_is_refused_with_the_way_out(tmp_path: Path) -> None:
    one = load_files(tmp_path, "a", 50_000, 1)
    with pytest.raises(BadRun, match="a single run has no interval") as caught:
        sides.load(one, tmp_path)
    assert "trilane compare a1.json,a2.json" in str(caught.value)


def test_files_that_are_no_runs_are_named(tmp_path: Path, state: Path) -> None:
    other = tmp_path / "x.json"
    write_json(other, {"schema": "trilane.lab/1"})
    with pytest.raises(BadRun, match=r"x\.json has schema 'trilane\.lab/1'"):
        sides.load(str(other), state)
    other.write_text("{", encoding="utf-8")
    with pytest.raises(BadRun, match=r"x\.json is not a JSON file"):
        sides.load(str(other), state)
    run_file = load_files(tmp_path, "a", 50_000, 1)
    with pytest.raises(BadRun, match="cannot be mixed"):
        sides.load(f"{run_file},{A}", state)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nothing", A), 1, "'nothing' names no run folder"),
        ((A, SAME, "-m", "p98"), 1, "'p98' is not a measure of both A and B: requests_per_s, p50"),
        ((A, SAME, "-a", "h3"), 1, "'h3' is not an arm of both A and B: h1, h2"),
        ((A, SAME, "--control", "h3"), 1, "'h3' is not an arm"),
        ((A, SAME, "--margin", "2"), 2, "a share such as 5%"),
        ((A,), 2, "Missing argument 'B'"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    trilane: Trilane, arguments: tuple[str, ...], code: int, said: str
) -> None:
    found, out, err = trilane(*arguments)
    assert (found, out) == (code, "")
    assert said in err
    assert "Traceback" not in err


def test_an_interrupted_run_is_compared_and_marked(tmp_path: Path) -> None:
    folders.race(tmp_path, "20261118-100000", {"h1": 1.0, "h2": 1.5})
    folders.race(tmp_path, "20261119-100000", {"h1": 1.0, "h2": 1.5}, status="interrupted")
    document = compared(tmp_path, "20261118", "20261119")
    assert document.validity.verdict == "suspect"
    assert any("is interrupted" in reason.text for reason in document.validity.reasons)


def altered_race(state: Path, stamp: str, change: Mapping[str, object], seed: int) -> None:
    """A race of which every run of HTTP/2 is changed."""
    made = races.race({"h1": 1.0, "h2": 1.5}, seed=seed, noise=0.004, machine=folders.MACHINE)
    made = with_runs(made, lambda sample: change if sample.arm == "h2" else {})
    folder = folders.race(state, stamp, {"h1": 1.0, "h2": 1.5})
    shutil.rmtree(folder / "runs")
    folders.keep(folder, LabResult.of_race(paired.compare(made)))


def test_an_arm_that_read_another_body_in_b_is_not_judged(tmp_path: Path) -> None:
    for day, size in ((18, 100), (19, 2000)):
        body = {"target.body": Body(bytes=size, crc32="0a0b0c0d")}
        altered_race(tmp_path, f"202611{day}-100000", body, day)
    document = compared(tmp_path, "20261118", "20261119")
    assert rows(document, "requests_per_s")["h2"].finding == "invalid"
    assert rows(document, "requests_per_s")["h1"].finding != "invalid"
    assert document.validity.verdict == "invalid"
    assert document.validity.reasons[0].text == (
        "HTTP/2: different bodies are never ranked: A read 100 bytes with CRC-32 0a0b0c0d, "
        "B read 2,000 bytes with CRC-32 0a0b0c0d"
    )
    assert "; HTTP/2 ran invalid." in document.verdict
    # What is divided by such an arm is not judged either.
    divided = compared(tmp_path, "20261118", "20261119", replace(WANTED, control="h2"))
    assert {row.finding for row in divided.ratios} == {"invalid"}


def test_what_is_found_between_suspect_runs_is_called_suspect(tmp_path: Path) -> None:
    folders.race(tmp_path, "20261118-100000", {"h1": 1.0, "h2": 1.5}, noise=0.004)
    altered_race(tmp_path, "20261119-100000", {"validity": validity("steal")}, 2)
    document = compared(tmp_path, "20261118", "20261119")
    assert document.validity.verdict == "suspect"
    assert document.verdict.startswith("Suspect. ")
    assert document.said.confidence.doubts[0].text.startswith("B, HTTP/2: steal (")
    folders.race(tmp_path, "20261117-100000", {"h1": 0.5, "h2": 0.75}, noise=0.004)
    slower = compared(tmp_path, "20261117", "20261119")
    assert slower.verdict.startswith("Suspect. 2 of 2 arms differ in requests/s, most HTTP/")
