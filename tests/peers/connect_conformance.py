"""Connect's conformance suite, at the version that `connect-conformance/go.mod` pins.

Its cases are asked by its own clients, of connect-go and of grpc-go, of a server under test. This
is a gateway of ours before one of the suite's own servers of gRPC, both started by
`conformance_gateway`. The other way round, its own servers are called by a client under test, which
is `trilane load`, started by `conformance_client`.
"""

from __future__ import annotations

import functools
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import go_tool
from .process import MissingProgramError, find

_HERE = Path(__file__).parent
_MODULE = "connect-conformance"
_SUITE = "connectrpc.com/conformance"
# The suite's servers, of grpc-go and of connect-go.
SERVERS = ("grpcserver", "referenceserver")


@dataclass(frozen=True)
class Suite:
    """Paths: of what runs the cases, of servers of gRPC by name, and of the .proto files."""

    runner: str
    servers: dict[str, str]
    protos: Path


def config(name: str) -> Path:
    """What applies with one of the `SERVERS` behind the gateway, or to the `client`."""
    return _HERE / _MODULE / f"{name}.yaml"


def known_failing(name: str) -> Path:
    """Which cases fail with it, and why."""
    return _HERE / _MODULE / f"{name}-known-failing.txt"


@functools.cache
def find_suite() -> Suite:
    """The suite, built when first asked for; raises `MissingProgramError` where Go cannot."""
    runner = go_tool.build(_MODULE, f"{_SUITE}/cmd/connectconformance")
    servers = {name: go_tool.build(_MODULE, f"{_SUITE}/cmd/{name}") for name in SERVERS}
    done = subprocess.run(
        [find("go", "https://go.dev/dl"), "list", "-m", "-f", "{{.Dir}}", _SUITE],
        cwd=_HERE / _MODULE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode != 0:
        raise MissingProgramError(_SUITE, f"go list said: {done.stderr.strip()}")
    return Suite(runner, servers, Path(done.stdout.strip()) / "proto")
