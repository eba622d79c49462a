"""Connect's own conformance suite: against the gateway, and of `trilane load` as a client."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from others import others
from peers import connect_conformance
from peers.connect_conformance import Suite
from peers.process import MissingProgramError
from peers.running import absent
from repository import ROOT, native

# Cases that wait, such as those of deadlines, are among hundreds for each version of HTTP.
PATIENCE_S = 1200
SUMMARY = re.compile(r"Total cases: (\d+)\n(\d+) passed, (\d+) failed")
# One version shows what the modes of the client differ in.
OF_ONE_VERSION = ("--run", "**/HTTPVersion:2/**/TLS:false/**")
# What stays in `make test`: one encoding of content, for the client over one protocol and without
# deadlines, which are of the clock.
FEW = (
    *("--run", "**/HTTPVersion:2/**/Codec:CODEC_PROTO/**/TLS:false/**"),
    *("--skip", "**/Compression:COMPRESSION_GZIP/**"),
)
FEW_OF_CLIENT = (
    *("--run", "**/HTTPVersion:2/Protocol:PROTOCOL_GRPC/Codec:CODEC_PROTO/**/TLS:false/**"),
    *("--skip", "**/Compression:COMPRESSION_GZIP/**", "--skip", "Timeouts/**"),
)
# Fewer cases than the last number would mean that the suite left a protocol or a version out.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
GATEWAY = [
    pytest.param("grpcserver", FEW, 100, id="few"),
    *(
        pytest.param(server, (), 1000, id=server, marks=others)
        for server in connect_conformance.SERVERS
    ),
]
CLIENT = [
    pytest.param("wire", FEW_OF_CLIENT, 50, id="few"),
    pytest.param("wire", (), 3000, id="wire", marks=others),
    pytest.param("codec", OF_ONE_VERSION, 500, id="codec", marks=others),
]


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
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stdout
    summary = SUMMARY.search(done.stdout)
    assert summary is not None, done.stdout
    total, _, failed = map(int, summary.groups())
    assert failed == 0, done.stdout
    return total


@pytest.mark.timeout(PATIENCE_S + 60)
@pytest.mark.parametrize(("server", "some", "many"), GATEWAY)
def test_the_gateway(
    tmp_path: Path, suite: Suite, server: str, some: tuple[str, ...], many: int
) -> None:
    argv = [sys.executable, "-m", "peers.conformance_gateway", native(), suite.servers[server]]
    argv += [str(suite.protos), str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=ENVIRONMENT) as gateway:
        assert gateway.stdout is not None
        try:
            assert gateway.stdout.readline() == b"ready\n"
            program = ("peers.conformance_relay", str(tmp_path))
            assert run(suite, "server", server, *program, some=some) > many
        finally:
            gateway.terminate()


@pytest.mark.timeout(PATIENCE_S + 60)
@pytest.mark.parametrize(("mode", "some", "many"), CLIENT)
def test_the_load_engine(
    tmp_path: Path, suite: Suite, mode: str, some: tuple[str, ...], many: int
) -> None:
    program = ["peers.conformance_client", native(), mode, str(suite.protos), str(tmp_path)]
    assert run(suite, "client", "client", *program, some=some) > many
