"""Building a contender that is not a script, once for each state of its sources."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from trilane.lab.processes import supervisor
from trilane.lab.processes.launch import find_program
from trilane.lab.processes.supervisor import Late, NotStarted
from trilane.lab.storage.store import cache_folder, locked

_BUILD_S = 900.0
# What compilers and package managers leave behind in the folder of the sources.
_MADE = frozenset({"__pycache__", "bin", "node_modules", "obj"})


class BuildFailed(RuntimeError):
    """A program could not be built; the message ends with what the builder said."""


def built(name: str, folder: Path, steps: Sequence[Sequence[str]]) -> Path:
    """The folder `{build}`, made by the steps unless these sources were built before."""
    target = cache_folder() / "contenders" / f"{name}-{_fingerprint(folder, steps)}"
    if not target.is_dir():
        with locked(target.with_name(f".{name}.lock")):
            # Another process may have built it while we waited.
            if not target.is_dir():
                _build(name, folder, steps, target)
    return target


def _build(name: str, folder: Path, steps: Sequence[Sequence[str]], target: Path) -> None:
    # Built aside and moved into place: a folder of that name is whole.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as aside:
        fresh = Path(aside) / "build"
        fresh.mkdir()
        for step in steps:
            words = [
                w.replace("{build}", str(fresh)).replace("{folder}", str(folder)) for w in step
            ]
            _do(name, folder, words)
        fresh.replace(target)


def _do(name: str, folder: Path, words: Sequence[str]) -> None:
    command = " ".join(words)
    program = find_program(words[0])
    if program is None:
        raise BuildFailed(f"{name} cannot be built: {words[0]} is not installed")
    try:
        done = supervisor.finished([program, *words[1:]], limit_s=_BUILD_S, cwd=folder)
    except Late:
        raise BuildFailed(f"{name} was not built within {_BUILD_S:g} s: {command}") from None
    except NotStarted as error:
        raise BuildFailed(f"{name} cannot be built: {words[0]} {error}") from error
    if done.code:
        raise BuildFailed(f"{name} cannot be built: {command}: {done.why()}")


def _fingerprint(folder: Path, steps: Sequence[Sequence[str]]) -> str:
    """Of the sources and of the programs that build them."""
    digest = hashlib.sha256(repr([list(step) for step in steps]).encode())
    for step in steps:
        if program := find_program(step[0]):
            about = Path(program).resolve().stat()
            digest.update(repr((program, about.st_size, about.st_mtime_ns)).encode())
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if path.is_file() and not _MADE & set(place.parts):
            digest.update(f"{place}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
