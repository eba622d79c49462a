"""How a command is started: by itself where no shell is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from trilane.lab.clients.command_run import argument_vector


@pytest.mark.parametrize(
    "command",
    [
        "echo a | cat",
        "echo 'a b'",
        "A=b env",
        "echo $HOME",
        "echo *",
        "cat <x",
        "true; false",
        # Words of the shell's own.
        "exit 3",
        "cd /",
        "",
    ],
)
def test_what_is_for_a_shell_gets_one(command: str) -> None:
    assert argument_vector(command, "/") == ["/bin/sh", "-c", command]


def test_a_program_with_plain_words_is_started_as_it_is(tmp_path: Path) -> None:
    program, *words = argument_vector("cat --show-ends a/b.txt -n", "/")
    assert Path(program).name == "cat"
    assert words == ["--show-ends", "a/b.txt", "-n"]
    own = tmp_path / "target" / "app"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\n")
    # Not one that could be started: the shell says why.
    assert argument_vector("target/app --port 1", str(tmp_path))[0] == "/bin/sh"
    own.chmod(0o755)
    assert argument_vector("./target/app --port 1", str(tmp_path)) == [
        str(tmp_path / "target" / "app"),
        "--port",
        "1",
    ]
