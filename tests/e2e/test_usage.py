"""Wrong use: one line that says what to type, and exit code 2."""

from __future__ import annotations

import re
import subprocess

import pytest
import typer

from repository import native
from trilane.__main__ import NATIVE
from trilane.cli.app import app

from .loading import load_text

URL = "http://127.0.0.1:9/hello"
_OF_PYTHON = sorted(set(typer.main.get_command(app).commands) - NATIVE - {"completions"})  # type: ignore[attr-defined]

WRONG = [
    ([], "http"),
    (["example.org"], "http://example.org"),
    (["ftp://example.org/"], "http"),
    (["http://"], "http"),
    (["http://user:secret@127.0.0.1/"], "Authorization"),
    ([URL, "--no-such-flag"], "--no-such-flag"),
    ([URL, "-c", "0"], "-c"),
    ([URL, "-c", "many"], "--connections"),
    ([URL, "-c", "-1"], "-1"),
    ([URL, "-m", "0"], "-m"),
    ([URL, "--h1", "-m", "8"], "-c"),
    ([URL, "-n", "0"], "-n"),
    ([URL, "-d", "0"], "-d"),
    ([URL, "-d", "ten"], "10s"),
    ([URL, "-R", "fast"], "--rate"),
    ([URL, "-R", "0"], "--rate"),
    ([URL, "--timeout", "0"], "--timeout"),
    ([URL, "--h1", "--h2c"], "--h"),
    ([URL, "--h2"], "--h2c"),
    ([URL, "--h3"], "https"),
    (["https://127.0.0.1:9/", "--h2c"], "--h2"),
    ([URL, "-H", "no colon"], "-H"),
    ([URL, "-H", "X-Split: a\r\nX-Evil: b"], "X-Split"),
    ([URL, "-X", "GET /other HTTP/1.1\r\nX:"], "method"),
    ([URL, "--fail-if", "p99"], "--fail-if"),
    ([URL, "--fail-if", "speed>1"], "--fail-if"),
    ([URL, "--format", "xml"], "json"),
    ([URL, "--connect-to", "nowhere"], "--connect-to"),
    (["https://127.0.0.1:9/", "--cert", "client.pem"], "--key"),
    ([URL, "https://127.0.0.1:10/"], "type --h1"),
]


@pytest.mark.parametrize(
    ("arguments", "hint"), WRONG, ids=[" ".join(a).strip() or "nothing" for a, _ in WRONG]
)
def test_one_line_says_what_to_type(arguments: list[str], hint: str) -> None:
    run = load_text(*arguments)
    assert run.code == 2, run
    assert hint in run.message, run
    assert run.out == ""


@pytest.mark.parametrize("flag", ["--cacert", "--cert", "-b"])
def test_a_file_that_is_not_there_is_named(flag: str) -> None:
    name = "@/nowhere/file" if flag == "-b" else "/nowhere/file"
    pair = ["--key", "/nowhere/key"] if flag == "--cert" else []
    run = load_text("https://127.0.0.1:9/", flag, name, *pair)
    assert run.code in (1, 2), run
    assert "/nowhere/file" in run.message, run


def test_help_names_every_flag_of_the_contract() -> None:
    done = subprocess.run([native(), "load", "--help"], capture_output=True, text=True, check=True)
    for flag in (
        *("-c", "-m", "-t", "-n", "-d", "-R", "-H", "-X", "-b", "-k", "-o"),
        *("--rate", "--body", "--insecure", "--h1", "--h2", "--h2c", "--h3", "--cacert", "--cert"),
        *("--key", "--sni", "--connect-to", "--timeout", "--warmup", "--fail-if", "--format"),
        *("--cpu", "--check-body"),
    ):
        assert flag in done.stdout, flag


@pytest.mark.parametrize("alias", [["-z", "300ms"], ["-D", "300ms"], ["-d", "300ms", "-q", "50"]])
def test_aliases_of_other_tools_are_understood(alias: list[str]) -> None:
    # The port is refused, so the arguments were.
    run = load_text(URL, *alias)
    assert run.code == 1, run
    assert "refused" in run.message


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
