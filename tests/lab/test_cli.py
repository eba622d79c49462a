"""The command as a user meets it: its output, its exit code, and what signals and terminals do."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import pty
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hangups import hangups
from lab.typed import TRILANE, trilane
from peers.process import is_alive, wait_until
from peers.running import Peers
from trilane import __version__, _core
from trilane.cli import app, manual
from trilane.lab.processes import proc

QUICK = ("--blocks", "1", "-d", "100ms", "--warmup", "0s", "--seed", "1", "--in-flight", "8")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """One short race of everything against the embedded server."""
    folder = tmp_path_factory.mktemp("quick")
    state = ("--state", str(folder))
    done = trilane("race", *QUICK, "-d", "300ms", "--format", "json", *state, folder=folder)
    assert done.returncode in (0, 4), done.stderr
    return folder, (json.loads(done.stdout), done.stderr)


def test_help_names_the_commands() -> None:
    done = trilane("--help")
    assert done.returncode == 0
    for command in ("race", "load", "serve", "network"):
        assert command in done.stdout


@pytest.mark.parametrize("words", [(), ("lab",), ("cluster",)])
def test_no_arguments_show_the_help_as_wrong_usage(words: tuple[str, ...]) -> None:
    done = trilane(*words)
    assert (done.returncode, done.stderr) == (2, "")
    assert "Commands" in done.stdout


def test_version_names_the_build() -> None:
    shown = trilane("--version").stdout
    assert shown.startswith(f"trilane {__version__} (")
    assert _core.build_profile in shown


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["rase"], "Did you mean 'race'"),
        (["race", "--blokcs", "3"], "--blocks"),
        (["race", "example.org"], "type https://example.org"),
        (["race", "ftp://x"], "not ftp://"),
        (["race", "http://a/", "http://b/"], "http://b/: a race compares versions at one URL"),
        (["race", "-d", "soon"], "a time such as 500ms"),
        (["race", "--blocks", "0"], "whole number from 1"),
        (["race", "--margin", "2"], "a share such as 5%"),
        (["race", "-c", "7"], "try --in-flight 63"),
        (["race", "http://x", "--h3"], "--h3 needs an https:// URL"),
        (["race", "--baseline", "h9"], "choose from h1, h2, h3"),
        (["race", "--report", "/nowhere/at/all.html"], "a folder that exists"),
        (
            ["ab", "--command", "true", "--base", "a", "--markdown", "/nowhere/at/all.md"],
            "--markdown takes a file in a folder that exists",
        ),
        (["race", "--format", "xml"], "json"),
        (["race", "--in-flight", "8,x"], "--in-flight takes a whole number"),
        (["race", "--until-decided", "--blocks", "5"], "--blocks 5: it takes at least 6 blocks"),
        (["lab", "run", "congestion", "--within", "1m"], "--within 1m is for blocks until it is"),
        (["lab", "run", "congestion", "--within", "1ms"], "--within takes 1s or more, not 1ms"),
        (["race", "--in-flight", "8,8"], "there already"),
        (["race", "--network", "rtt=soon"], '--network rtt=soon: "soon" is not a time'),
        (["race", "--fail-if", "p99"], "MEASURE>LIMIT"),
        (["race", "--pair", "h2"], "--pair takes two arms"),
        (["race", "--search", "p99"], "there is no < or >: type for example --search 'p99<10ms"),
        (["race", "--search", ","], '--search ,: "": there is no < or >: type for example'),
        (["race", "--search", "p99<1s", "--fail-if", "p99>1.1"], "measures capacity_per_s alone"),
        (["race", "http://127.0.0.1:9/", "-H", "no colon"], "write 'Name: value'"),
    ],
)
def test_wrong_use_is_one_line_and_what_to_type(
    arguments: list[str], hint: str, tmp_path: Path
) -> None:
    done = trilane(*arguments, folder=tmp_path, XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    *_, told, action = done.stderr.splitlines()
    assert told.startswith("trilane: error: ")
    assert hint in told
    assert action.startswith("try: trilane ")
    assert list(tmp_path.rglob("*.*")) == []


@pytest.mark.parametrize(
    ("arguments", "code", "heavy"),
    [
        (["load", "--help"], 0, ["typer", "rich", "numpy", "trilane.cli"]),
        (["serve", "--help"], 0, ["typer", "rich", "numpy", "trilane.cli"]),
        (["race", "http://127.0.0.1:9/", "-H", "no colon"], 2, ["scipy.stats", "altair"]),
    ],
)
def test_an_answer_waits_for_no_import_that_it_does_not_need(
    arguments: list[str], code: int, heavy: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "trilane", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "trilane" in imported
    assert imported.isdisjoint(heavy)


def test_a_refused_port_ends_soon_and_says_so(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        done = trilane(
            *("race", "-k", f"http://127.0.0.1:{port}/", "--timeout", "2s"),
            *("--state", str(tmp_path)),
        )
    assert done.returncode == 1
    assert "warning: -k: no certificate is verified" in done.stderr
    assert "refused" in done.stderr.lower()
    assert "Traceback" not in done.stderr


def test_a_state_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = trilane("race", "--state", str(blocked / "state"), folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"trilane race: error: cannot write {blocked / 'state' / 'runs'}: Not a directory; "
        "name a folder that can be written: --state DIR\n"
    )


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&- <&-"])
def test_a_closed_stream_ends_no_command(closed: str) -> None:
    command = shlex.join([*TRILANE, "lab", "list"])
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec {command} {closed}"], capture_output=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_race_over_three_versions_follows_the_schema(
    quick: tuple[Path, Any], comparison_schema: Draft202012Validator
) -> None:
    made, _ = quick[1]
    assert [error.message for error in comparison_schema.iter_errors(made)] == []
    assert [arm["name"] for arm in made["arms"]] == ["h1", "h2", "h3"], made["absent"]
    for arm in made["arms"]:
        for run in (sample["run"] for sample in arm["samples"]):
            assert run["target"]["version"] == arm["version"]
            assert run["requests"]["ok"] > 0
            assert run["windows"]
            assert all(window["server_cpu_s"] is not None for window in run["windows"])
        for sample in arm["samples"]:
            assert sample["server"]["cpu_us_per_request"] > 0


def test_a_race_leaves_its_report_here_and_in_the_run_folder(quick: tuple[Path, Any]) -> None:
    folder, (_, errors) = quick
    [kept] = (folder / "runs").iterdir()
    assert (folder / "report.html").read_text() == (kept / "report.html").read_text()
    assert "report: report.html" in errors
    assert str(kept) in errors
    assert (kept / "manifest.json").is_file()


def test_pinning_is_recorded(quick: tuple[Path, Any]) -> None:
    made, _ = quick[1]
    pinning = made["ledger"]["machine"]["pinning"]
    if len(os.sched_getaffinity(0)) >= 2:
        assert pinning.startswith("server on CPU ")
        assert made["arms"][0]["samples"][0]["run"]["plan"]["cpus"] is not None
    else:
        assert pinning.startswith("none")


def test_a_breached_gate_of_a_sweep_is_exit_code_3(tmp_path: Path) -> None:
    done = trilane(
        *("race", "--h1", "--h2", "--baseline", "h2", *QUICK, "--blocks", "2", "--warmup", "100ms"),
        # HTTP/2 sends a fifth of the bytes, whatever the machine does meanwhile.
        *("--in-flight", "2,8", "--fail-if", "h1:bytes_per_request>1.5", "--pair", "h1:h2"),
        *("--state", str(tmp_path), "--format", "json"),
        folder=tmp_path,
    )
    made = json.loads(done.stdout)
    assert made["schema"] == "trilane.lab/1"
    assert [point["value"] for point in made["points"]] == [2, 8]
    valid = made["validity"]["verdict"] != "invalid"
    assert done.returncode == (3 if valid else 4), done.stderr
    if valid:
        assert [row["met"] for row in made["expect"]] == [False, False]


def test_text_output_ends_with_the_table(tmp_path: Path) -> None:
    done = trilane("race", "--h2", *QUICK, "--no-pin", "--state", str(tmp_path), folder=tmp_path)
    assert done.returncode in (0, 4), done.stderr
    assert "HTTP/2" in done.stdout.splitlines()[0]
    assert "requests/s" in done.stdout
    assert "pinning: none (not asked for)" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_a_missing_version_of_the_server_is_named(peers: Peers, tmp_path: Path) -> None:
    """The cleartext port speaks no TLS: every https arm is missing, and each says why."""
    right = peers["embedded"].url("h1", "/hello")
    wrong = right.replace("http://", "https://")
    state = ("--state", str(tmp_path))
    done = trilane("race", wrong, *QUICK, "--timeout", "2s", *state, folder=tmp_path)
    assert done.returncode == 1
    for title in ("HTTP/1.1", "HTTP/2", "HTTP/3"):
        assert title in done.stderr
    own = trilane("race", right, *QUICK, *state, folder=tmp_path)
    assert own.returncode in (0, 4), own.stderr
    assert "HTTP/2 (cleartext)" in own.stdout


def test_a_terminal_sees_how_much_time_is_left(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with (
        (tmp_path / "out").open("w") as out,
        subprocess.Popen(
            [
                *(*TRILANE, "race", "--h1", "--h2", *QUICK),
                *("--state", str(tmp_path), "--format", "json"),
            ],
            stdout=out,
            stderr=theirs,
            cwd=tmp_path,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        ),
    ):
        os.close(theirs)
        seen = b""
        # Linux answers EIO when the last writer has closed its end.
        with contextlib.suppress(OSError):
            while got := os.read(ours, 4096):
                seen += got
        os.close(ours)
    assert json.loads((tmp_path / "out").read_text())["arms"]
    assert re.search(rb"\d s left", seen)
    assert b"2/3" in seen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reports_what_is_there_stops_all_and_exits_with_130(
    number: signal.Signals, tmp_path: Path
) -> None:
    race = subprocess.Popen(
        [
            *(*TRILANE, "race", "--h1", "--h2", *QUICK, "--blocks", "500"),
            *("--state", str(tmp_path), "--format", "json"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    runs = tmp_path / "runs"
    wait_until(lambda: any(runs.glob("*/runs/1-02-*.json")), "there is a run of the second block")
    below = proc.descendants(race.pid)
    assert below
    race.send_signal(number)
    if number == signal.SIGTERM:
        # As timeout(1) does, for the group.
        race.send_signal(number)
    out, err = race.communicate(timeout=120)
    assert race.returncode == 130, err
    assert "Traceback" not in err
    made = json.loads(out)
    assert made["interrupted"]
    assert made["plan"]["blocks_done"] >= 1
    assert json.loads(next(runs.glob("*/manifest.json")).read_text())["status"] == "interrupted"
    wait_until(lambda: not any(map(is_alive, below)), "what the race started is gone")
    assert "to go on, type the same command again" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_inside_python_reaches_a_load(number: signal.Signals) -> None:
    asked = threading.Event()

    class Hello(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()
            asked.set()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        with hangups(signal.SIG_DFL):
            load = subprocess.Popen(
                [
                    *(*TRILANE, "load", url, "--h1", "-d", "600s", "-c", "2"),
                    *("--warmup", "0s", "--format", "json"),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        try:
            assert asked.wait(120)
            load.send_signal(number)
            out, _ = load.communicate(timeout=120)
        finally:
            load.kill()
            server.shutdown()
            thread.join()
    assert load.returncode == 130
    assert json.loads(out)["interrupted"]


def test_the_manual_holds_every_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = {
        f"{name} {below}".strip()
        for name, command in app.commands().commands.items()
        for below in getattr(command, "commands", [""])
    }
    # Those of `network` are known to Rust alone.
    assert there - {"network"} == {
        name for name in manual.COMMANDS if name and not name.startswith("network ")
    }
    # Each is a process that is asked for its help.
    monkeypatch.setattr(manual, "COMMANDS", ("race", "load", "network run"))
    assert manual.main([str(tmp_path)]) == 0
    written = (tmp_path / "manual.md").read_text()
    for command in manual.COMMANDS:
        assert f"## trilane {command}\n" in written
        page = f"trilane-{command.replace(' ', '-')}"
        assert (tmp_path / f"{page}.1").read_text().startswith(f".TH {page.upper()} ")


def test_a_race_for_capacity_searches_with_the_real_engine(peers: Peers, tmp_path: Path) -> None:
    """One connection, and 10 ms for each answer: no machine does more than 100 in a second."""
    shape = ["--h1", "--in-flight", "1", "--blocks", "1", "-d", "200ms", "--warmup", "0s"]
    asked = ["--search", "errors<1%", "-R", "60", *shape, "--format", "json"]
    url = peers["embedded"].url("h1", "/delay/10ms")
    done = trilane("race", url, *asked, "--state", str(tmp_path / "state"), folder=tmp_path)
    # 4 where the client was late on a busy machine.
    assert done.returncode in {0, 4}, done.stderr
    (arm,) = json.loads(done.stdout)["arms"]
    (found,) = (sample["run"]["capacity"] for sample in arm["samples"])
    assert found["goals"] == ["errors<1%"]
    # Of those due at the very end the last may be under way.
    assert found["low_per_s"] <= 106
    assert len(found["tried"]) >= 2 * found["repeats"]
    assert all(run["held"] == (run["why"] == []) for run in found["tried"])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="chart-load"' in page


def test_calls_are_raced(tmp_path: Path) -> None:
    done = trilane(
        *("race", "--grpc", "trilane.library.v1.Library/GetBook"),
        *("-b", '{"name": "shelves/1/books/{rand:1-100}"}', *QUICK),
        *("--format", "json", "--state", str(tmp_path)),
        folder=tmp_path,
    )
    assert done.returncode in (0, 4), done.stderr
    made = json.loads(done.stdout)
    assert [arm["name"] for arm in made["arms"]] == ["h2", "h3"]
    kept = [json.loads(file.read_text()) for file in tmp_path.glob("runs/*/runs/*.json")]
    # One of them is run twice, for the noise floor.
    assert len(kept) == 3
    for call in (run["grpc"] for run in kept):
        assert call["method"] == "trilane.library.v1.Library/GetBook"
        assert set(call["status"]) == {"OK"}
        assert call["messages"]["received"] == call["status"]["OK"] > 0
