"""Experiments whose arms are calls of a service, or benchmarks of Go's."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from repository import ROOT
from trilane.lab import BadExperiment, Experiment
from trilane.lab.experiment import describe, experiment_file, vocabulary

SCHEMA = json.loads((ROOT / "docs" / "experiment.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)

HEAD = """\
schema = "trilane.experiment/1"
name = "sample"
title = "A sample"
question = "Which?"
"""
CALLS = f"""\
{HEAD}
[forms.fair]
baseline = "grpc-go-h2c-grpc"
rank = "mean_s"
measures = ["mean_s", "server_cpu_us_per_request"]

[forms.fair.workload]
kind = "call"
duration = "200ms"
in_flight = 8

[forms.fair.sweep]
key = "in_flight"
values = [1, 8]

[[forms.fair.matrix]]
client = ["engine"]
server = ["embedded", "grpc-go"]
version = ["h2c", "h3"]
strategy = ["load"]
message = ["json", "grpc"]
connections = 1
exclude = [
  {{ server = "grpc-go", message = "json" }},
  {{ server = "grpc-go", version = "h3" }},
]

[[forms.fair.arms]]
client = "engine"
server = "vanguard"
version = "h1"
tls = false
strategy = "load"
message = "protobuf"

[[forms.fair.arms]]
client = "engine"
version = "h2"
strategy = "load"
message = "grpc"
mode = "codec"
"""
BENCHMARKS = f"""\
{HEAD}
[forms.fair]
baseline = "one"
rank = "ns_per_op"
measures = ["ns_per_op", "alloc_bytes_per_op", "allocs_per_op", "cpu_us_per_op"]
server = "go-library"

[forms.fair.workload]
kind = "benchmark"
duration = "1s"

[[forms.fair.arms]]
name = "one"
client = "go-bench"
benchmark = "BenchmarkGRPC/GRPC_GetBook"
version = "h2c"

