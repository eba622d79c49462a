"""What lies in the current folder is nobody's module, whatever it is called."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import trilane
from repository import ROOT
from trilane.interpreter import TRILANE
from trilane.lab.processes import place

PACKAGE = Path(trilane.__file__).parent
POOL = """\
from types import SimpleNamespace
from trilane_contender.processes import pool

if __name__ == "__main__":
    with pool(SimpleNamespace(start_method="spawn"), 1) as workers:
        print(workers.submit(len, "four").result())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A current folder with modules that nobody may import."""
    made = tmp_path / "current"
    made.mkdir()
    for name in ("typing", "msgspec", "runpy", "selectors"):
        (made / f"{name}.py").write_text("raise SystemExit('a module of the current folder')\n")
    return made


def said(words: list[str], folder: Path, *modules: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [PACKAGE.parent, *modules]))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("words", [["--version"], ["lab", "list", "--format", "json"]])
def test_a_command_that_is_started_imports_none(words: list[str], folder: Path) -> None:
    code, out, err = said([*TRILANE, *words], folder)
    assert (code, err) == (0, "")
    assert out


def test_what_works_on_a_network_imports_none(folder: Path) -> None:
    code, _, err = said([*place.WORKER], folder)
    assert "current folder" not in err
    assert code == 0, err


def test_the_processes_of_a_contender_import_none(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "contender.py"
    script.write_text(POOL)
    harness = ROOT / "contenders" / "harness"
    assert said([sys.executable, str(script)], folder, harness) == (0, "4\n", "")


def test_no_program_of_ours_is_started_in_another_way() -> None:
    bare = re.compile(r"sys\.executable,\s*\"-[mc]\"")
    found = [path for path in PACKAGE.rglob("*.py") if bare.search(path.read_text("utf-8"))]
    assert found == []
