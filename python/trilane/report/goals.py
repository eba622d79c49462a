"""What was promised of several runs, in one table: `python -m trilane.report.goals RUN…`.

`make bench` prints it of the forms that it has run. With `--page FILE` it stands in that page, too,
between `<!-- generated: goals -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from trilane.lab.model.lab import LabResult
from trilane.lab.storage import store
from trilane.lab.storage.runs import BadRun, find, load
from trilane.report import formatting, labels, tables, view
from trilane.report.pages import BadPage, filled

BEGIN = "<!-- generated: goals -->"


def table(results: Sequence[LabResult]) -> str:
    """The gates of all results in Markdown, and where and when each was measured."""
    rows = [
        [str(result.experiment.form), row.label, row.range, row.here, row.word]
        for result in results
        for row in labels.gates(result)
    ]
    measured = [
        f"{result.experiment.form} {result.started_at[:10]}, {view.blocks(result)}, "
        f"{result.validity.verdict}"
        for result in results
    ]
    machines = {formatting.machine(result.machine): None for result in results}
    levels = {view.level(result): None for result in results}
    told = f"Measured on {'; '.join(machines)}, intervals of {', '.join(levels)}: "
    told += f"{'; '.join(measured)}."
    head = ["form", "ratio", "promised", "here", ""]
    return f"{tables.table(head, rows)}\n\n{tables.escaped(told)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m trilane.report.goals",
        description="What was promised of several runs, in one table.",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder, name or experiment-form")
    parser.add_argument("--page", type=Path, default=None, metavar="FILE", help="put it there, too")
    parser.add_argument("--state", type=Path, default=None, metavar="DIR", help="state folder")
    wanted = parser.parse_args(arguments)
    state = store.state_folder(wanted.state)
    try:
        made = table([load(find(name, state)).judged for name in wanted.runs])
        if wanted.page is not None:
            page = wanted.page.read_text(encoding="utf-8")
            store.write_text(wanted.page, filled(page, BEGIN, made))
    except (BadPage, BadRun, OSError) as error:
        sys.stderr.write(f"goals: error: {error}\n")
        return 1
    sys.stdout.write(f"{made}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
