"""Arms that are benchmarks of Go's: what is kept of a run, and what becomes of those that fail."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from jsonschema import Draft202012Validator

from peers.running import absent
from repository import DOCS
from synthetic.benchmarks import HEAD, ROW, WORKLOAD
from trilane.lab import study
from trilane.lab.asked import CannotRun, Wanted
from trilane.lab.clients import go_bench
from trilane.lab.clients.contender_run import RunFailed
from trilane.lab.clients.go_bench import Module, NotReady
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.experiment.form import Form, Stats
from trilane.lab.model.measures import BY_NAME, Beside
from trilane.lab.model.run import Run
from trilane.lab.processes import launch
from trilane.lab.storage import benchmarks

ARM = WORKLOAD.arm("go-bench", "h2c", server="tiny", benchmark="BenchmarkGRPC/GRPC_GetBook")

# What a test binary does with its flags, in a few lines: FAKE says how it goes wrong.
FAKE = """\
#!{python}
import os, sys
what = os.environ.get("FAKE", "")
if "-test.list" in sys.argv:
    print("BenchmarkGRPC\\nBenchmarkOther")
elif what == "fails":
    print("--- FAIL: BenchmarkGRPC/GRPC_GetBook-8\\n    book_test.go:7: no such book\\nFAIL")
    sys.exit(1)
elif what == "dies":
    print("panic: it broke", file=sys.stderr)
    sys.exit(2)
elif what == "mute":
    print("PASS")
elif what == "hangs":
    import time
    time.sleep(600)
else:
    print({said!r})
    open({asked!r}, "w").write(" ".join(sys.argv[1:]))
"""


def fake(folder: Path) -> Module:
    program = folder / "tiny.test"
    said = f"{HEAD}{ROW}\nPASS"
    program.write_text(
        FAKE.format(python=sys.executable, said=said, asked=str(folder / "asked")),
        encoding="utf-8",
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return Module("tiny", folder, (program,), "go1.26.0")


def run(folder: Path, limit_s: float = 30.0) -> Run:
    module = fake(folder)
    path = go_bench.binary(module, ARM.benchmark or "")
    return go_bench.run(module, path, ARM, WORKLOAD, log=folder / "log", limit_s=limit_s)


def needs_go() -> str:
    go = launch.find_program("go")
    if go is None:
        absent(go_bench.INSTALL)
    return go


@pytest.fixture
def _own_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab's builds are in a folder of the test's; what Go has compiled stays where it is."""
    compiled = subprocess.check_output([needs_go(), "env", "GOCACHE"], text=True)
    monkeypatch.setenv("GOCACHE", compiled.strip())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_run_keeps_what_was_printed_and_what_was_seen(tmp_path: Path) -> None:
    made = run(tmp_path)
    schema = json.loads((DOCS / "run.schema.json").read_text())
    problems = [
        f"{error.json_path}: {error.message}"
        for error in Draft202012Validator(schema).iter_errors(msgspec.to_builtins(made))
    ]
    assert problems == []
    values = {
        name: BY_NAME[name].read(made, Beside())
        for name in ("ns_per_op", "alloc_bytes_per_op", "allocs_per_op", "requests_per_s", "p50")
    }
    assert values == {
        "ns_per_op": 36980,
        "alloc_bytes_per_op": 9495,
        "allocs_per_op": 178,
        "requests_per_s": pytest.approx(1e9 / 36980),
        "p50": None,
    }
    cpu = BY_NAME["cpu_us_per_op"].read(made, Beside())
    # Of one process on at most every CPU for as long as an operation took.
    assert cpu is not None
    assert 0 < cpu <= 36.98 * (os.cpu_count() or 1)
    assert made.client is not None
    assert made.client.library_version == "go1.26.0"
    asked = (tmp_path / "asked").read_text()
    assert "-test.bench ^BenchmarkGRPC$/^GRPC_GetBook$ -test.benchmem -test.count 1" in asked
    assert "-test.run ^$" in asked
    assert "-test.benchtime 0.05s" in asked


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("fails", "GetBook failed: --- FAIL: .* book_test.go:7: no such book"),
        ("dies", "GetBook failed: panic: it broke"),
        ("mute", "it printed no result"),
    ],
)
def test_a_benchmark_that_fails_fails_its_run(
    fault: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", fault)
    with pytest.raises(RunFailed, match=told):
        run(tmp_path)


def test_a_benchmark_is_not_waited_for_without_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", "hangs")
    with pytest.raises(RunFailed, match=r"did not end within 0\.5 s"):
        run(tmp_path, limit_s=0.5)


def test_an_unknown_benchmark_is_told_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="no benchmark BenchmarkX, only BenchmarkGRPC, BenchmarkO"):
        go_bench.binary(fake(tmp_path), "BenchmarkX/Y")


def test_without_go_or_without_a_module_there_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "find_program", lambda _name: None)
    with pytest.raises(NotReady, match=r"go is not installed: https://go.dev/dl"):
        go_bench.ready("tiny", tmp_path)
    monkeypatch.setattr(launch, "find_program", lambda _name: "/bin/true")
    with pytest.raises(NotReady, match=r"tiny is no Go module: there is no go\.mod in"):
        go_bench.ready("tiny", tmp_path)


def tagged(folder: Path, requires: str) -> None:
    """A module whose benchmarks with the tag `other` need what `requires` says."""
    (folder / "go.mod").write_text("module trilane.test/tiny\n\ngo 1.24\n")
    (folder / "go.sum").write_text("")
    (folder / "other.mod").write_text(f"module trilane.test/tiny\n\ngo 1.24\n\n{requires}")
    (folder / "tiny_test.go").write_text(
        'package tiny\n\nimport "testing"\n\nfunc BenchmarkOne(b *testing.B) {}\n'
    )
    (folder / "other_test.go").write_text(
        "//go:build other\n\n"
        'package tiny\n\nimport (\n\t"testing"\n\n\t"trilane.test/other"\n)\n\n'
        "func BenchmarkTwo(b *testing.B) { other.Do() }\n"
    )


