"""Wrong use: one line that says what to type, and exit code 2."""

from __future__ import annotations

import re
import subprocess

import pytest

from repository import native
from trilane.__main__ import NATIVE
from trilane.cli.app import commands

from .loading import load_text

URL = "http://127.0.0.1:9/hello"
_OF_PYTHON = sorted(set(commands().commands) - NATIVE - {"completions"})

# What else is wrong use, and what is said of it, `crates/cli/src/load/tests.rs` shows.
WRONG = [
    ([], "http"),
    ([URL, "--no-such-flag"], "--no-such-flag"),
    ([URL, "-H", "X-Split: a\r\nX-Evil: b"], "X-Split"),
    ([URL, "--fail-if", "speed>1"], "--fail-if"),
    ([URL, "--grpc", "a.B/C", "--h1"], "--h2c"),
    ([URL, "--compat", "wrk"], "type trilane load --compat wrk -- -t2 -c100 -d30s http"),
    ([URL, "--in-turn", '{"start_ns": 1'], "--in-turn"),
]


@pytest.mark.parametrize(
    ("arguments", "hint"), WRONG, ids=[" ".join(a).strip() or "nothing" for a, _ in WRONG]
)
def test_one_line_says_what_to_type(arguments: list[str], hint: str) -> None:
    run = load_text(*arguments)
    assert run.code == 2, run
    assert hint in run.message, run
    assert run.out == ""


def test_a_file_that_is_not_there_is_named() -> None:
    run = load_text("https://127.0.0.1:9/", "-b", "@/nowhere/file")
    assert run.code == 1, run
    assert "/nowhere/file" in run.message, run


def test_help_names_every_flag_of_the_contract() -> None:
    done = subprocess.run([native(), "load", "--help"], capture_output=True, text=True, check=True)
    for flag in (
        *("-c", "-m", "-t", "-n", "-d", "-R", "-H", "-X", "-b", "-k", "-o"),
        *("--rate", "--body", "--insecure", "--h1", "--h2", "--h2c", "--h3", "--cacert", "--cert"),
        *("--key", "--sni", "--connect-to", "--timeout", "--warmup", "--fail-if", "--format"),
        *("--cpu", "--check-body", "--grpc", "--proto", "--proto-path", "--descriptor-set"),
        *("--messages", "--grpc-mode", "--deadline", "--gzip"),
    ):
        assert flag in done.stdout, flag


def test_every_command_prints_the_same_version() -> None:
    shown = {
        command: subprocess.run(
            [native(), *command, "--version"], capture_output=True, text=True, check=True
        ).stdout
        for command in ((), ("load",), ("serve",), ("gateway",), ("network",))
    }
    assert len(set(shown.values())) == 1, shown
    assert re.fullmatch(r"trilane \d+\.\d+\.\d+ \([0-9a-f]+, (debug|release)\)\n", shown[()])


@pytest.mark.parametrize("command", _OF_PYTHON)
def test_the_native_program_says_where_the_other_commands_are(command: str) -> None:
    done = subprocess.run([native(), command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"`{command}` is part of the whole command" in done.stderr
