"""CPythons of other versions on this machine."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path


@cache
def interpreter(version: str, needs: str = "sys") -> str | None:
    """CPython of a version such as `3.12` that can import what it `needs`; None: there is none."""
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for each in (f"python{version}", *map(str, reversed(found))):
        command = [shutil.which(each) or each, "-c", f"import sys, {needs}; print(sys.version)"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=60, check=False, env={}
            )
        except OSError:
            continue
        if done.returncode == 0 and done.stdout.startswith(f"{version}."):
            return command[0]
    return None
