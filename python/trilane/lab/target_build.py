"""Building a server from its sources, once for each state of the sources."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from trilane.lab import launch
from trilane.lab.process import told
from trilane.lab.target_config import ServerConfig, fill

_BUILD_S = 900.0
_DONE = ".built"
_POLL_S = 0.1


class BuildFailed(RuntimeError):
    """The server could not be built; the message ends with what the compiler said."""


def built(config: ServerConfig, cache: Path, environment: Mapping[str, str]) -> Path:
    """The folder `{build}` of a server, made by its build commands if its sources are new."""
    folder = cache / "servers" / f"{config.name}-{_fingerprint(config)}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock")):
        if (folder / _DONE).exists():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for step in config.build:
            command = [
                fill(word, {"build": str(folder), "folder": str(config.folder)}) for word in step
            ]
            _run(config, command, environment)
        (folder / _DONE).touch()
    return folder


def _run(config: ServerConfig, command: list[str], environment: Mapping[str, str]) -> None:
    program = launch.find_program(command[0])
    if program is None:
        raise BuildFailed(f"{config.name} cannot be built: {command[0]} is not installed")
    try:
        done = subprocess.run(
            [program, *command[1:]],
            cwd=config.folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_BUILD_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BuildFailed(
            f"{config.name} was not built within {_BUILD_S:g} s: {' '.join(command)}"
        ) from error
    if done.returncode != 0:
        raise BuildFailed(
            f"{config.name} cannot be built: {' '.join(command)}: {told(done.stdout)}"
        )


def _fingerprint(config: ServerConfig) -> str:
    """Of the sources and of the compiler, so that a change of either builds anew."""
    digest = hashlib.sha256(repr(config.build).encode())
    for step in config.build:
        program = launch.find_program(step[0])
        if program:
            about = Path(program).resolve().stat()
            digest.update(repr((program, about.st_size, about.st_mtime_ns)).encode())
    for path in sorted(config.folder.rglob("*")):
        if path.is_file() and not {"bin", "obj"} & set(path.relative_to(config.folder).parts):
            digest.update(str(path.relative_to(config.folder)).encode() + b"\0")
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Two labs at once build one after the other."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + _BUILD_S
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise BuildFailed(f"{path}: another build holds this lock") from error
                time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)
