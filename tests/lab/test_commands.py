"""What only a process shows of commands that connect to nobody: imports, other programs, locks."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lab.typed import trilane
from synthetic import folders
from trilane.lab.machine import doctor_tools
from trilane.lab.machine.host import Host
from trilane.lab.processes import launch
from trilane.lab.storage.summaries import summaries

FACTORS = {"h1": 1.0, "h2": 1.5}


def python(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_importing_the_lab_reads_no_experiment_code() -> None:
    program = "import sys, trilane.lab; print('trilane.lab.experiment.experiment' in sys.modules)"
    assert python(program).communicate() == ("False\n", "")


def test_judging_a_race_waits_for_no_statistics_that_it_does_not_need() -> None:
    tests = str(Path(__file__).parents[1])
    program = (
        f"import sys; sys.path.insert(0, {tests!r})\n"
        "from synthetic import races\n"
        "from trilane.lab.analysis import paired\n"
        "paired.compare(races.race({'h1': 1.0, 'h2': 1.5}))\n"
        "print('scipy.special' in sys.modules, 'scipy.stats' in sys.modules)"
    )
    assert python(program).communicate() == ("True False\n", "")


def test_the_doctor_works_where_the_packages_of_the_lab_are_missing(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "for name in ('numpy', 'scipy', 'altair', 'jinja2', 'msgspec', 'vl_convert', 'hdrh'):\n"
        "    sys.modules[name] = None\n"
        "from trilane.cli import run\n"
        "sys.exit(run(['doctor', '--state', sys.argv[1]]))"
    )
    (tmp_path / "runs").mkdir()
    doctor = python(program, str(tmp_path))
    out, err = doctor.communicate()
    assert (doctor.returncode, err) == (0, "")
    assert "trilane race can run here" in out
    assert "Runs  not looked at\nmsgspec is missing: pip install 'trilane[lab]'\n" in out


@pytest.mark.parametrize("command", [["lab", "list"], ["lab", "show", "bookstore"], ["history"]])
def test_no_command_ends_with_a_trace_where_packages_of_the_lab_are_missing(
    command: list[str],
) -> None:
    program = (
        "import sys\n"
        "for name in ('numpy', 'scipy', 'altair', 'jinja2', 'msgspec', 'vl_convert', 'hdrh'):\n"
        "    sys.modules[name] = None\n"
        "from trilane.cli import run\n"
        "sys.exit(run(sys.argv[1:]))"
    )
    done = python(program, *command)
    out, err = done.communicate()
    assert (done.returncode, out) == (1, "")
    assert re.fullmatch(r"trilane: error: .* type: pip install 'trilane\[lab\]'\n", err)


def script(folder: Path, name: str, content: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{content}\n", encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


def test_programs_are_found_and_asked_for_their_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(launch, "_MORE_PLACES", ())
    script(tmp_path / "bin", "uv", "echo uv 9.8.7")
    script(tmp_path / "path", "wrk", "echo wrk 4.1.0 [epoll] >&2; exit 1")
    script(tmp_path / "path", "go", "exit 1")
    here = Host(root=tmp_path, beside=tmp_path / "bin")
    checks = {check.name: check for check in doctor_tools.checks(here)}
    assert (checks["uv"].status, checks["uv"].value) == ("ok", "9.8.7")
    assert (checks["wrk"].status, checks["wrk"].value) == ("ok", "4.1.0")
    assert checks["Go"].status == "warning"
    assert "does not tell its version" in checks["Go"].value
    assert checks["nginx"].status == "missing"
    assert checks["nginx"].fix
    assert checks[".NET"].fix
    assert not checks["nginx"].needed


def test_a_program_that_hangs_does_not_hang_the_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilane.lab.machine.host._PATIENCE_S", 0.2)
    # It never ends by itself: without the patience, neither would this test.
    hanging = script(tmp_path / "bin", "uv", "exec sleep 86400")
    assert Host().version(str(hanging), "--version") is None


def test_commands_that_summarise_the_same_runs_at_the_same_time_agree(tmp_path: Path) -> None:
    folders.race(tmp_path, "20261118-100000", FACTORS)
    folders.lab(tmp_path, "20261119-100000", FACTORS)
    program = (
        "import sys; from pathlib import Path\n"
        "from trilane.lab.storage.summaries import summaries\n"
        "for _ in range(5):\n"
        "    found = summaries(Path(sys.argv[1]), anew=True)\n"
        "    print([each.status for each in found].count('complete'))"
    )
    commands = [python(program, str(tmp_path)) for _ in range(4)]
    told = [command.communicate() for command in commands]
    assert [errors for _, errors in told] == [""] * 4
    assert {line for output, _ in told for line in output.split()} == {"2"}
    assert [each.status for each in summaries(tmp_path)] == ["complete"] * 2


def test_a_folder_anywhere_is_compared_with_a_run_of_the_state_folder(tmp_path: Path) -> None:
    state = tmp_path / "state"
    one = folders.race(state, "20261118-100000", FACTORS)
    folders.race(state, "20261119-100000", FACTORS, seed=3)
    copy = shutil.copytree(one, tmp_path / "elsewhere")
    done = trilane("compare", str(copy), "20261119-100000-race", "--state", str(state))
    assert done.returncode == 0, done.stderr
    assert "between A and B was shown in requests/s" in " ".join(done.stdout.split())
