"""This interpreter, to be started anew.

Never by a bare `sys.executable -m`: that puts the current folder first among the places of modules,
so that a `typing.py` which lies there would be executed.
"""

from __future__ import annotations

import sys

PYTHON = (sys.executable, "-P")
"""Words that begin a command; what PYTHONPATH names is found as before."""
TRILANE = (*PYTHON, "-m", "trilane")
"""The command `trilane`."""
