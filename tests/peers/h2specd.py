"""h2specd, the half of h2spec that tests clients, at the version that `h2-spec/go.mod` pins.

Each of its cases has a port of its own. What came of them is read from the page that it serves.
"""

from __future__ import annotations

import functools
import html
import os
import re
import urllib.request
from pathlib import Path
from typing import NamedTuple

from . import go_tool
from .process import Process, wait_until

# Below those of `process.free_port`.
_PAGE, _FIRST = 11_000, 11_001
# How long it waits for a frame before it says that none came: only when a case has failed.
_TIMEOUT_S = 60
_CASE = re.compile(
    r"<div><span[^>]*>([^<]*)</span><a href=\"http:[^\"]*:(\d+)/\".*?</a>([^<]*)</div>"
)


@functools.cache
def program() -> str:
    """Its path; raises `MissingProgramError` where Go cannot build it."""
    return go_tool.build("h2-spec", "github.com/summerwind/h2spec/cmd/h2specd")


class Verdict(NamedTuple):
    """What h2specd says of a case: its mark, if it has one yet, and the lines below it."""

    description: str
    mark: str
    details: str


class H2Specd:
    """A running h2specd."""

    def __init__(self, folder: Path, number: int) -> None:
        # An address of this process's and this number's own, on which no port is taken.
        pid = os.getpid()
        self.host = f"127.{100 + number}.{pid >> 8 & 255}.{1 + pid % 254}"
        argv = [
            program(),
            "-h",
            self.host,
            "-p",
            str(_PAGE),
            "-f",
            str(_FIRST),
            "-o",
            str(_TIMEOUT_S),
        ]
        self.process = Process(argv, folder, ready=self._serves, name="h2specd")

    def port(self, case: int) -> int:
        """Where a case is, by its place among all."""
        return _FIRST + case

    def verdicts(self) -> list[Verdict]:
        """One for each case, in their order."""
        page = self._page()
        found = list(_CASE.finditer(page))
        ends = [*(each.start() for each in found[1:]), len(page)]
        return [
            Verdict(
                html.unescape(each[3]),
                html.unescape(each[1]).strip(),
                re.sub(r"<[^>]*>", " ", html.unescape(page[each.end() : end])).strip(),
            )
            for each, end in zip(found, ends, strict=True)
        ]

    def verdict(self, case: int) -> Verdict:
        """Wait for what it says of a case."""
        wait_until(lambda: self.verdicts()[case].mark != "", f"h2specd's case {case}")
        return self.verdicts()[case]

    def _page(self) -> str:
        with urllib.request.urlopen(f"http://{self.host}:{_PAGE}/report") as page:
            return str(page.read().decode())

    def _serves(self) -> bool:
        try:
            return self._page() != ""
        except OSError:
            return False
