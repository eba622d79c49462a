"""Two revisions of a small server, typed as a user types it: built, measured, judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from peers.running import absent
from trilane.lab.processes.launch import find_program

LIMIT_S = 300
SERVER = """\
import socketserver, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", 65536

    def do_GET(self):
        sum(range({work}))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass

class Server(socketserver.ThreadingMixIn, HTTPServer):
    daemon_threads = True

Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
# Several times the work of everything else that a request costs.
LIGHT, HEAVY = 1, 20_000
QUICK = ("--blocks", "7", "-c", "2", "-d", "300ms", "--warmup", "0s", "--no-pin")


@dataclass
class Repository:
    """A repository with a server, and the command in it."""

    program: str
    """git's."""
    folder: Path
    state: Path

    def commit(self, message: str, work: int) -> None:
        (self.folder / "app.py").write_text(SERVER.replace("{work}", str(work)))
        self.git("add", "app.py")
        self.git("commit", "--quiet", "--message", message)

    def git(self, *words: str) -> None:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        words = (self.program, *who, *words)
        subprocess.run(words, cwd=self.folder, check=True, timeout=LIMIT_S)

    def ab(self, *flags: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        serve = f"{sys.executable} app.py {{port}}"
        return subprocess.run(
            [
                *(sys.executable, "-m", "trilane", "ab", "--serve", serve),
                *("--state", str(self.state), "--report", str(self.state / "report.html")),
                *QUICK,
                *flags,
            ],
            cwd=folder or self.folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    program = find_program("git")
    if program is None:
        absent("git is not installed on this machine")
    made = Repository(program, tmp_path / "app", tmp_path / "state")
    made.folder.mkdir()
    made.state.mkdir()
    made.git("init", "--quiet", "--initial-branch", "main")
    made.commit("Serve", LIGHT)
    return made


def test_a_costlier_revision_breaches_the_budget(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "costly")
    repository.commit("Add <up>", HEAVY)
    told = repository.state / "told.md"
    build = "echo building; echo built >> log"
    flags = ("--build", build, "--budget", "cpu +50%", "--markdown", str(told))
    first = repository.ab(*flags, "--format", "json")
    assert first.returncode == 3, first.stderr
    assert "building main (" in first.stderr
    assert "building HEAD (" in first.stderr
    result = json.loads(first.stdout)
    [point] = result["points"]
    assert [arm["name"] for arm in point["comparison"]["arms"]] == ["base", "head"]
    assert result["experiment"]["title"] == "app: Add <up>"
    [gate] = result["expect"]
    assert (gate["arm"], gate["to"], gate["met"]) == ("head", "base", False)
    assert gate["interval"][0] > 1.5
    assert "| breached |" in told.read_text()
    page = (repository.state / "report.html").read_text()
    assert "Add &lt;up&gt;" in page
    # Built once: each tree was told so one time.
    again = repository.ab(*flags, "--new")
    assert again.returncode == 3, again.stderr
    assert "building" not in again.stderr
    logs = list(repository.state.glob("revisions/*/*/tree/log"))
    assert [log.read_text() for log in logs] == ["built\n", "built\n"]
    # The tree that the user works in is as it was.
    assert not (repository.folder / "log").exists()


def test_a_revision_against_itself_breaches_nothing(repository: Repository) -> None:
    (repository.folder / "app.py").write_text("not committed, not measured")
    done = repository.ab("--budget", "cpu +900%, rate -90%")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "what is not committed is not measured" in done.stderr
    assert "met" in done.stdout


def test_what_cannot_be_had_says_why(repository: Repository, tmp_path: Path) -> None:
    unknown = repository.ab("--head", "nowhere")
    assert unknown.returncode == 2
    assert "'nowhere' is no revision of" in unknown.stderr
    broken = repository.ab("--build", "echo this went wrong >&2; exit 7")
    assert broken.returncode == 1
    assert "ended with 7" in broken.stderr
    assert "  this went wrong" in broken.stderr
    slow = repository.ab("--build", "sleep 100", "--build-timeout", "100ms")
    assert slow.returncode == 1
    assert "was not built within 0.1 s: --build-timeout says" in slow.stderr
    elsewhere = repository.ab(folder=tmp_path)
    assert elsewhere.returncode == 1
    assert "is in no git repository" in elsewhere.stderr
    few = repository.ab("--blocks", "6")
    assert few.returncode == 2
    assert "give at least 7" in few.stderr
    for done in (unknown, broken, slow, elsewhere, few):
        assert "Traceback" not in done.stderr