[[forms.fair.arms]]
name = "two"
client = "go-bench"
benchmark = "BenchmarkOther"
version = "h1"
"""


def loaded(folder: Path, text: str) -> Experiment:
    path = folder / "sample.toml"
    path.write_text(text, encoding="utf-8")
    return experiment_file.read(path)


def test_calls_are_named_by_server_version_and_format(tmp_path: Path) -> None:
    VALIDATOR.validate(tomllib.loads(CALLS))
    made = loaded(tmp_path, CALLS)
    form = made.forms["fair"]
    assert {arm.name: arm.title for arm in form.arms} == {
        "vanguard-h1-plain-protobuf": "vanguard, protobuf, h1 plain",
        "embedded-h2-grpc-codec": "embedded, gRPC with its codec, h2",
        "embedded-h2c-json": "embedded, JSON, h2c",
        "embedded-h2c-grpc": "embedded, gRPC, h2c",
        "embedded-h3-json": "embedded, JSON, h3",
        "embedded-h3-grpc": "embedded, gRPC, h3",
        "grpc-go-h2c-grpc": "grpc-go, gRPC, h2c",
    }
    assert Experiment.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    eight = form.at(8)
    # In flight: connections over HTTP/1.1, streams of one connection otherwise.
    shapes = {arm.name: (arm.connections, arm.streams) for arm in eight.arms}
    assert shapes["vanguard-h1-plain-protobuf"] == (8, 1)
    assert shapes["embedded-h3-grpc"] == (1, 8)
    assert {arm.in_flight for arm in form.at(1).arms} == {1}


def test_benchmarks_need_a_name_and_a_module(tmp_path: Path) -> None:
    VALIDATOR.validate(tomllib.loads(BENCHMARKS))
    made = loaded(tmp_path, BENCHMARKS)
    (one, two) = made.forms["fair"].arms
    assert (one.benchmark, one.server, one.strategy) == (
        "BenchmarkGRPC/GRPC_GetBook",
        "go-library",
        "serial",
    )
    assert two.title == "go-bench, HTTP/1.1, serial"
    assert Experiment.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    counted = loaded(tmp_path, BENCHMARKS.replace('duration = "1s"', "count = 500"))
    assert "500 iterations" in describe.workload(counted.forms["fair"])


@pytest.mark.parametrize(
    ("old", "new", "told", "schema"),
    [
        ('message = "protobuf"', "", "message is missing: add message", False),
        ('message = "protobuf"', 'message = "xml"', "'xml' is not a message", True),
        ('["json", "grpc"]', '["json", "xml"]', "matrix[0].message[1]: 'xml' is not a mes", True),
        ('message = "protobuf"', 'message = "grpc"', "gRPC needs HTTP/2 or HTTP/3", False),
        ('mode = "codec"', 'mode = "wired"', "'wired' is not a mode: did you mean wire?", True),
        ('message = "protobuf"', 'message = "json"\nmode = "wire"', "goes with message", False),
        ('version = "h2"', 'version = "h2"\ntls = false', "tls: is for h1", False),
        (
            'strategy = "load"\nmessage = "protobuf"',
            'message = "protobuf"',
            "calls are made with strategy",
            False,
        ),
        ('message = "protobuf"', 'message = "json"\ngzip = true', "are made without", False),
        ('message = "protobuf"', 'message = "json"\nbenchmark = "BenchmarkA"', "goes with", False),
        ('kind = "call"', 'kind = "urls"\npaths = ["/"]', "goes with a workload of kind", False),
        ('kind = "call"', 'kind = "call"\npaths = ["/"]', 'goes with kind = "urls"', True),
        ('kind = "call"', 'kind = "call"\nmethod = "POST"', "brings its own", True),
        ('kind = "call"', 'kind = "call"\ncheck_body = true', "brings its own", True),
        ('kind = "call"', 'kind = "call"\nbody_bytes = 5', "body: a workload of kind call", True),
        ('key = "in_flight"', 'key = "body_bytes"', "sweep.key: a workload of kind call", False),
        ('message = "grpc"', 'mesage = "grpc"', "unknown key: did you mean message?", True),
        ("[forms.fair.work", 'pairs = [["a"]]\n[forms.fair.work', "takes pairs of arms", True),
        (
            "[forms.fair.work",
            'pairs = [["embedded-h2c-json", "embedded-h2-json"]]\n[forms.fair.work',
            "pairs[0][1]: 'embedded-h2-json' is not an arm: did you mean embedded-h2c-json?",
            False,
        ),
        (
            "[forms.fair.work",
            'pairs = [["embedded-h2c-json", "embedded-h2c-json"]]\n[forms.fair.work',
            "pairs[0]: an arm is compared with itself",
            False,
        ),
        (
            "[forms.fair.work",
            'compare = ["verson within client"]\n[forms.fair.work',
            "toml:11: forms.fair.compare[0]: 'verson' is not a factor: did you mean version?",
            True,
        ),
        (
            "[forms.fair.work",
            'compare = ["version"]\n[forms.fair.work',
            "compare[0]: 'version' has not the form FACTOR within FACTOR: write for example",
            True,
        ),
        (
            "[forms.fair.work",
            'compare = ["session within client"]\n[forms.fair.work',
            "compare[0]: no two arms differ in session alone",
            False,
        ),
        (
            "[forms.fair.work",
            'compare = ["message within server", "message within server"]\n[forms.fair.work',
            "compare[1]: 'message within server' is there already",
            True,
        ),
    ],
)
def test_what_no_call_can_be_is_told(
    old: str, new: str, told: str, schema: bool, tmp_path: Path
) -> None:
    text = CALLS.replace(old, new, 1)
    assert text != CALLS
    with pytest.raises(BadExperiment) as caught:
        loaded(tmp_path, text)
    assert told in str(caught.value)
    assert VALIDATOR.is_valid(tomllib.loads(text)) is not schema


@pytest.mark.parametrize(
    ("old", "new", "told", "schema"),
    [
        ('benchmark = "BenchmarkOther"', "", "benchmark is missing: add benchmark", False),
        ('"BenchmarkOther"', '"GetBook"', "'GetBook' is not a benchmark", True),
        ('client = "go-bench"', 'client = "engine"', "go together", False),
        ('kind = "benchmark"', 'kind = "urls"\npaths = ["/"]', "go together", False),
        ('version = "h1"', 'version = "h1"\nstrategy = "threads"', "the benchmark decides", False),
        (
            'version = "h1"',
            'version = "h1"\nnetwork = "rtt=1ms"',
            "the benchmark decides that",
            False,
        ),
        ('version = "h1"', 'version = "h1"\nsession = false', "the benchmark decides", False),
        ('server = "go-library"', "", "is the folder of servers/ that is the Go module", False),
        ('duration = "1s"', 'duration = "1s"\nwarmup = "1s"', "warms up by itself", True),
        ('duration = "1s"', 'duration = "1s"\nin_flight = 2', "says that itself", True),
        ('duration = "1s"', 'duration = "1s"\nheaders = ["a: b"]', "says that itself", True),
        ('duration = "1s"', "", "count is missing", False),
    ],
)
def test_what_no_benchmark_can_be_is_told(
    old: str, new: str, told: str, schema: bool, tmp_path: Path
) -> None:
    text = BENCHMARKS.replace(old, new, 1)
    assert text != BENCHMARKS
    with pytest.raises(BadExperiment) as caught:
        loaded(tmp_path, text)
    assert told in str(caught.value)
    assert VALIDATOR.is_valid(tomllib.loads(text)) is not schema


def test_the_schema_knows_formats_and_modes() -> None:
    for part in ("ArmTable", "MatrixTable"):
        known = SCHEMA["$defs"][part]["properties"]
        message = known["message"] if part == "ArmTable" else known["message"]["items"]
        messages = {each["const"]: each["description"] for each in message["oneOf"]}
        assert messages == vocabulary.MESSAGES
        modes = known["mode"]["oneOf"]
        assert {each["const"]: each["description"] for each in modes} == vocabulary.GRPC_MODES
    comparison = json.loads((ROOT / "docs" / "comparison.schema.json").read_text())
    arm = comparison["$defs"]["JudgedArm"]["properties"]
    assert arm["message"]["enum"] == [*vocabulary.MESSAGES, None]
    assert arm["mode"]["enum"] == [*vocabulary.GRPC_MODES, None]


def test_an_arm_of_an_older_manifest_has_none_of_this(tmp_path: Path) -> None:
    data = loaded(tmp_path, CALLS).to_dict()
    for arm in data["forms"]["fair"]["arms"]:
        arm["message"] = "json" if arm["message"] == "protobuf" else arm["message"]
        for part in ("mode", "benchmark"):
            del arm[part]
    made = Experiment.from_dict(data)
    assert {arm.mode for arm in made.forms["fair"].arms} == {None}


def test_the_arms_are_described_by_what_tells_them_apart(tmp_path: Path) -> None:
    columns, rows, same = describe.arms(loaded(tmp_path, CALLS).forms["fair"])
    assert columns == ["arm", "version", "in flight", "server", "message"]
    assert ["vanguard-h1-plain-protobuf", "h1 plain", "8 × 1", "vanguard", "protobuf"] in rows
    assert rows[1][-1] == "gRPC (codec)"
    assert same == "client engine; strategy load; network direct"
    columns, rows, _ = describe.arms(loaded(tmp_path, BENCHMARKS).forms["fair"])
    assert columns == ["arm", "client", "version", "benchmark"]
