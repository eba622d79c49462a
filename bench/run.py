"""`python bench/run.py` prints the table of client CPU per request; see `--help`."""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
# The table is a package that borrows the peers of the tests; neither is installed anywhere.
sys.path[0:1] = [str(_ROOT), str(_ROOT / "tests")]

if __name__ == "__main__":
    from bench.table import main

    sys.exit(main())
