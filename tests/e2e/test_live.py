"""`--live`: the view on a terminal, the keys that end the run, and the terminal afterwards."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import pytest

from repository import native

from .loading import load_text
from .terminal import Terminal, measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from peers.running import Peers


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Start loads on terminals of their own."""
    started: list[Terminal] = []

    def start(*arguments: str, prints_there: bool = False) -> Terminal:
        argv = [native(), "load", *arguments]
        started.append(Terminal(tmp_path, argv, prints_there=prints_there))
        return started[-1]

    yield start
    for terminal in started:
        terminal.close()


ENDLESS = ["-c", "2", "-d", "600s", "--warmup", "0s"]


@pytest.mark.parametrize("key", [b"\x1b", b"\x03"], ids=["escape", "control-c"])
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


def test_a_signal_gives_the_terminal_back(peers: Peers, terminals: Callable[..., Terminal]) -> None:
    terminal = terminals(*ENDLESS, peers["embedded"].url("h1"))
    terminal.until(measured)
    terminal.signal(signal.SIGTERM)
    run = terminal.wait()
    assert run.code == 130
    assert run.checked["interrupted"] is True


def test_the_open_model_shows_what_was_asked_for_and_ends_by_itself(
    peers: Peers, terminals: Callable[..., Terminal]
) -> None:
    timing = ["-R", "200", "-d", "1500ms", "--warmup", "0s"]
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