@pytest.mark.usefixtures("_own_builds")
def test_a_tag_has_requirements_of_its_own(tmp_path: Path) -> None:
    other, tiny = tmp_path / "other", tmp_path / "tiny"
    other.mkdir()
    tiny.mkdir()
    (other / "go.mod").write_text("module trilane.test/other\n\ngo 1.24\n")
    (other / "other.go").write_text("package other\n\nfunc Do() {}\n")
    tagged(
        tiny,
        "require trilane.test/other v0.0.0\n\nreplace trilane.test/other => ../other\n",
    )
    there = {path.name: path.read_bytes() for path in tiny.iterdir()}
    plain = go_bench.ready("tiny", tiny)
    assert go_bench.binary(plain, "BenchmarkOne").is_file()
    with pytest.raises(NotReady, match="no benchmark BenchmarkTwo, only BenchmarkOne"):
        go_bench.binary(plain, "BenchmarkTwo")
    both = go_bench.ready("tiny", tiny, ["-tags", "other"])
    assert go_bench.binary(both, "BenchmarkTwo").is_file()
    assert {path.name: path.read_bytes() for path in tiny.iterdir()} == there


@pytest.mark.usefixtures("_own_builds")
def test_a_tag_whose_requirements_cannot_be_had_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOPROXY", "off")
    tagged(tmp_path, "require trilane.test/other v1.2.3\n")
    assert go_bench.ready("tiny", tmp_path).binaries
    with pytest.raises(NotReady, match=r"other_test\.go:8:2: module lookup disabled by GOPROXY"):
        go_bench.ready("tiny", tmp_path, ["-tags", "other"])


def experiment(*names: str) -> Experiment:
    form = Form(
        name="fair",
        baseline="one",
        rank="ns_per_op",
        measures=("ns_per_op", "allocs_per_op", "cpu_us_per_op"),
        workload=WORKLOAD,
        arms=tuple(
            WORKLOAD.arm("go-bench", "h1", name=name, server="tiny", benchmark=benchmark)
            for name, benchmark in zip(("one", "two", "three"), names, strict=False)
        ),
        stats=Stats(blocks=2),
    )
    return Experiment("trial", "A trial", "Does it run?", {"fair": form})


def made_of(asked: Experiment, state: Path) -> tuple[study.Result, list[str]]:
    said: list[str] = []
    watcher = study.Watcher(
        say=said.append,
        begin=lambda _runs, _made: None,
        step=lambda _title, _block, _blocks, _left_s: None,
    )
    wanted = Wanted(experiment=asked, form="fair", blocks=2, seed=5, state=state)
    return study.run(wanted, watcher), said


def test_an_experiment_of_benchmarks_leaves_a_file_for_benchstat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab_schema: Draft202012Validator
) -> None:
    needs_go()
    monkeypatch.chdir(tmp_path)
    module = tmp_path / "servers" / "tiny"
    module.mkdir(parents=True)
    (module / "go.mod").write_text("module trilane.test/tiny\n\ngo 1.24\n")
    (module / "tiny_test.go").write_text(
        'package tiny\n\nimport "testing"\n\n'
        "var kept []byte\n\n"
        "func BenchmarkMake(b *testing.B) {\n"
        '\tb.Run("Small", func(b *testing.B) { for b.Loop() { kept = make([]byte, 1000) } })\n'
        '\tb.Run("Large", func(b *testing.B) { for b.Loop() { kept = make([]byte, 9000) } })\n'
        '\tb.Run("Broken", func(b *testing.B) { b.Fatal("out of order") })\n'
        "}\n"
    )
    names = ("BenchmarkMake/Small", "BenchmarkMake/Large", "BenchmarkMake/Broken")
    done, said = made_of(experiment(*names), tmp_path / "state")
    kept = json.loads((done.folder / "result.json").read_text())
    problems = [f"{error.json_path}: {error.message}" for error in lab_schema.iter_errors(kept)]
    assert problems == []
    assert "building the benchmarks of tiny" in said
    (skipped,) = kept["skipped"]
    assert skipped["arm"] == "three"
    assert "out of order" in skipped["reason"]
    comparison = kept["points"][0]["comparison"]
    assert [arm["title"] for arm in comparison["arms"]] == [
        "go-bench, HTTP/1.1, serial",
        "go-bench, HTTP/1.1, serial",
    ]
    for arm in comparison["arms"]:
        assert arm["server"] is None
        assert arm["summary"]["allocs_per_op"]["median"] == 1
        assert arm["summary"]["ns_per_op"]["median"] > 0
        for sample in arm["samples"]:
            # Others may disturb a run; a server of its own it has not.
            assert 0 <= sample["server"]["others_busy"] <= 1
            assert sample["server"]["cpu_us_per_request"] is None
    text = (done.folder / benchmarks.FILE).read_text()
    assert text.count("pkg: trilane.test/tiny\n") == 1
    # Two blocks, and each arm twice in one of them.
    assert text.count("\nBenchmarkMake/Small") == 3
    assert text.count("\nBenchmarkMake/Large") == 3
    # This module does not have the tool.
    assert kept["benchstat"] is None


def test_without_its_module_an_arm_is_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launch, "find_program", lambda _name: "/bin/true")
    (tmp_path / "servers" / "tiny").mkdir(parents=True)
    with pytest.raises(CannotRun, match="baseline one cannot run here: tiny is no Go module"):
        made_of(experiment("BenchmarkMake"), tmp_path / "state")
