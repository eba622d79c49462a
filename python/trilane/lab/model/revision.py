"""A commit of a repository that was measured, as run folders and their summaries keep it."""

from __future__ import annotations

from trilane.lab.model.arm import ArmName
from trilane.lab.model.record import Record


class MeasuredRevision(Record, frozen=True):
    """What one arm of a run is a revision of."""

    arm: ArmName
    """Name of the arm."""
    repository: str
    """Name of the repository's folder."""
    commit: str
    """40 or 64 hexadecimal digits."""
    subject: str
    """First line of the commit's message."""
    command: str
    """The shell command that was measured, or that starts the server that was."""
    branch: str | None = None
    """The branch that it was asked for by; absent where it was asked for otherwise."""

    @property
    def short(self) -> str:
        """Commit and subject, as people read them."""
        return f"{self.commit[:10]} {self.subject}"
