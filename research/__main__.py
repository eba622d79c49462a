"""The programs of this folder: one, or all of them as the documents have them.

python -m research [PROGRAM [FLAGS]]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from research.ab import proof
from research.cluster import command as cluster
from research.comparisons import simulation

PROGRAMS: Final[Mapping[str, Callable[[Sequence[str]], int]]] = {
    "comparisons": simulation.main,
    "cluster": cluster.main,
    "ab": proof.main,
}
RACES = ("--tables", "200", "--seed", "1")
NOISE = str(Path(simulation.__file__).with_name("noise.json"))
ALL: Final = (
    ("comparisons", RACES),
    ("comparisons", (*RACES, "--recorded", NOISE)),
    ("cluster", ("start", "gather")),
    ("cluster", ("scheduler", "--workers", "10", "100", "250", "500")),
    ("ab", ("100",)),
)
"""What is in the documents, the longest last."""


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; the exit code, of several the highest."""
    parser = argparse.ArgumentParser(prog="python -m research", description=__doc__)
    parser.add_argument("program", nargs="?", choices=PROGRAMS)
    parser.add_argument("flags", nargs=argparse.REMAINDER, help="of the program: --help lists them")
    asked = parser.parse_args(arguments)
    runs = [(asked.program, asked.flags)] if asked.program else ALL
    return max(PROGRAMS[name](flags) for name, flags in runs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
