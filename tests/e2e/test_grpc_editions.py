"""Schemas of an edition, compiled by protoc: messages are those of the `protobuf` package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

from peers.grpc_recorder import recorder

from .loading import load, load_text

_SOURCE = """
edition = "2023";
package e.v1;

message Ask {
  int32 explicit = 1;
  int32 implicit = 2 [features.field_presence = IMPLICIT];
  repeated int32 packed = 3;
  repeated int32 expanded = 4 [features.repeated_field_encoding = EXPANDED];
  Inner prefixed = 5;
  Inner delimited = 6 [features.message_encoding = DELIMITED];
  map<string, int32> counts = 7;
  oneof choice {
    int32 left = 8;
    string right = 9;
  }
  message Inner {
    string text = 1 [features.field_presence = IMPLICIT];
  }
  message Option {
    string text = 1;
  }
  Option option = 10;
}

service Questions {
  rpc Put(Ask) returns (Ask);
}
"""
_MESSAGES: list[dict[str, Any]] = [
    {},
    {"explicit": 0, "implicit": 0, "option": {"text": ""}},
    {"explicit": 7, "implicit": 8, "option": {"text": "x"}},
    {"packed": [1, 2, 300], "expanded": [1, 2, 300]},
    {"prefixed": {"text": "a"}, "delimited": {"text": "b"}},
    {"counts": {"one": 1}, "left": 0},
    {"right": ""},
]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The descriptor set of the file above."""
    folder = tmp_path_factory.mktemp("editions")
    (folder / "e.proto").write_text(_SOURCE)
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", "--include_imports"]
    target = folder / "e.pb"
    done = subprocess.run(
        [*command, f"--descriptor_set_out={target}", "e.proto"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done
    return target


def test_messages_are_those_of_protobuf(compiled: Path) -> None:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes()).file:
        pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("e.v1.Ask"))
    body = "\n".join(map(json.dumps, _MESSAGES))
    with recorder() as found:
        run = load(
            *("--grpc", "e.v1.Questions/Put", "-b", body, "--descriptor-set", str(compiled)),
            *("--h2c", "-c", "1", "-n", str(len(_MESSAGES)), found.server.base),
        )
    assert run.good["requests"]["ok"] == len(_MESSAGES)
    sent = [payload for call in found.calls for _, payload in call.messages]
    for payload, message in zip(sent, _MESSAGES, strict=True):
        expected = json_format.ParseDict(message, kind())
        assert payload == expected.SerializeToString(deterministic=True), message


@pytest.fixture
def protoc(tmp_path: Path) -> dict[str, str]:
    """An environment in which the compiler of grpcio-tools is found by its usual name."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "protoc"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m grpc_tools.protoc "$@"\n')
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


_CALL = ("--grpc", "e.v1.Questions/Put", "--h2c")


def test_a_file_in_an_edition_is_refused_with_the_way_out(
    compiled: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    file = str(compiled.with_name("e.proto"))
    run = load_text(*_CALL, "--proto", file, "http://127.0.0.1:9/")
    assert run.code == 1, run
    assert "edition 2023" in run.message
    assert "install protoc" in run.message
    assert "--descriptor-set" in run.message


def test_a_file_in_an_edition_is_compiled_by_protoc(
    compiled: Path, protoc: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", protoc["PATH"])
    # In the folder of its package, beside one of proto3 that imports it, and what is known.
    folder = tmp_path / "e" / "v1"
    folder.mkdir(parents=True)
    (folder / "e.proto").write_text(
        _SOURCE.replace("package e.v1;", 'package e.v1;\nimport "google/api/annotations.proto";')
    )
    (folder / "user.proto").write_text(
        'syntax = "proto3";\npackage e.v1;\nimport "e/v1/e.proto";\n'
        "service Users { rpc Put(Ask) returns (Ask); }\n"
    )
    for name, method in (("e.proto", "Questions"), ("user.proto", "Users")):
        with recorder() as found:
            run = load(
                *("--grpc", f"e.v1.{method}/Put", "-b", '{"delimited": {"text": "b"}}'),
                *("--proto", str(folder / name), "--h2c", "-c", "1", "-n", "2"),
                found.server.base,
            )
        assert run.good["grpc"]["schema"] == "--proto"
        # A group: field 6, whose text is field 1.
        assert [payload for call in found.calls for _, payload in call.messages] == [
            b"\x33\x0a\x01b\x34"
        ] * 2
    (folder / "e.proto").write_text('edition = "2023";\npackage e.v1;\nmessage {}')
    run = load_text(*_CALL, "--proto", str(folder / "e.proto"), "http://127.0.0.1:9/")
    assert run.code == 1
    assert "protoc said: " in run.message
    assert "e/v1/e.proto:3" in run.message
