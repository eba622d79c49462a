"""`trilane compare` with files of other load generators."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from repository import DOCS
from synthetic.runs import run
from trilane.cli import run as command
from trilane.lab.storage.store import write_json
from unit.generators.test_reading import FILES

OHA, K6, VEGETA = (
    str(FILES / name) for name in ("oha.json", "k6-handle.json", "vegeta-report.json")
)
Trilane = Callable[..., tuple[int, str, str]]


@pytest.fixture
def trilane(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Trilane:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = command(["compare", *arguments, "--state", str(tmp_path)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def ours(folder: Path, name: str = "run.json", rate: float = 50_000, **changes: Any) -> str:
    write_json(folder / name, run("h2", rate=rate, **changes))
    return str(folder / name)


def oha(folder: Path, name: str, rate: float) -> str:
    """A run of oha's of two seconds in which nothing failed."""
    document = json.loads(Path(OHA).read_text(encoding="utf-8"))
    document["statusCodeDistribution"] = {"200": int(2 * rate)}
    document["errorDistribution"] = {}
    (folder / name).write_text(json.dumps(document), encoding="utf-8")
    return str(folder / name)


def test_single_runs_are_shown_side_by_side_and_no_winner_is_named(
    trilane: Trilane, tmp_path: Path
) -> None:
    code, out, err = trilane(ours(tmp_path), K6)
    assert code == 0, err
    words = " ".join(out.split())
    assert words.startswith(
        "✓ No winner: trilane's and k6's side is a single run, and a single run has no spread. "
        "Four runs or more of each, made in turns and named with commas, have intervals. "
        "The tools do not measure the same latency."
    )
    assert "ok requests/s 50,000 1,000" in words
    # 1.8 times 1.2 ms of ours, and k6's.
    assert "p99 latency (ms) 2.16 21.5" in words
    assert "client CPU per request (µs) 14.0 –" in words
    assert "B does not tell: the URL, the version of HTTP, connections" in words


def test_the_document_is_as_documented(trilane: Trilane, tmp_path: Path) -> None:
    schema = json.loads((DOCS / "beside.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    code, out, _ = trilane(ours(tmp_path), VEGETA, "--format", "json", "-m", "p99")
    document = json.loads(out)
    Draft202012Validator(schema).validate(document)
    # Five of 2,000 requests failed.
    assert code == 4
    assert document["validity"]["verdict"] == "invalid"
    assert [measure["name"] for measure in document["measures"]] == ["p99"]
    assert [document[side][0]["tool"] for side in "ab"] == ["trilane", "vegeta"]
    assert document["b"][0]["latency"]["p99"] == pytest.approx(0.0215)


def test_two_other_tools_are_set_beside_each_other(trilane: Trilane) -> None:
    code, out, _ = trilane(K6, VEGETA)
    assert code == 4
    assert "A  k6" in out
    assert "B  vegeta" in out
    assert "vegeta-report.json: 0.25 % of the requests failed" in " ".join(out.split())


def test_several_runs_on_each_side_are_compared_with_intervals(
    trilane: Trilane, tmp_path: Path
) -> None:
    a = ",".join(oha(tmp_path, f"oha{n}.json", 40_000 * (1 + 0.003 * n)) for n in range(4))
    b = ",".join(ours(tmp_path, f"b{n}.json", 50_000 * (1 + 0.003 * n)) for n in range(4))
    code, out, err = trilane(a, b, "--format", "json")
    assert code == 0, err
    contrast = json.loads(out)
    assert contrast["schema"] == "trilane.contrast/1"
    row = next(row for row in contrast["ratios"] if row["measure"] == "requests_per_s")
    assert row["finding"] == "higher"
    assert row["ratio"] == pytest.approx(1.25, rel=0.01)
    assert {reason["code"] for reason in contrast["validity"]["reasons"]} == {
        "unknown_machine",
        "unknown_workload",
    }
    # What oha does not tell is unknown, and no other workload.
    assert contrast["differences"] == []
    measured = {measure["name"] for measure in contrast["measures"]}
    assert {"requests_per_s", "p50", "p99"} <= measured
    assert "client_cpu_us_per_request" not in measured
    assert "oha (A) and trilane load, HTTP/2 (B)" in contrast["verdict"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((K6, OHA, "--fail-if", "p99>1.1"), 2, "--fail-if needs runs with intervals"),
        ((K6, OHA, "--control", "h1"), 2, "--control needs runs with intervals"),
        ((K6, OHA, "-m", "p98"), 1, "'p98' is no measure that one of the files tells"),
        ((K6, K6), 1, "name a file twice"),
        ((OHA, "latest"), 1, "is one run of oha: a single run has no interval"),
        ((f"{OHA},{K6}", f"{OHA},{VEGETA}"), 1, "mixes runs of k6 and oha"),
    ],
)
def test_what_cannot_be_done_is_said(
    trilane: Trilane, arguments: tuple[str, ...], code: int, said: str
) -> None:
    found, out, err = trilane(*arguments)
    assert (found, out) == (code, "")
    assert said in err
