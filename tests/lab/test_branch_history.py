"""What `trilane ab` keeps of the revisions that it measured, and `trilane history --branch`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from lab.typed import trilane
from peers.running import absent
from trilane.lab.processes.launch import find_program

LIMIT_S = 300
WHO = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


def said(*words: str, at: Path) -> str:
    done = subprocess.run(
        words, cwd=at, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_the_commits_of_a_branch_are_in_its_history(tmp_path: Path) -> None:
    git = find_program("git")
    if git is None:
        absent("git is not installed on this machine")
    app, state = tmp_path / "app", tmp_path / "state"
    app.mkdir()
    commits = []
    said(git, "init", "--quiet", "--initial-branch", "main", at=app)
    for subject in ("First", "Second", "Third"):
        said(git, *WHO, "commit", "--quiet", "--allow-empty", "--message", subject, at=app)
        commits.append(said(git, "rev-parse", "HEAD", at=app).strip())
    said(git, "checkout", "--quiet", "-b", "topic", at=app)
    said(git, *WHO, "commit", "--quiet", "--allow-empty", "--message", "Try", at=app)

    def ab(*flags: str) -> None:
        report = str(tmp_path / "report.html")
        quick = ("--blocks", "7", "--repeat", "1", "--no-pin", "--report", report)
        words = ("ab", "--command", "true", "--state", str(state), *quick, *flags)
        done = trilane(*words, folder=app)
        assert done.returncode == 0, done.stderr

    ab("--base", "main~1", "--head", "main")
    ab("--base", "main")
    # As CI checks out: no branch, whose name is told.
    said(git, "checkout", "--quiet", "--detach", commits[1], at=app)
    ab("--base", commits[0], "--branch", "main")
    words = ("history", "--state", str(state), "--format", "json", "--branch")
    [main] = json.loads(trilane(*words, "main", folder=app).stdout)["series"]
    assert [value["commit"] for value in main["values"]] == [commits[2], commits[2], commits[1]]
    assert [value["subject"] for value in main["values"]] == ["Third", "Third", "Second"]
    assert main["steps"] == []
    [topic] = json.loads(trilane(*words, "topic", folder=app).stdout)["series"]
    assert [value["subject"] for value in topic["values"]] == ["Try"]
