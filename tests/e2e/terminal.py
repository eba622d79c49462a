"""A load with `--live` on a terminal of its own, and what is to be seen there."""

from __future__ import annotations

import codecs
import json
import os
import pty
import re
import select
import shutil
import subprocess
import termios
import time
from typing import TYPE_CHECKING

from .loading import Run

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence
    from pathlib import Path

LINES, COLUMNS = 40, 140
LEFT = "\x1b[?1049l"
_PATIENCE_S = 120.0
_SETSID = shutil.which("setsid") or "setsid"
_WORD = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b[^\[]|[^\x1b]")


class Screen:
    """A terminal as far as the view uses one: text, moves of the cursor, and clearing."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._rest = ""
        self._clear()

    def _clear(self) -> None:
        self._cells = [[" "] * COLUMNS for _ in range(LINES)]
        self._row = self._column = 0

    def feed(self, written: bytes) -> str:
        """Show it, and give it back as text."""
        text = self._decoder.decode(written)
        waiting = self._rest + text
        # A sequence that has not come whole is shown with what follows.
        whole = re.fullmatch(r"(.*?)(\x1b(\[[?0-9;]*)?)?", waiting, re.DOTALL)
        assert whole is not None
        self._rest = whole[2] or ""
        for word in _WORD.finditer(whole[1]):
            self._take(word)
        return text

    def _take(self, word: re.Match[str]) -> None:
        parameters, final = word[1], word[2]
        if final == "H":
            row, column = (int(number or 1) for number in (parameters or "1;1").split(";"))
            self._row, self._column = row - 1, column - 1
        elif final == "J" or (final == "h" and parameters == "?1049"):
            self._clear()
        elif final is None and word[0] >= " " and self._row < LINES and self._column < COLUMNS:
            self._cells[self._row][self._column] = word[0]
            self._column += 1

    @property
    def text(self) -> str:
        """What is to be seen."""
        return "\n".join("".join(line).rstrip() for line in self._cells)


class Terminal:
    """A load with `--live` on a terminal of its own, with what it prints on stdout in a file."""

    def __init__(self, folder: Path, argv: Sequence[str], *, prints_there: bool = False) -> None:
        self._ours, self._its = pty.openpty()
        termios.tcsetwinsize(self._its, (LINES, COLUMNS))
        self.before = termios.tcgetattr(self._its)
        self.name = os.ttyname(self._its)
        self.screen = Screen()
        self.written = ""
        self._json = not prints_there
        self._file = folder / "stdout"
        argv = [*argv, "--live", *(["--format", "json"] if self._json else [])]
        with self._file.open("wb") as file:
            self._child = subprocess.Popen(
                # The terminal is what /dev/tty is for it. Under nohup the tests have the signal
                # ignored, and so would it.
                [_SETSID, "--ctty", "env", "--default-signal=HUP", *argv],
                stdin=self._its,
                stdout=self._its if prints_there else file,
                stderr=self._its,
                env={**os.environ, "TERM": "xterm"},
            )

    def _read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        self.written += self.screen.feed(os.read(self._ours, 65536))
        return True

    def until(self, holds: Callable[[str], bool]) -> str:
        """What is seen as soon as it holds of that; the patience ends a hang only."""
        limit = time.monotonic() + _PATIENCE_S
        while not holds(self.screen.text):
            assert self._child.poll() is None or self._read(0), self.written
            assert time.monotonic() < limit, self.screen.text
            self._read(0.1)
        return self.screen.text

    def press(self, key: bytes) -> None:
        """What the terminal sends for a key."""
        os.write(self._ours, key)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the load."""
        self._child.send_signal(number)

    def wait(self) -> Run:
        """Its end; the terminal must be as it was."""
        limit = time.monotonic() + _PATIENCE_S
        while self._child.poll() is None:
            assert time.monotonic() < limit, self.screen.text
            self._read(0.1)
        while self._read(0):
            pass
        assert termios.tcgetattr(self._its) == self.before
        out = self._file.read_text()
        report = json.loads(out) if self._json and out.strip() else None
        after = self.written.rpartition(LEFT)[2]
        return Run(self._child.returncode, out, after, report)

    def close(self) -> None:
        """End it, where it has not."""
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        os.close(self._ours)
        os.close(self._its)


def measured(text: str) -> bool:
    """Whether a second of the measurement is shown."""
    return "so far" in text and re.search(r"\nrate +[1-9]\d* requests/s", text) is not None
