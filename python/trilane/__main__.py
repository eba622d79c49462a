"""The command `trilane`, also as `python -m trilane`."""

from __future__ import annotations

import sys

# Handed to Rust unchanged, before anything heavy is imported: `trilane load` starts at once.
NATIVE = frozenset({"load", "serve", "network"})


def main() -> int:
    """Run the command with the arguments of this process; the exit code."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] in NATIVE:
        from trilane import _core

        return _core.main(["trilane", *arguments])
    from trilane.cli import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
