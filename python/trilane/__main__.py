"""The command `trilane`, also as `python -m trilane`."""

from __future__ import annotations

import sys

from trilane import interrupts

# As `typing` has it, whose import takes longer than all else that is imported here.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from pathlib import Path

# Handed to Rust unchanged, before anything heavy is imported: `trilane load` starts at once.
NATIVE = frozenset({"gateway", "load", "network", "serve"})
# Told by Rust, too: Python's needs packages that may be missing.
_VERSION = (["--version"], ["-V"])


# Of the extra `trilane[cli]`, which `trilane[lab]` has in it.
_OF_COMMANDS = ("rich", "typer")


def _lacking() -> str | None:
    """What to type where packages are missing that every command in Python needs; None: nothing."""
    from importlib.util import find_spec

    absent = [name for name in _OF_COMMANDS if find_spec(name) is None]
    if not absent:
        return None
    return f"needs {', '.join(absent)}: type: pip install 'trilane[lab]'"


class Pages:
    """What `trilane load --html` asks for: nothing that draws is imported before."""

    def check(self, file: Path) -> None:
        """Raise what is in the way of a page, before anything is sent."""
        lacking = _lacking()
        if lacking is not None:
            raise ValueError(f"it {lacking}")
        from trilane.cli import packages

        packages.need_lab("load --html")
        if file.is_dir() or not file.absolute().parent.is_dir():
            raise ValueError(f"it takes a file in a folder that exists, not {str(file)!r}")

    def write(self, result: str, file: Path) -> None:
        """Write the page of a run or of a search."""
        from trilane.lab.storage import singles, store
        from trilane.report import single

        store.write_text(file, single.render(singles.read(result)))


def _is_spread(arguments: list[str]) -> bool:
    """Whether a load is for a cluster, which begins in Python, and not for this machine."""
    return arguments[:1] == ["load"] and any(
        word == "--cluster" or word.startswith("--cluster=") for word in arguments
    )


def _spread(arguments: list[str]) -> int:
    """Carry out a load on a cluster; the exit code."""
    from importlib.util import find_spec

    if find_spec("distributed") is None:
        print(
            "trilane load: error: `--cluster` needs distributed: "
            "type: pip install 'trilane[cluster]'",
            file=sys.stderr,
        )
        return 1
    from trilane.cluster import command

    with interrupts.raised():
        return command.load(arguments)


def main() -> int:
    """Run the command with the arguments of this process; the exit code."""
    interrupts.leave_to_kernel()
    arguments = sys.argv[1:]
    if _is_spread(arguments) and not {"-h", "--help"} & set(arguments):
        return _spread(arguments[1:])
    if arguments in _VERSION or (arguments and arguments[0] in NATIVE):
        from trilane import _core

        return _core.main(["trilane", *arguments], Pages())
    lacking = _lacking()
    if lacking is not None:
        asked = " ".join(["trilane", *arguments[:1]])
        print(
            f"trilane: error: `{asked}` {lacking}; load, serve, gateway and network do without",
            file=sys.stderr,
        )
        return 1
    from trilane.cli import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
