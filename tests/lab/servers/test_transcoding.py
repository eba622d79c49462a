"""The experiment `transcoding`, each form once as `--quick` has it, with a block or two."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from peers.running import absent
from repository import DOCS
from trilane.lab import Experiment, study
from trilane.lab.asked import Wanted
from trilane.lab.clients import go_bench
from trilane.lab.processes import launch
from trilane.lab.storage import benchmarks, runs


@pytest.fixture(scope="module", autouse=True)
def _needs_go_and_a_new_engine() -> None:
    if launch.find_program("go") is None:
        absent(go_bench.INSTALL)
    told = subprocess.run(
        [sys.executable, "-m", "trilane", "load", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    if "--grpc" not in told.stdout:
        absent("the extension was built before `trilane load` could call gRPC: make develop")


def result(form: str, state: Path, blocks: int) -> tuple[dict[str, Any], Path]:
    wanted = Wanted(
        experiment=Experiment.load("transcoding"),
        form=form,
        quick=True,
        blocks=blocks,
        seed=3,
        state=state,
    )
    watcher = study.Watcher(
        say=lambda _line: None,
        begin=lambda _runs, _made: None,
        step=lambda _title, _block, _blocks, _left_s: None,
    )
    done = study.run(wanted, watcher)
    kept = json.loads(msgspec.json.encode(runs.load(done.folder).judged))
    schemas = [json.loads(path.read_text()) for path in DOCS.glob("*.schema.json")]
    registry: Registry[Any] = Registry().with_resources(
        (schema["$id"], Resource.from_contents(schema)) for schema in schemas
    )
    lab = next(schema for schema in schemas if schema["$id"].endswith(":lab:1"))
    errors = Draft202012Validator(lab, registry=registry).iter_errors(kept)
    assert [f"{error.json_path}: {error.message}" for error in errors] == []
    assert kept["skipped"] == []
    return kept, done.folder


def test_published_puts_the_posts_ratios_beside_ours(tmp_path: Path) -> None:
    kept, folder = result("published", tmp_path, 2)
    (point,) = kept["points"]
    arms = {arm["name"]: arm for arm in point["comparison"]["arms"]}
    assert set(arms) == {
        *("grpc-go", "grpc-http", "transcoder-grpc"),
        *("transcoder-http1", "transcoder-http2"),
        *("trilane-grpc", "trilane-http1", "trilane-http2"),
    }
    for arm in arms.values():
        # Other tests share the machine: suspect runs are no surprise.
        assert arm["validity"]["verdict"] != "invalid", arm["validity"]
        for measure, summary in arm["summary"].items():
            assert summary["median"] > 0, (arm["name"], measure)
    assert len(kept["published"]) == 14
    for row in kept["published"]:
        assert row["ours"]["low"] <= row["ours"]["ratio"] <= row["ours"]["high"]
    text = (folder / benchmarks.FILE).read_text()
    # Two blocks: the first two arms run twice in one of them, the others never.
    assert text.count("\nBenchmarkGRPC/GRPC_GetBook") == 3
    assert text.count("\nBenchmarkVanguard/HTTP_GetBook") == 2
    assert "GRPC/GRPC_GetBook" in kept["benchstat"]
    assert str(folder) not in kept["benchstat"]


def test_fair_calls_servers_of_two_languages_in_two_formats(tmp_path: Path) -> None:
    kept, _ = result("fair", tmp_path, 1)
    (point,) = kept["points"]
    arms = {arm["name"]: arm for arm in point["comparison"]["arms"]}
    assert {(arm["server"], arm["message"], arm["version"]) for arm in arms.values()} == {
        ("embedded", "grpc", "h2c"),
        ("embedded", "json", "h1"),
        ("embedded", "json", "h2c"),
        ("grpc-go", "grpc", "h2c"),
        ("vanguard", "json", "h1"),
        ("vanguard", "json", "h2c"),
        ("vanguard", "grpc", "h2c"),
    }
    for arm in arms.values():
        # Other tests share the machine, and may keep a short run from answering anything at all.
        assert any(sample["run"]["requests"]["ok"] for sample in arm["samples"]), arm["validity"]
        assert not any(sample["run"]["requests"]["failed"] for sample in arm["samples"]), arm[
            "validity"
        ]
        for measure, summary in arm["summary"].items():
            assert summary["median"] > 0, (arm["name"], measure)
        for sample in arm["samples"]:
            assert ("grpc" not in sample["run"]) is (arm["message"] != "grpc")
    assert arms["embedded-h1-plain-json"]["connections"] == 8
    assert arms["embedded-h2c-json"]["streams"] == 8
