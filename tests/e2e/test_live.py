"""`--live`: the view on a terminal, the keys that end the run, and the terminal afterwards."""

from __future__ import annotations

import codecs
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import termios
import time
from typing import TYPE_CHECKING

import pytest

from repository import native
from waiting import Chosen

from .loading import Run, load_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from peers.running import Peers

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
    """A `trilane load --live` on a terminal of its own, with what it prints on stdout in a file."""

    def __init__(self, folder: Path, *arguments: str, prints_there: bool = False) -> None:
        self._ours, self._its = pty.openpty()
        termios.tcsetwinsize(self._its, (LINES, COLUMNS))
        self.before = termios.tcgetattr(self._its)
        self.name = os.ttyname(self._its)
        self.screen = Screen()
        self.written = ""
        self._json = not prints_there
        self._file = folder / "stdout"
        argv = [native(), "load", "--live", *arguments, "--io", Chosen.way]
        if self._json:
            argv += ["--format", "json"]
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


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Start loads on terminals of their own."""
    started: list[Terminal] = []

    def start(*arguments: str, prints_there: bool = False) -> Terminal:
        started.append(Terminal(tmp_path, *arguments, prints_there=prints_there))
        return started[-1]

    yield start
    for terminal in started:
        terminal.close()


def measured(text: str) -> bool:
    """Whether a second of the measurement is shown."""
    return "so far" in text and re.search(r"\nrate +[1-9]\d* requests/s", text) is not None


ENDLESS = ["-c", "2", "-d", "600s", "--warmup", "0s"]


@pytest.mark.parametrize("key", [b"q", b"\x1b", b"\x03"], ids=["q", "escape", "control-c"])
def test_a_key_ends_the_run_and_the_report_follows(
    peers: Peers, terminals: Callable[..., Terminal], key: bytes
) -> None:
    url = peers["embedded"].url("h1")
    terminal = terminals(*ENDLESS, url)
    text = terminal.until(measured)
    assert text.splitlines()[0].startswith(url)
    for shown in ["s left", "service p99", "200: ", "B/s", "2 connections", "rate over time"]:
        assert shown in text, text
    terminal.press(key)
    run = terminal.wait()
    assert run.code == 130
    assert run.checked["interrupted"] is True
    assert run.checked["requests"]["ok"] > 0
    # What is left on the terminal is what was there before, with the cursor.
    assert set(re.split(r"(\x1b\[\?25h)", run.err)) == {"", "\x1b[?25h"}


def test_the_report_stands_on_the_terminal_as_it_was_before(
    peers: Peers, terminals: Callable[..., Terminal]
) -> None:
    terminal = terminals(*ENDLESS, peers["embedded"].url("h1"), prints_there=True)
    terminal.until(measured)
    terminal.press(b"q")
    run = terminal.wait()
    assert run.code == 130
    assert "Requests/sec: " in run.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_gives_the_terminal_back(
    peers: Peers, terminals: Callable[..., Terminal], number: signal.Signals
) -> None:
    terminal = terminals(*ENDLESS, peers["embedded"].url("h1"))
    terminal.until(measured)
    terminal.signal(number)
    run = terminal.wait()
    assert run.code == 130
    assert run.checked["interrupted"] is True


def test_the_open_model_shows_what_was_asked_for_and_ends_by_itself(
    peers: Peers, terminals: Callable[..., Terminal]
) -> None:
    timing = ["-R", "200", "-d", "2500ms", "--warmup", "0s"]
    terminal = terminals("-c", "2", *timing, peers["embedded"].url("h1"))
    text = terminal.until(measured)
    for shown in ["asked for 200 requests/s", "response p50", "late max", "overdue", "lateness"]:
        assert shown in text, text
    run = terminal.wait()
    assert run.good["interrupted"] is False


def test_an_error_stands_on_the_terminal_as_it_was_before(
    terminals: Callable[..., Terminal],
) -> None:
    terminal = terminals("-n", "1", "http://127.0.0.1:1/", prints_there=True)
    run = terminal.wait()
    assert run.code == 1
    assert "trilane: " in run.err
    assert "127.0.0.1:1" in run.err


def test_lines_of_json_do_not_go_where_the_view_is(terminals: Callable[..., Terminal]) -> None:
    terminal = terminals("--ndjson", "/dev/tty", "http://127.0.0.1:1/", prints_there=True)
    run = terminal.wait()
    assert run.code == 2
    assert "--ndjson /dev/tty is the terminal that --live draws on" in run.err


def test_without_a_terminal_it_says_what_to_type() -> None:
    run = load_text("--live", "http://127.0.0.1:1/")
    assert run.code == 2
    assert run.message.startswith("trilane: --live draws on stderr, which is no terminal here")
    assert "--ndjson FILE" in run.message


def test_a_search_has_no_view() -> None:
    run = load_text("--live", "--search", "p99<10ms", "http://127.0.0.1:1/")
    assert run.code == 2
    assert "--live" in run.message
    assert "--search" in run.message
