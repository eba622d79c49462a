"""The library by Go's stacks: their own tests, the calls they have, their benchmarks."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from peers.running import absent
from trilane.lab.experiment import places
from trilane.lab.targets import running

FOLDER = places.shipped("servers") / "go-library"
SERVERS = (
    *("grpc-go", "grpc-go-http", "vanguard", "grpc-gateway", "connect-go"),
    *("vanguard-proxy", "trilane-gateway"),
)
# Building grpc-go and quic-go anew on a loaded machine.
PATIENCE_S = 600
ROWS = (
    *("ServeHTTP/GRPC", "GRPC/GRPC", "Vanguard/GRPC", "Vanguard/HTTP", "Vanguard/HTTP2"),
    *("Gateway/HTTP", "Gateway/HTTP2", "GatewayInProcess/HTTP", "GatewayInProcess/HTTP2"),
    *("Connect/GRPC", "Connect/HTTP", "Connect/HTTP2"),
)


def go(*arguments: str) -> str:
    """What the go command prints in the module's folder."""
    program = shutil.which("go")
    if program is None:
        absent("go is not installed on this machine")
    done = subprocess.run(
        [program, *arguments],
        cwd=FOLDER,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE_S,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_its_code_is_as_go_wants_it() -> None:
    go("vet", "./...")
    gofmt = shutil.which("gofmt")
    if gofmt is None:
        absent("gofmt, which comes with go, is not installed on this machine")
    done = subprocess.run(
        [gofmt, "-l", str(FOLDER)], capture_output=True, timeout=PATIENCE_S, check=True, text=True
    )
    assert done.stdout == ""


def test_its_own_tests_pass() -> None:
    assert re.search(r"^ok .*/go-library/library\b", go("test", "-short", "./..."), re.MULTILINE)


def test_its_generated_code_is_what_the_proto_says() -> None:
    assert "PASS: TestWhatIsCommitted" in go("test", "-v", "./internal/generate")


def test_its_requirements_are_complete() -> None:
    # Names what go.mod and go.sum lack, without asking the network for more.
    go("list", "-mod=readonly", "-deps", "-test", "./...")
    go("mod", "verify")


def test_every_benchmark_has_a_row_with_its_allocations(tmp_path: Path) -> None:
    text = go("test", "-run", "^$", "-bench", "GetBook", "-benchmem", "-benchtime", "10x", ".")
    rows = re.findall(
        r"^Benchmark(\S+)_GetBook(?:-\d+)?\s+10\s+[\d.]+ ns/op\s+\d+ B/op\s+\d+ allocs/op$",
        text,
        re.MULTILINE,
    )
    assert rows == list(ROWS), text
    (tmp_path / "rows.txt").write_text(text)
    summary = go("tool", "benchstat", str(tmp_path / "rows.txt"))
    for row in ROWS:
        assert f"{row}_GetBook" in summary


def test_all_have_the_calls_that_they_can_be_asked() -> None:
    calls = {name: set(running.find(name).calls) for name in SERVERS}
    assert calls == {
        "grpc-go": {"grpc"},
        "grpc-go-http": {"grpc"},
        "vanguard": {"json", "protobuf", "grpc", "grpc-web"},
        "grpc-gateway": {"json", "protobuf"},
        "connect-go": {"json", "protobuf", "grpc", "grpc-web"},
        "vanguard-proxy": {"json", "protobuf", "grpc", "grpc-web"},
        "trilane-gateway": {"json", "protobuf", "grpc", "grpc-web"},
    }
