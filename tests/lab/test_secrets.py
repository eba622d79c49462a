"""Secrets that are typed for the lab: nothing that it keeps, writes or prints has them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from lab.conftest import Said
from lab.test_ab import Repository, repository
from trilane.cli import running
from trilane.lab import study
from trilane.lab.asked import CannotRun, Wanted, chosen, fingerprint, from_manifest
from trilane.lab.storage import runs, summaries
from trilane.report import pages, terminal, view
from trilane.report.screen import Console

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["repository"]

CANARY = "canary0815"
FLAGS = (
    *("-H", f"x-api-key: {CANARY}", "-H", f"Cookie: a={CANARY}", "-H", "x-token: ${TOKEN}"),
    *("-b", f'{{"password": "{CANARY}"}}'),
)
URL = f"https://127.0.0.1:8443/hello?token={CANARY}&n=1"


def written(folder: Path) -> Iterator[tuple[Path, str]]:
    for file in folder.rglob("*"):
        if file.is_file():
            yield file, file.read_text(errors="replace")


def test_nothing_of_a_race_has_its_secrets(
    wanted: Callable[..., Wanted], said: Said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_LOAD", "{}")
    log = tmp_path.parent / f"{tmp_path.name}-log"
    monkeypatch.setenv("FAKE_LOG", str(log))
    asked = wanted(url=URL, load=FLAGS)
    asked = replace(asked, command=("trilane", "race", URL, *FLAGS))
    made = study.run(asked, said.watcher())
    assert made.result.command == (
        "trilane race 'https://127.0.0.1:8443/hello?token=[hidden]&n=1' -H 'x-api-key: [hidden]' "
        "-H 'Cookie: [hidden]' -H 'x-token: ${TOKEN}' -b '{\"password\":\"[hidden]\"}'"
    )
    summaries.summary(made.folder)
    screen = io.StringIO()
    terminal.show(made.result, Console(file=screen, width=100), verbose=True)
    shown = [
        *(screen.getvalue(), pages.measured(made.result)),
        *(msgspec.json.encode(view.document(made.result)).decode(), *said.lines),
    ]
    assert all(CANARY not in text for text in shown)
    files = dict(written(tmp_path))
    assert len(files) > 8
    for file, text in files.items():
        assert CANARY not in text, file
        assert file.stat().st_mode & 0o077 == 0, file
    assert made.folder.stat().st_mode & 0o777 == 0o700
    # Nor have the command lines of its children, which others see, those of fields.
    for line in log.read_text().splitlines():
        words = json.loads(line)
        fields = [words[n + 1] for n, word in enumerate(words) if word == "-H"]
        assert [field[0] for field in fields] == ["@", "x"], fields
        assert fields[1] == "x-token: ${TOKEN}"
    # What it takes to run it again is not there.
    with pytest.raises(CannotRun, match="its secrets were not kept"):
        from_manifest(runs.read_manifest(made.folder), tmp_path)


def test_references_to_secrets_are_kept_and_can_be_replayed(
    wanted: Callable[..., Wanted], said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_LOAD", "{}")
    flags = ("-H", "authorization: Bearer ${TOKEN}", "-H", "@fields")
    made = study.run(wanted(load=flags), said.watcher())
    again = from_manifest(runs.read_manifest(made.folder), None)
    assert again.experiment.forms[again.form].workload.flags == flags


def test_an_interrupted_run_goes_on_with_another_token(
    wanted: Callable[..., Wanted],
) -> None:
    one, other, third = (
        wanted(load=("-H", field)) for field in ("x-token: a", "x-token: b", "x-trace: b")
    )
    prints = [fingerprint(each.experiment, chosen(each)) for each in (one, other, third)]
    assert prints[0] == prints[1] != prints[2]


def test_nothing_of_ab_has_the_secrets_of_its_commands(repository: Repository) -> None:
    done = repository.typed(
        *("--head", "main", "--command", f"API_TOKEN={CANARY} true --password {CANARY}"),
        *("--build", f"DEPLOY_KEY={CANARY} true", "--prepare", f"KEY={CANARY} true"),
        *(
            "--repeat",
            "1",
            "--warmup",
            "0s",
            "--no-pin",
            "--markdown",
            str(repository.state / "told.md"),
        ),
    )
    assert done.returncode in {0, 4}, done.stderr
    assert "DEPLOY_KEY=[hidden] true" in done.stderr
    assert CANARY not in done.stdout + done.stderr
    for file, text in written(repository.state):
        assert CANARY not in text, file


def test_a_watcher_tells_a_terminal_nothing_that_it_would_obey() -> None:
    screen = io.StringIO()
    running.say("skipped \x1b]0;x\x07 https://me:pw@a/", Console(file=screen))
    assert screen.getvalue() == "skipped \ufffd]0;x\ufffd https://[hidden]@a/\n"
