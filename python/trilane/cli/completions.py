"""`trilane completions`: what shells need to complete names, flags and values of all commands."""

from __future__ import annotations

import contextlib
import sys
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

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
    values = _values()
    root = _told(context.find_root().command, values)
    also = [told for told in root["commands"] if told["name"] not in own]
    sys.stdout.write(_core.completions(shell, json.encode(also).decode()))
    return 0


def _values() -> dict[tuple[str, str], list[str]]:
    """What a shell offers for arguments and flags, by the command and their names."""
    from trilane.lab.experiment import places
    from trilane.lab.experiment.check import NAME

    forms: dict[str, list[str]] = {}
    for file in (file for folder in places.experiments() for file in folder.glob("*.toml")):
        # Shells run what stands in their scripts: any other name is no experiment's, nor a form's.
        if not NAME.fullmatch(file.stem):
            continue
        # Without the packages of the lab, and although others may be bad.
        with contextlib.suppress(OSError, ValueError):
            known = tomllib.loads(file.read_text(encoding="utf-8")).get("forms")
            names = known if isinstance(known, dict) else {}
            forms.setdefault(file.stem, [name for name in names if NAME.fullmatch(name)])
    experiments = sorted(forms)
    every_form = sorted({name for known in forms.values() for name in known})
    # A run is also named by its experiment; names of runs would be those there are now.
    runs = ["latest", "race", *experiments]
    return {
        ("run", "name"): experiments,
        ("run", "--form"): every_form,
        ("show", "name"): experiments,
        ("show", "--form"): every_form,
        ("show", "run"): runs,
        ("replay", "run"): runs,
        ("report", "run"): runs,
        ("compare", "a"): runs,
        ("compare", "b"): runs,
        ("history", "experiment"): runs[1:],
        ("history", "--form"): every_form,
    }


def _told(command: Any, values: Mapping[tuple[str, str], list[str]]) -> dict[str, Any]:
    """A command as `_core.completions` wants it."""
    below = command.commands.values() if isinstance(command, TyperGroup) else ()
    name = command.name or ""
    arguments = (each for each in command.params if isinstance(each, TyperArgument))
    return {
        "name": name,
        "about": command.get_short_help_str(limit=200),
        "flags": [
            _flag(option, values.get((name, option.opts[0]), []))
            for option in command.params
            if isinstance(option, TyperOption)
        ],
        "arguments": [
            {"name": each.name, "values": values[name, each.name]}
            for each in arguments
            if values.get((name, each.name))
        ],
        "commands": [_told(one, values) for one in below],
    }


def _flag(option: TyperOption, values: list[str]) -> dict[str, Any]:
    return {
        "names": [*option.opts, *option.secondary_opts],
        "help": (option.help or "").partition("\n")[0],
        "takes_value": not option.is_flag,
        "values": values,
    }
