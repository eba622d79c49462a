"""`trilane doctor`: what this machine has and lacks."""

from __future__ import annotations

import json
import sys

from trilane.cli.ending import FAILED, OK
from trilane.cli.options import Output, State
from trilane.report.screen import Console

HELP = """Say what this machine has and lacks for measuring, and how to get it.

Reads every file of every run, and lists those that are broken or were interrupted
with the command that goes on with them.

Exit codes: 0 `trilane race` can run here, 1 it cannot, 2 wrong usage."""


def doctor(
    state: State = None,
    output: Output = "text",
) -> int:
    """Run the command; the exit code."""
    from trilane.lab.machine import doctor as lab
    from trilane.lab.storage import store

    diagnosis = lab.diagnose(store.state_folder(state))
    if output == "json":
        sys.stdout.write(json.dumps(diagnosis.to_dict(), ensure_ascii=False) + "\n")
    else:
        from trilane.report import doctor as terminal

        terminal.show(diagnosis, Console())
    return OK if diagnosis.able else FAILED
