"""grpcurl and ghz, at the versions that `grpc-tools/go.mod` pins, built when first asked for."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from trilane.lab.keeping.store import locked

from .process import MissingProgramError, find

_MODULE = Path(__file__).parent / "grpc-tools"
# Outside the folders of a test run: the Go linker takes half a minute for both.
_BUILT = Path(__file__).resolve().parents[2] / "build" / "grpc-tools"
_PACKAGES = {
    "ghz": "github.com/bojand/ghz/cmd/ghz",
    "grpcurl": "github.com/fullstorydev/grpcurl/cmd/grpcurl",
}
_PATIENCE_S = 900


@functools.cache
def program(name: str) -> str:
    """Path of `grpcurl` or `ghz`; raises `MissingProgramError` where Go cannot build it."""
    go = find("go", "https://go.dev/dl, version 1.26 or newer")
    _BUILT.mkdir(parents=True, exist_ok=True)
    # Go looks at what it built last time and does nothing when that is still right; but it would
    # write at the same time as another, who may run what it writes already.
    with locked(_BUILT / ".lock"):
        done = subprocess.run(
            [go, "build", "-o", f"{_BUILT}/", _PACKAGES[name]],
            cwd=_MODULE,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_S,
        )
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise MissingProgramError(name, f"go build in tests/peers/grpc-tools said: {reason[0]}")
    return str(_BUILT / name)


def version(name: str) -> str:
    """The version that the module pins."""
    module = _PACKAGES[name].partition("/cmd/")[0]
    for line in (_MODULE / "go.mod").read_text().splitlines():
        words = line.split()
        if words[:1] == [module]:
            return f"{name} {words[1]}"
    raise LookupError(f"{module} is not in {_MODULE / 'go.mod'}")
