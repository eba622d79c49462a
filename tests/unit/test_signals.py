"""Signals that ask a command to end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from trilane import interrupts
from trilane.cli import app

ENDING = (signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    # `nohup` has SIGHUP ignored by all that it starts.
    before = [signal.signal(number, signal.SIG_DFL) for number in ENDING]
    yield
    for number, handler in zip(ENDING, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING)
def test_what_a_signal_began_is_not_ended_by_the_same_signal(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """timeout(1) sends SIGTERM to the process, and then to its group."""
    done: list[str] = []

    def command(*_arguments: object, **_settings: object) -> int:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            for each in ENDING:
                signal.raise_signal(each)
            done.append("servers stopped, result told")
        return 130

    monkeypatch.setattr(app, "commands", lambda: command)
    assert app.run(["race"]) == 130
    assert done == ["servers stopped, result told"]


def test_a_command_that_ends_without_a_result_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*_arguments: object, **_settings: object) -> int:
        signal.raise_signal(signal.SIGTERM)
        return 0

    monkeypatch.setattr(app, "commands", lambda: command)
    assert app.run(["race"]) == 130
    said = "trilane: error: interrupted\n"
    assert capsys.readouterr().err == said


def test_what_nohup_started_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def command(*_arguments: object, **_settings: object) -> int:
        signal.raise_signal(signal.SIGHUP)
        return 0

    monkeypatch.setattr(app, "commands", lambda: command)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert app.run(["race"]) == 0


def test_ctrl_c_is_the_kernels_but_for_a_command_that_runs() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupts.leave_to_kernel()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL
        with pytest.raises(KeyboardInterrupt), interrupts.raised():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
def test_who_handles_ctrl_c_otherwise_goes_on_to(handler: Callable[..., None]) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        interrupts.leave_to_kernel()
        with interrupts.raised():
            assert signal.getsignal(signal.SIGINT) == handler
        assert signal.getsignal(signal.SIGINT) == handler
    finally:
        signal.signal(signal.SIGINT, before)
