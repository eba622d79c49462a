"""Two revisions of a git repository, each checked out in a working tree of its own and built.

The trees lie in the state folder, by repository and commit, and stay there, so that a revision is
built once. `git worktree list` names them, `git worktree remove` removes one.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from trilane import hiding
from trilane.lab.processes import launch, supervisor
from trilane.lab.processes.launch import find_program
from trilane.lab.processes.supervisor import Done, Late, NotStarted
from trilane.lab.storage.store import PRIVATE_FOLDER, locked, write_text

_GIT_S: Final = 600.0
_TAIL: Final = 12
_BRANCH: Final = re.compile(r"refs/(?:heads|remotes/[^/]+)/(.+)")


class RevisionFailed(RuntimeError):
    """A revision cannot be had or built; the message says why and what to do."""


class NoRevision(RevisionFailed):
    """What was typed names no revision."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A commit, as it was asked for."""

    asked: str
    commit: str
    """40 or 64 hexadecimal digits."""
    subject: str
    committed_at: str
    """UTC, RFC 3339."""
    branch: str | None = None
    """The branch that was asked for, or that is checked out where that is HEAD, without the name of
    a remote; None for others.
    """

    @property
    def short(self) -> str:
        """The commit as people write it."""
        return self.commit[:10]


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository, by the folder that has its working tree."""

    folder: Path

    @classmethod
    def at(cls, folder: Path) -> Repository:
        """The repository that a folder is in.

        Raises:
            RevisionFailed: it is in none, or git is not installed.
        """
        done = _git(folder, "rev-parse", "--show-toplevel")
        if done.code:
            raise RevisionFailed(f"{folder} is in no git repository: {done.why()}")
        return cls(Path(_line(done)))

    def revision(self, asked: str) -> Revision:
        """The commit that a branch, a tag or any other name of git's stands for.

        Raises:
            NoRevision: it stands for none.
        """
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{asked}^{{commit}}")
        done = _git(self.folder, *words)
        commit = _line(done)
        if done.code or not commit:
            raise NoRevision(f"{asked!r} is no revision of {self.folder}: see git log --all")
        when, subject = self._said("log", "-1", "--format=%ct%n%s", commit).split("\n", 1)
        at = datetime.fromtimestamp(int(when), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return Revision(asked, commit, subject.strip(), at, self._branch(asked))

    def _branch(self, asked: str) -> str | None:
        words = ("rev-parse", "--symbolic-full-name", "--end-of-options", asked)
        name = _line(_git(self.folder, *words)).splitlines()[-1:]
        found = _BRANCH.fullmatch(name[0]) if name else None
        return found[1] if found else None

    def has_changes(self) -> bool:
        """Whether files that git knows differ from the commit that is checked out."""
        return bool(self._said("status", "--porcelain", "--untracked-files=no").strip())

    def checked_out(self, revision: Revision, state: Path) -> Path:
        """The working tree of a revision, in the folder `state`.

        Raises:
            RevisionFailed: git cannot check it out.
        """
        place = self.place(revision, state)
        tree = place / "tree"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        with locked(place / ".lock"):
            if tree.is_dir():
                there = _git(tree, "rev-parse", "HEAD")
                if there.code == 0 and _line(there) == revision.commit:
                    return tree
                # What an interrupted start has left.
                shutil.rmtree(tree)
            self._said("worktree", "prune")
            self._said("worktree", "add", "--detach", "--force", str(tree), revision.commit)
            if (tree / ".gitmodules").exists():
                done = _git(tree, "submodule", "update", "--init", "--recursive")
                if done.code:
                    shutil.rmtree(tree)
                    raise RevisionFailed(f"submodules of {revision.short}: {done.why()}")
        return tree

    def place(self, revision: Revision, state: Path) -> Path:
        """The folder of a revision: its working tree, and what is known of its build."""
        whose = hashlib.sha256(str(self.folder).encode()).hexdigest()[:8]
        return state / "revisions" / f"{self.folder.name}-{whose}" / revision.commit[:12]

    def _said(self, *words: str) -> str:
        done = _git(self.folder, *words)
        if done.code:
            raise RevisionFailed(f"git {words[0]}: {done.why()}")
        return done.output.decode(errors="replace")


def build(
    place: Path, revision: Revision, command: str, limit_s: float, say: Callable[[str], None]
) -> None:
    """Run a shell command in the tree of a revision, unless it was built by the same before.

    What it prints goes to `build.log` in `place`.

    Raises:
        RevisionFailed: it failed, or took longer than `limit_s` seconds.
    """
    stamp, log = place / "built.json", place / "build.log"
    # What was typed may have secrets: a digest tells it from other commands.
    digest = hashlib.sha256(command.encode()).hexdigest()
    asked = msgspec.json.encode({"commit": revision.commit, "command": digest}).decode()
    shown = hiding.text(command)
    with locked(place / ".lock"):
        if stamp.is_file() and stamp.read_text(encoding="utf-8") == asked:
            return
        stamp.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
        say(f"building {revision.asked} ({revision.short}): {shown}")
        try:
            done = supervisor.finished(
                # All that it prints in the one log.
                ["/bin/sh", "-c", 'exec 1>&2; eval "$1"', "sh", command],
                limit_s=limit_s,
                log=log,
                cwd=place / "tree",
                environment=launch.of_one_tree(),
            )
        except Late:
            raise RevisionFailed(
                f"{revision.asked} was not built within {limit_s:g} s: --build-timeout says how"
                f" long it may take; its output is in {log}"
            ) from None
        except NotStarted as error:
            raise RevisionFailed(f"/bin/sh {error}") from error
        if done.code:
            raise RevisionFailed(
                f"{revision.asked} ({revision.short}) was not built: {shown} ended with"
                f" {done.code}; its output is in {log}:\n{_tail(log)}"
            )
        write_text(stamp, asked)


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(f"  {line}" for line in lines[-_TAIL:])


def _line(done: Done) -> str:
    return done.output.decode(errors="replace").strip()


def _git(folder: Path, *words: str) -> Done:
    program = find_program("git")
    if program is None:
        raise RevisionFailed("git is not installed on this machine")
    try:
        return supervisor.finished(
            [program, *words], limit_s=_GIT_S, cwd=folder, environment=launch.of_one_tree()
        )
    except (Late, NotStarted) as error:
        raise RevisionFailed(f"git {words[0]} {error}") from error
