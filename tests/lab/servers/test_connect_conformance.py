"""Connect's own conformance suite: against the gateway, and of `trilane load` as a client."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from peers import connect_conformance
from peers.connect_conformance import Suite
from peers.process import MissingProgramError
from peers.running import absent
from repository import ROOT, native

# Cases that wait, such as those of deadlines, are among hundreds for each version of HTTP.
PATIENCE_S = 1200
SUMMARY = re.compile(r"Total cases: (\d+)\n(\d+) passed, (\d+) failed")
# Fewer would mean that the suite left a protocol or a version out.
MANY = 1000
MANY_OF_CLIENT = 3000
# One version shows what the modes differ in.
OF_CODEC = ("--run", "**/HTTPVersion:2/**/TLS:false/**")
MANY_OF_CODEC = 500


@pytest.fixture(scope="module")
def suite() -> Suite:
    try:
        return connect_conformance.find_suite()
    except MissingProgramError as error:
        absent(error)


def run(suite: Suite, mode: str, name: str, *program: str, some: tuple[str, ...] = ()) -> int:
    """Run the cases that apply, of which all but the known ones must pass; how many they are."""
    command = [suite.runner, "--mode", mode, "--max-servers", "2", *some]
    command += ["--conf", str(connect_conformance.config(name))]
    command += ["--known-failing", f"@{connect_conformance.known_failing(name)}"]
    command += ["--", sys.executable, "-m", *program]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
    )
    assert done.returncode == 0, done.stdout
    summary = SUMMARY.search(done.stdout)
    assert summary is not None, done.stdout
    total, _, failed = map(int, summary.groups())
    assert failed == 0, done.stdout
    return total


@pytest.mark.timeout(PATIENCE_S + 60)
@pytest.mark.parametrize("server", connect_conformance.SERVERS)
def test_the_gateway(tmp_path: Path, suite: Suite, server: str) -> None:
    program = ["peers.conformance_gateway", native(), suite.servers[server]]
    total = run(suite, "server", server, *program, str(suite.protos), str(tmp_path))
    assert total > MANY


@pytest.mark.timeout(PATIENCE_S + 60)
@pytest.mark.parametrize(
    ("mode", "some", "many"), [("wire", (), MANY_OF_CLIENT), ("codec", OF_CODEC, MANY_OF_CODEC)]
)
def test_the_load_engine(
    tmp_path: Path, suite: Suite, mode: str, some: tuple[str, ...], many: int
) -> None:
    program = ["peers.conformance_client", native(), mode, str(suite.protos), str(tmp_path)]
    assert run(suite, "client", "client", *program, some=some) > many
