"""`python -m trilane.cli.manual FOLDER`: the manual, from what the commands say of themselves."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from trilane import __version__
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
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m trilane.cli.manual FOLDER\n")
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    texts = {command: _help(command) for command in COMMANDS}
    write_text(folder / "manual.md", _markdown(texts))
    for command, text in texts.items():
        name = f"trilane-{command.replace(' ', '-')}" if command else "trilane"
        write_text(folder / f"{name}.1", _man_page(name, text))
    return 0


def _help(command: str) -> str:
    environment = {**os.environ, "COLUMNS": _WIDTH, "NO_COLOR": "1", "TERMINAL_WIDTH": _WIDTH}
    done = supervisor.finished(
        [*TRILANE, *command.split(), "--help"],
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
