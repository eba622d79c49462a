"""Connect's own conformance suite against the gateway: Connect, gRPC and gRPC-Web, h1 to h3."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from peers import connect_conformance
from peers.process import MissingProgramError
from peers.running import absent
from repository import ROOT, native

# Cases that wait, such as those of deadlines, are among hundreds for each version of HTTP.
PATIENCE_S = 600
SUMMARY = re.compile(r"Total cases: (\d+)\n(\d+) passed, (\d+) failed")
# Fewer would mean that the suite left a protocol or a version out.
MANY = 1000


@pytest.mark.timeout(PATIENCE_S + 60)
@pytest.mark.parametrize("server", connect_conformance.SERVERS)
def test_the_suite(tmp_path: Path, server: str) -> None:
    try:
        suite = connect_conformance.find_suite()
    except MissingProgramError as error:
        absent(error)
    command = [suite.runner, "--mode", "server", "--max-servers", "2"]
    command += ["--conf", str(connect_conformance.config(server))]
    command += ["--known-failing", f"@{connect_conformance.known_failing(server)}"]
    command += ["--", sys.executable, "-m", "peers.conformance_gateway"]
    command += [native(), suite.servers[server], str(suite.protos), str(tmp_path)]
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
    assert total > MANY, done.stdout
