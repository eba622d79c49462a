"""`python -m trilane.cli.manual FOLDER [PROGRAM]`: what the commands say of themselves.

With the native program, it is that of its commands.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from trilane import __version__
from trilane.__main__ import NATIVE
from trilane.interpreter import TRILANE
from trilane.lab.processes import supervisor
from trilane.lab.storage.store import write_text

COMMANDS = (
    "",
    "race",
    "ab",
    "load",
    "serve",
    "gateway",
    "network run",
    "network check",
    "network profiles",
    "lab list",
    "lab show",
    "lab run",
    "lab replay",
    "cluster start",
    "cluster worker",
    "compare",
    "report",
    "runs list",
    "runs show",
    "runs rm",
    "runs prune",
    "history",
    "doctor",
    "completions",
)
_WIDTH = "96"
_HELP_S = 60.0


def main(arguments: list[str]) -> int:
    """Write `manual.md` and one man page per command."""
    if len(arguments) not in (1, 2):
        sys.stderr.write("usage: python -m trilane.cli.manual FOLDER [PROGRAM]\n")
        return 2
    folder, native = Path(arguments[0]), arguments[1:]
    folder.mkdir(parents=True, exist_ok=True)
    own = {"", "completions", *NATIVE}
    texts = {
        command: _help(native or TRILANE, command)
        for command in COMMANDS
        if not native or command.partition(" ")[0] in own
    }
    write_text(folder / "manual.md", _markdown(texts))
    for command, text in texts.items():
        name = f"trilane-{command.replace(' ', '-')}" if command else "trilane"
        write_text(folder / f"{name}.1", _man_page(name, text))
    return 0


def _help(program: Sequence[str], command: str) -> str:
    environment = {**os.environ, "COLUMNS": _WIDTH, "NO_COLOR": "1", "TERMINAL_WIDTH": _WIDTH}
    done = supervisor.finished(
        [*program, *command.split(), "--help"],
        limit_s=_HELP_S,
        environment=environment,
    )
    if done.code:
        raise RuntimeError(f"trilane {command} --help: {done.why()}")
    return done.output.decode().strip()


def _markdown(texts: dict[str, str]) -> str:
    sections = [f"# Trilane {__version__}: the commands"]
    for command, text in texts.items():
        sections.append(f"## trilane {command}".rstrip() + f"\n\n```text\n{text}\n```")
    return "\n\n".join(sections) + "\n"


def _man_page(name: str, text: str) -> str:
    """A page that shows the help text as it is (man(7), no-fill mode)."""
    # A leading dot or quote would be a request, a backslash an escape.
    body = "\n".join(
        ("\\&" if line[:1] in (".", "'") else "") + line.replace("\\", "\\e").replace("-", "\\-")
        for line in text.splitlines()
    )
    return (
        f'.TH {name.upper()} 1 "" "trilane {__version__}" "Trilane"\n'
        f".SH NAME\n{name} \\- HTTP performance lab\n"
        f".SH DESCRIPTION\n.nf\n{body}\n.fi\n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
