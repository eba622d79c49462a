"""`trilane completions`: what shells need to complete names, flags and values of all commands."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup, TyperOption

from trilane import _core
from trilane.cli.units import Usage

HELP = """Print what a shell needs to complete this command's names, flags and values.

\b
Examples:
  source <(trilane completions bash)
  trilane completions zsh > "${fpath[1]}/_trilane"
  trilane completions fish > ~/.config/fish/completions/trilane.fish
"""
SHELLS = ("bash", "zsh", "fish", "elvish", "powershell")


def completions(
    context: typer.Context,
    shell: Annotated[str, typer.Argument(metavar="|".join(SHELLS), help="The shell.")],
) -> int:
    """Print the script of one shell; the exit code."""
    from msgspec import json

    from trilane.__main__ import NATIVE

    if shell not in SHELLS:
        raise Usage(f"{shell!r} is not a shell that is known: type one of {', '.join(SHELLS)}")
    # The native program has a command of this name itself.
    own = NATIVE | {"completions"}
    root = _told(context.find_root().command)
    also = [told for told in root["commands"] if told["name"] not in own]
    sys.stdout.write(_core.completions(shell, json.encode(also).decode()))
    return 0


def _told(command: Any) -> dict[str, Any]:
    """A command as `_core.completions` wants it."""
    below = command.commands.values() if isinstance(command, TyperGroup) else ()
    return {
        "name": command.name or "",
        "about": command.get_short_help_str(limit=200),
        "flags": [_flag(option) for option in command.params if isinstance(option, TyperOption)],
        "commands": [_told(one) for one in below],
    }


def _flag(option: TyperOption) -> dict[str, Any]:
    return {
        "names": [*option.opts, *option.secondary_opts],
        "help": (option.help or "").partition("\n")[0],
        "takes_value": not option.is_flag,
    }
