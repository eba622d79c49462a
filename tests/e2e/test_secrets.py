"""Secrets that are typed for a load: nothing that is written or printed has them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .loading import load, load_text

if TYPE_CHECKING:
    from pathlib import Path

    from peers.running import Peers

CANARY = "canary0815"


def test_nothing_of_a_load_has_its_secrets(
    peers: Peers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_ENVIRONMENT", CANARY)
    fields = tmp_path / "fields"
    fields.write_text(f"x-tenant: {CANARY}\n\nx-token: ${{OF_ENVIRONMENT}}\n")
    written = tmp_path / "written"
    written.mkdir()
    url = peers["embedded"].url("h1") + f"?api_key={CANARY}&n=1"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "trilane", "load", "--h1", "-c", "1", "-n", "20"),
            *("-H", f"x-api-key: {CANARY}", "-H", f"Cookie: a={CANARY}", "-H", f"@{fields}"),
            *("-H", "x-name: ${OF_ENVIRONMENT}", "-H", f"Proxy-Authorization: Basic {CANARY}"),
            *("-b", f'{{"password": "{CANARY}"}}', "--expect-status", "404"),
            *("--html", str(written / "page.html"), "--ndjson", str(written / "lines")),
            *("--format", "json", "-o", str(written / "result.json"), url),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    # Every request fails, so that what is said of failures is seen, too.
    assert done.returncode == 4, done.stderr
    texts = {file.name: file.read_text() for file in written.iterdir()}
    assert set(texts) == {"page.html", "lines", "result.json"}
    assert "?api_key=[hidden]&n=1" in texts["result.json"]
    assert '"x-name: [hidden]"' in texts["result.json"]
    for text in (done.stdout, done.stderr, load_text("--h1", "-n", "2", url).out, *texts.values()):
        assert CANARY not in text


def test_fields_of_files_and_of_the_environment_are_sent(
    peers: Peers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_NAME", "a.example")
    (tmp_path / "fields").write_text("Accept-Encoding: gzip\nHost: ${HOST_NAME}\n")
    report = load(
        "-n", "4", "-c", "1", "-H", f"@{tmp_path / 'fields'}", peers["embedded"].url("h1")
    )
    assert report.good["plan"]["asked"]["header"] == ["Accept-Encoding: [hidden]", "Host: [hidden]"]
    missing = load_text("-H", "x-key: ${NO_SUCH_NAME}", "http://127.0.0.1:1/")
    assert missing.code == 2
    assert "the variable NO_SUCH_NAME is not set" in missing.message


@pytest.mark.parametrize(
    "arguments",
    [
        [f"http://me:{CANARY}@127.0.0.1:1/"],
        [f"http://me:{CANARY}/x@127.0.0.1:1/"],
        [f"http://127.0.0.1:99999/?token={CANARY}"],
        [f"http://127.0.0.1:1/?sig={CANARY}"],
        ["--proxy", f"http://me:{CANARY}@127.0.0.1:1/", "http://127.0.0.1:1/"],
        ["-H", CANARY, "http://127.0.0.1:1/"],
        ["-H", f"x-key: {CANARY}\nx", "http://127.0.0.1:1/"],
        ["--compat", "wrk", "--", "-H", f"x-key: {CANARY}", f"http://127.0.0.1:1/?key={CANARY}"],
    ],
)
def test_what_goes_wrong_is_told_without_secrets(arguments: list[str]) -> None:
    done = load_text(*arguments)
    assert done.code in {1, 2}, done
    assert done.err
    assert CANARY not in done.out + done.err


def test_a_terminal_obeys_nothing_of_an_error() -> None:
    done = load_text("-n", "1", "http://127.0.0.1:99999/\x1b]0;x\x07\u202e")
    assert done.code == 2
    assert not set("\x1b\x07\u202e") & set(done.err), repr(done.err)


def test_files_that_lie_elsewhere_and_unverified_certificates_are_told(
    peers: Peers, tmp_path: Path
) -> None:
    (tmp_path / "own").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("x")
    (tmp_path / "own" / "body").write_text("x")
    requests = tmp_path / "own" / "calls.http"
    url = peers["embedded"].url("h1s")
    both = "POST /hello\n\n< body\n\n###\n\nPOST /hello\n\n< ../elsewhere\n"
    requests.write_text(both)
    done = load_text("-k", "--h1", "-c", "1", "-n", "4", "--requests", str(requests), url)
    notes = [line for line in done.err.splitlines() if "note: " in line]
    assert len(notes) == 1, done.err
    assert "elsewhere is read, and sent" in notes[0]
    assert "trilane: warning: -k: no certificate was verified" in done.err
    assert "-k" not in load_text("-k", "-n", "1", peers["embedded"].url("h1")).err
    scenario = tmp_path / "own" / "steps.toml"
    steps = "".join(
        f'[[steps]]\nname = "{n}"\nurl = "/hello"\nbody_file = "{file}"\n'
        for n, file in enumerate(("body", "../elsewhere"))
    )
    scenario.write_text(steps)
    done = load_text("-n", "1", "--scenario", str(scenario), peers["embedded"].url("h1"))
    notes = [line for line in done.err.splitlines() if "note: " in line]
    assert [("elsewhere is read, and sent" in note) for note in notes] == [True], done.err
