"""The environment of a script with inline metadata (PEP 723): made once by uv, then found again."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trilane.interpreter import PYTHON
from trilane.lab.processes import supervisor
from trilane.lab.processes.supervisor import Late, NotStarted, ProcessFailed
from trilane.lab.storage.store import cache_folder, locked, write_json

_BLOCK = re.compile(r"(?m)^# /// script$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
_SYNC_S = 900.0
_ASK_S = 60.0
_OFFLINE = ("dns error", "failed to fetch", "error sending request", "network", "timed out")
# The order of pip: what is said for `install` wins over `global`, the environment over both.
_PIP_SECTIONS = ("global.", "install.", ":env:.")
_LAST_LINES = 3


class EnvironmentFailed(RuntimeError):
    """An environment could not be made; the message says why, and the way out."""


def embedded(script: Path) -> str:
    """The TOML in the `# /// script` comment of a script, on the lines on which it stands there.

    It is empty if there is none. The expression is the one of the specification of inline script
    metadata.
    """
    content = script.read_text(encoding="utf-8")
    match = _BLOCK.search(content)
    if match is None:
        return ""
    above = "\n" * content.count("\n", 0, match.start("content"))
    lines = match.group("content").splitlines(keepends=True)
    return above + "".join(line[2:] if line.startswith("# ") else line[1:] for line in lines)


def metadata(script: Path) -> dict[str, Any]:
    """What that TOML says."""
    return tomllib.loads(embedded(script))


def interpreter(script: Path) -> Path:
    """The Python of the script's own environment, which is made if it is not there yet."""
    stamp = _stamp(script)
    known = _remembered(stamp)
    if known is not None:
        return known
    uv = program()
    with locked(stamp.with_suffix(".lock")):
        # Another process may have made it while we waited.
        known = _remembered(stamp)
        if known is not None:
            return known
        _uv(script, _SYNC_S, uv, "sync", "--quiet", "--script", str(script))
        found = Path(_uv(script, _ASK_S, uv, "python", "find", "--script", str(script)).strip())
        write_json(stamp, {"python": str(found)})
    return found


def is_made(script: Path) -> bool:
    """Whether `interpreter` needs neither uv nor the network."""
    return _remembered(_stamp(script)) is not None


def program() -> Path:
    """uv, beside our interpreter or on the PATH."""
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    found = shutil.which("uv", path=places)
    if found is None:
        raise EnvironmentFailed(
            "uv is not installed, and the client libraries need it. Type: python -m pip install uv"
        )
    return Path(found)


def uv_settings(environ: Mapping[str, str], pip: Mapping[str, str]) -> dict[str, str]:
    """Variables for uv, which does not read pip's configuration; what is set already wins.

    `pip` maps options of pip, such as `index-url`, to their values.
    """
    wanted = {
        "UV_PYTHON_DOWNLOADS": "never",  # an experiment must not fetch an interpreter
        "UV_SYSTEM_CERTS": "1",
        "UV_NO_PROGRESS": "1",
    }
    if not any(name in environ for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL")):
        wanted |= _given("UV_DEFAULT_INDEX", pip.get("index-url"))
    if not any(name in environ for name in ("UV_INDEX", "UV_EXTRA_INDEX_URL")):
        wanted |= _given("UV_INDEX", " ".join(pip.get("extra-index-url", "").split()))
    places = pip.get("find-links", "").split()
    links = [place for place in places if "://" in place or Path(place).exists()]
    wanted |= _given("UV_FIND_LINKS", ",".join(links))
    wanted |= _given("SSL_CERT_FILE", pip.get("cert"))
    return {name: value for name, value in wanted.items() if name not in environ}


@functools.cache
def _pip_settings() -> Mapping[str, str]:
    """What pip of this interpreter is configured to, by option; empty without pip."""
    command = [*PYTHON, "-m", "pip", "config", "list"]
    try:
        done = supervisor.finished(command, limit_s=_ASK_S)
    except ProcessFailed:
        return {}
    return parse_pip_config(done.output.decode()) if done.code == 0 else {}


def parse_pip_config(text: str) -> dict[str, str]:
    """The output of `pip config list` by option, without sections."""
    found: dict[str, tuple[int, str]] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        section = next((s for s in _PIP_SECTIONS if key.startswith(s)), None)
        if not equals or section is None:
            continue
        rank, option = _PIP_SECTIONS.index(section), key.removeprefix(section)
        if rank >= found.get(option, (-1, ""))[0]:
            found[option] = rank, str(ast.literal_eval(value))
    return {option: value for option, (_, value) in found.items()}


def _uv(script: Path, limit_s: float, uv: Path, *arguments: str) -> str:
    # Not the environment that we run in: uv would take it for the script's.
    environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    environ |= uv_settings(environ, _pip_settings())
    name = script.parent.name
    try:
        done = supervisor.finished([str(uv), *arguments], limit_s=limit_s, environment=environ)
    except Late:
        raise EnvironmentFailed(
            f"the environment of {name} was not made within {limit_s:g} s: is the package index "
            "reachable?"
        ) from None
    except NotStarted as error:
        raise EnvironmentFailed(f"{uv} {error}") from error
    if done.code:
        raise EnvironmentFailed(_reason(name, script, done.errors.decode(errors="replace")))
    return done.output.decode()


def _reason(name: str, script: Path, errors: str) -> str:
    # uv draws its explanations as a tree, over several lines.
    lines = [line.strip(" ×╰─▶│├hint:").strip() for line in errors.splitlines() if line.strip()]
    told = " ".join(" ".join(lines[:_LAST_LINES]).removeprefix("error:").split())
    if "No interpreter found" in errors:
        needs = metadata(script).get("requires-python", "another version")
        return f"{name} needs Python {needs}, and there is none here: install one"
    if any(word in errors.lower() for word in _OFFLINE):
        return f"the packages of {name} could not be fetched, is the network there? {told}"
    return f"the environment of {name} could not be made: {told}"


def _stamp(script: Path) -> Path:
    # The script's place is part of it, as uv keeps one environment per path; so are uv's settings
    # that choose a place or an interpreter.
    identity = [
        str(script.resolve()),
        json.dumps(metadata(script), sort_keys=True),
        *(os.environ.get(name, "") for name in ("UV_CACHE_DIR", "UV_PYTHON")),
    ]
    digest = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:32]
    return cache_folder() / "environments" / f"{digest}.json"


def _remembered(stamp: Path) -> Path | None:
    try:
        python = Path(json.loads(stamp.read_text(encoding="utf-8"))["python"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return python if os.access(python, os.X_OK) else None


def _given(name: str, value: str | None) -> dict[str, str]:
    return {name: value} if value else {}
