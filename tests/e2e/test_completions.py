"""`trilane completions`: what a shell completes, as bash itself says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from peers.running import absent
from repository import native

WHOLE = [sys.executable, "-m", "trilane"]


def completed(script: Path, *words: str) -> set[str]:
    """What bash offers where the last of the words is being typed."""
    bash = shutil.which("bash")
    if bash is None:
        absent("bash is not installed")
    asked = (
        'source "$1"; shift; COMP_WORDS=(trilane "$@"); COMP_CWORD=$#;'
        ' _trilane trilane "${@: -1}" "${@: -2:1}"; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [bash, "--norc", "-c", asked, "bash", str(script), *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("program", ["native", "whole"])
def test_bash_completes_commands_flags_and_values(program: str, tmp_path: Path) -> None:
    command = [str(native())] if program == "native" else WHOLE
    script = tmp_path / "trilane.bash"
    with script.open("wb") as out:
        subprocess.run([*command, "completions", "bash"], stdout=out, check=True, timeout=60)
    assert completed(script, "lo") == {"load"}
    assert completed(script, "load", "--scen") == {"--scenario"}
    assert completed(script, "load", "--resume", "of") == {"off"}
    # The native program has no laboratory.
    assert completed(script, "race", "--in-f") == (
        set() if program == "native" else {"--in-flight"}
    )
    assert completed(script, "lab", "ru") == (set() if program == "native" else {"run"})


def test_bash_completes_experiments_forms_and_runs(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    file = tmp_path / "experiments" / "own-question.toml"
    file.write_text("[forms.special]\n", encoding="utf-8")
    bad = {
        "bad": "[",
        "number": "forms = 3",
        # What a shell would run.
        "$(touch ran)": "[forms.special]",
        "named": "[forms.'$(touch ran)']",
    }
    for name, text in bad.items():
        (tmp_path / "experiments" / f"{name}.toml").write_text(text, encoding="utf-8")
    script = tmp_path / "trilane.bash"
    with script.open("wb") as out:
        command = [*WHOLE, "completions", "bash"]
        subprocess.run(command, stdout=out, check=True, timeout=60, cwd=tmp_path)
    assert completed(script, "lab", "run", "books") == {"bookstore"}
    assert completed(script, "lab", "show", "own") == {"own-question"}
    assert completed(script, "lab", "run", "--form", "sp") == {"special"}
    assert completed(script, "report", "lat") == {"latest"}
    assert completed(script, "runs", "show", "lat") == {"latest"}
    assert completed(script, "compare", "books") == {"bookstore"}
    assert "touch" not in script.read_text(encoding="utf-8")


@pytest.mark.parametrize("program", ["native", "whole"])
def test_a_shell_that_is_not_known_is_told(program: str) -> None:
    command = [str(native())] if program == "native" else WHOLE
    done = subprocess.run(
        [*command, "completions", "csh"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "csh" in done.stderr
    assert "fish" in done.stderr
