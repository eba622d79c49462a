"""Programs in Go that tests use, at the versions that a module beside this file pins."""

from __future__ import annotations

import subprocess
from pathlib import Path

from trilane.lab.storage.store import locked

from .process import MissingProgramError, find

_HERE = Path(__file__).parent
# Outside the folders of a test run: the Go linker takes half a minute for some.
_BUILT = Path(__file__).resolve().parents[2] / "build"
_PATIENCE_S = 900


def build(module: str, package: str = ".") -> str:
    """Path of a program, built when first asked for.

    `module` is a folder beside this file, and the program that of `package` or, without one, that
    of the folder, by whose name it is called. Errors: MissingProgramError where Go cannot build it.
    """
    go = find("go", "https://go.dev/dl, version 1.26 or newer")
    built = _BUILT / module
    built.mkdir(parents=True, exist_ok=True)
    # Go looks at what it built last time and does nothing when that is still right; but it would
    # write at the same time as another, who may run what it writes already.
    with locked(built / ".lock"):
        done = subprocess.run(
            [go, "build", "-o", f"{built}/", package],
            cwd=_HERE / module,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_S,
        )
    name = module if package == "." else package.rpartition("/")[2]
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise MissingProgramError(name, f"go build in tests/peers/{module} said: {reason[0]}")
    return str(built / name)
